"""The groups of a ranking once all are in: the judge is learnt from all of them, and each is told anew.

What a group's tournament left is read again where it is needed, so that memory does not grow with the queries.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from harness.core.rankings import GroupRanking, Match, Ranked
from harness.ranking import (
    Comparisons,
    Conclusion,
    Fit,
    LearntJudge,
    Rule,
    ceiling_note,
    classes_of,
    comparisons_of,
    conclude,
    fit_by,
    learnt_from,
    prior_of,
    stack_classes,
    standings_of,
    without_ceiling_note,
)
from harness.tournament.group import Rules
from harness.tournament.judge_noise import judge_noise

LEARNT_FROM = 2000
"""More groups teach nothing of a judge that these have not taught; they are spread evenly over the ranking."""
_AT_ONCE = 64
"""Groups that are fitted, and in memory, together."""


StoredRanking = Callable[[str], GroupRanking]
"""From the id of a query to the ranking of its group as it stands."""


def settled(queries: Sequence[str], provisional: StoredRanking, rules: Rules) -> Iterator[GroupRanking]:
    """Yield the rankings that count, in the order of `queries`, from those that their groups had before all were in.

    The result depends on which queries there are, but not on their order.
    """
    return told_by(learnt_from_all(queries, provisional, rules), map(provisional, queries), rules)


def told_by(judge: LearntJudge, rankings: Iterable[GroupRanking], rules: Rules) -> Iterator[GroupRanking]:
    """Yield rankings told anew with a judge who is learnt already. Only some are in memory at a time."""
    left = iter(rankings)
    while some := list(islice(left, _AT_ONCE)):
        yield from _settled(some, judge, rules)


def learnt_from_all(queries: Sequence[str], provisional: StoredRanking, rules: Rules) -> LearntJudge:
    """Return the judge as the groups of a ranking show them."""
    names, groups = sorted(queries), list[Comparisons]()
    for at in range(min(len(names), LEARNT_FROM)):
        ranking = provisional(names[at * len(names) // min(len(names), LEARNT_FROM)])
        groups += (calls for calls in _calls(ranking, _classes(ranking, rules)) if calls.first.size)
    return learnt_from(groups, prior_of(rules.profile, rules.fit_version))


def _settled(some: Sequence[GroupRanking], judge: LearntJudge, rules: Rules) -> Iterator[GroupRanking]:
    classes = [_classes(ranking, rules) for ranking in some]
    fits = iter(fit_by(judge, [c for ranking, of in zip(some, classes, strict=True) for c in _calls(ranking, of)]))
    for ranking, of in zip(some, classes, strict=True):
        last = [r.index for r in ranking.rollouts if r.rank is not None and not _is_entrant(r)]
        alone = last if len(of) == 1 else ()
        anew = _told_anew(ranking, [_conclude(ranking, members, next(fits), alone) for members in of], last)
        note = ceiling_note(judge.at_ends) if of else None
        notes = without_ceiling_note(anew.notes)
        yield anew.model_copy(update={"notes": (*notes, note) if note else notes})


def _conclude(ranking: GroupRanking, members: Sequence[int], fit: Fit, last: Sequence[int]) -> Conclusion:
    matches, is_ranked = _matches(ranking, members), any(r.rank is not None for r in ranking.rollouts)
    rule = Rule("pooled", ranking.reward_from)
    standings = standings_of(members, matches)
    return conclude(standings, matches, rule=rule, failed_last=last, finished=is_ranked, fit=fit)


def _told_anew(ranking: GroupRanking, conclusions: Sequence[Conclusion], last: Sequence[int]) -> GroupRanking:
    if not conclusions:  # nobody took part
        return ranking.model_copy(update={"provisional": False})
    conclusion = conclusions[0] if len(conclusions) == 1 else stack_classes(conclusions, last)
    kept = {r.index: {"verified": r.verified, "explanation": r.explanation} for r in ranking.rollouts}
    anew = (conclusion.ranked.get(r.index, r).model_copy(update=kept[r.index]) for r in ranking.rollouts)
    is_ranked = any(r.rank is not None for r in ranking.rollouts)
    changes = {
        "provisional": False,
        "rollouts": tuple(anew),
        "signal": conclusion.signal if is_ranked else ranking.signal,
    }
    return ranking.model_copy(update=changes | judge_noise(conclusion)._asdict())


def _classes(ranking: GroupRanking, rules: Rules) -> list[list[int]]:
    """Return who met whom: all that ended well, or with --judge-when tied those of equal verifiable reward."""
    entrants = [r for r in ranking.rollouts if _is_entrant(r)]
    if rules.judge_when == "tied":
        return [members for members in classes_of({r.index: r.verified for r in entrants}) if members]
    return [[r.index for r in entrants]] if entrants else []


def _is_entrant(ranked: Ranked) -> bool:
    """Tell whether a rollout took part in the tournament: whoever did has a margin, and nobody else has."""
    return ranked.margin is not None


def _calls(ranking: GroupRanking, classes: Sequence[Sequence[int]]) -> list[Comparisons]:
    return [comparisons_of(members, _matches(ranking, members)) for members in classes]


def _matches(ranking: GroupRanking, members: Sequence[int]) -> list[Match]:
    within = set(members)
    return [match for match in ranking.matches if match.a in within]
