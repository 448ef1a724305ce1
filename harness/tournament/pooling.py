"""The groups of a ranking once all are in: `pooled` learns the judge from all of them, and each is finalized by it.

Ranked by `pooled` a group gets its places then. Ranked by an estimator without a fit it keeps them, and gets the
probabilities and the signal that stand beside them.

What a group's tournament left is read again where it is needed, so that memory does not grow with the queries.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from harness.core.rankings import GroupRanking
from harness.ranking.ceiling import ceiling_note, without_ceiling_note
from harness.ranking.comparisons import with_chances
from harness.ranking.conclusions import Conclusion, conclude_again
from harness.ranking.estimators import secondary_fit
from harness.ranking.pooled import LearntJudge, fit_by
from harness.ranking.profile import prior_of
from harness.ranking.ranked_calls import judge_behind, ranked_classes
from harness.ranking.reward_classes import stack_classes
from harness.tournament.group import Rules

_AT_ONCE = 64
"""Groups that are fitted, and in memory, together."""


StoredRanking = Callable[[str], GroupRanking]
"""From the id of a query to the ranking of its group as it stands."""


def finalize(queries: Sequence[str], provisional: StoredRanking, rules: Rules) -> Iterator[GroupRanking]:
    """Yield the rankings that count, in the order of `queries`, from those that their groups had before all were in.

    The result depends on which queries there are, but not on their order.
    """
    return refit(learnt_from_all(queries, provisional, rules), map(provisional, queries), rules)


def learnt_from_all(queries: Sequence[str], provisional: StoredRanking, rules: Rules) -> LearntJudge:
    """Return the judge as the groups of a ranking show them."""
    return judge_behind(queries, provisional, prior_of(rules.profile), by_reward=rules.judge_when == "tied")


def refit(judge: LearntJudge, rankings: Iterable[GroupRanking], rules: Rules) -> Iterator[GroupRanking]:
    """Yield rankings finalized by a judge who is learnt already. Only some are in memory at a time."""
    left = iter(rankings)
    while some := list(islice(left, _AT_ONCE)):
        classes = [ranked_classes(ranking, by_reward=rules.judge_when == "tied") for ranking in some]
        fits = iter(with_chances(fit_by(judge, [part.calls for of_group in classes for part in of_group])))
        for ranking, of_group in zip(some, classes, strict=True):
            if not of_group:  # nobody met anybody
                yield ranking.model_copy(update={"provisional": False})
                continue
            last = [r.index for r in ranking.rollouts if r.rank is not None and r.margin is None]
            alone = last if len(of_group) == 1 else ()
            parts = [conclude_again(ranking, *part, next(fits), failed_last=alone) for part in of_group]
            yield _finalized(ranking, stack_classes(parts, last), judge.at_ends, rules)


def _finalized(ranking: GroupRanking, conclusion: Conclusion, at_ends: float, rules: Rules) -> GroupRanking:
    kept = {r.index: {"verified": r.verified, "explanation": r.explanation} for r in ranking.rollouts}
    places = [conclusion.ranked.get(r.index, r).model_copy(update=kept[r.index]) for r in ranking.rollouts]
    is_ranked = any(r.rank is not None for r in ranking.rollouts)
    note = ceiling_note(at_ends)
    changes = {
        "provisional": False,
        "rollouts": tuple(places),
        "signal": conclusion.signal if is_ranked else ranking.signal,
        "secondary_fit": secondary_fit(rules.estimator),
        "notes": (*without_ceiling_note(ranking.notes), *([note] if note else [])),
    }
    return ranking.model_copy(update=changes | conclusion.judge_figures)
