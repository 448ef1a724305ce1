"""The groups of a ranking once all are in: `pooled` learns the judge from all of them, and each is told anew.

Ranked by `pooled` a group gets its places then. Ranked by an estimator without a fit it keeps them, and gets the
probabilities and the signal that stand beside them.

What a group's tournament left is read again where it is needed, so that memory does not grow with the queries.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from harness.core.rankings import GroupRanking
from harness.ranking.ceiling import ceiling_note, without_ceiling_note
from harness.ranking.comparisons import Fit
from harness.ranking.conclusions import Conclusion, Rule, conclude, with_secondary_fit
from harness.ranking.fit_versions import secondary_fit
from harness.ranking.pooled import LearntJudge, fit_by
from harness.ranking.profile import prior_of
from harness.ranking.ranked_calls import RankedClass, judge_behind, ranked_classes
from harness.ranking.reward_classes import stack_classes
from harness.ranking.topology import standings_of
from harness.tournament.group import Rules
from harness.tournament.judge_noise import judge_noise

_AT_ONCE = 64
"""Groups that are fitted, and in memory, together."""


StoredRanking = Callable[[str], GroupRanking]
"""From the id of a query to the ranking of its group as it stands."""


def finalize(queries: Sequence[str], provisional: StoredRanking, rules: Rules) -> Iterator[GroupRanking]:
    """Yield the rankings that count, in the order of `queries`, from those that their groups had before all were in.

    The result depends on which queries there are, but not on their order.
    """
    return refit(learnt_from_all(queries, provisional, rules), map(provisional, queries), rules)


def refit(judge: LearntJudge, rankings: Iterable[GroupRanking], rules: Rules) -> Iterator[GroupRanking]:
    """Yield rankings told anew with a judge who is learnt already. Only some are in memory at a time."""
    left = iter(rankings)
    while some := list(islice(left, _AT_ONCE)):
        yield from _settled(some, judge, rules)


def learnt_from_all(queries: Sequence[str], provisional: StoredRanking, rules: Rules) -> LearntJudge:
    """Return the judge as the groups of a ranking show them."""
    prior = prior_of(rules.profile, rules.fit_version)
    by_reward, version = rules.judge_when == "tied", rules.fit_version
    return judge_behind(queries, provisional, prior, by_reward=by_reward, fit_version=version)


def _settled(some: Sequence[GroupRanking], judge: LearntJudge, rules: Rules) -> Iterator[GroupRanking]:
    classes = [ranked_classes(ranking, by_reward=rules.judge_when == "tied") for ranking in some]
    fits = iter(fit_by(judge, [of_class.calls for of_group in classes for of_class in of_group]))
    for ranking, of_group in zip(some, classes, strict=True):
        last = [r.index for r in ranking.rollouts if r.rank is not None and r.margin is None]
        alone = last if len(of_group) == 1 else ()
        anew = _told_anew(ranking, [_conclude(ranking, some, next(fits), alone) for some in of_group], last, rules)
        note = ceiling_note(judge.at_ends) if of_group else None
        notes = without_ceiling_note(anew.notes)
        yield anew.model_copy(update={"notes": (*notes, note) if note else notes})


def _conclude(ranking: GroupRanking, of_class: RankedClass, fit: Fit, last: Sequence[int]) -> Conclusion:
    entrants, matches = of_class
    if ranking.estimator != "pooled":
        within = [r for r in ranking.rollouts if r.index in set(entrants)]
        return with_secondary_fit(within, matches, fit, failed_last=last)
    is_ranked = any(r.rank is not None for r in ranking.rollouts)
    rule = Rule("pooled", ranking.reward_from)
    standings = standings_of(entrants, matches)
    return conclude(standings, matches, rule=rule, failed_last=last, finished=is_ranked, fit=fit)


def _told_anew(
    ranking: GroupRanking, conclusions: Sequence[Conclusion], last: Sequence[int], rules: Rules
) -> GroupRanking:
    if not conclusions:  # nobody met anybody
        return ranking.model_copy(update={"provisional": False})
    conclusion = conclusions[0] if len(conclusions) == 1 else stack_classes(conclusions, last)
    kept = {r.index: {"verified": r.verified, "explanation": r.explanation} for r in ranking.rollouts}
    anew = (conclusion.ranked.get(r.index, r).model_copy(update=kept[r.index]) for r in ranking.rollouts)
    is_ranked = any(r.rank is not None for r in ranking.rollouts)
    changes = {
        "provisional": False,
        "rollouts": tuple(anew),
        "signal": conclusion.signal if is_ranked else ranking.signal,
        "secondary_fit": secondary_fit(rules.estimator, rules.fit_version),
    }
    return ranking.model_copy(update=changes | judge_noise(conclusion)._asdict())
