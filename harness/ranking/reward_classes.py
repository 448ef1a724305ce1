"""The classes of a group, by verifiable reward: a judge is needed inside of a class alone, and learnt from all."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from harness.core.rankings import GroupRanking, Match, Ranked
from harness.ranking.comparisons import Comparisons, Prior
from harness.ranking.conclusions import Conclusion, collect_calls
from harness.ranking.pooled import learnt_from
from harness.ranking.pooled_judge import LearntJudge
from harness.ranking.rewards import place, split_by_reward

_MOST_TRAINING = 512
"""Groups of a ranking that teach `pooled` the judge at most; more teach nothing that these have not."""


class RankedClass(NamedTuple):
    """Rollouts of a ranked group that may have met: all that ended well, or those of one verifiable reward."""

    entrants: list[int]
    matches: list[Match]

    @property
    def calls(self) -> Comparisons:
        """The judged calls, which number the entrants by their place."""
        return collect_calls(self.entrants, self.matches)


def ranked_classes(ranking: GroupRanking, *, by_reward: bool) -> list[RankedClass]:
    """Return the classes of a group, the best first; `by_reward` is what --judge-when tied asks.

    Whoever took part has a margin, and nobody else has. Empty without a match.
    """
    if not ranking.matches:
        return []
    verified = {r.index: r.verified for r in ranking.rollouts if r.margin is not None}
    classes = split_by_reward(verified) if by_reward else [list(verified)]
    return [
        RankedClass(members, [match for match in ranking.matches if match.a in entrants])
        for members in classes
        if (entrants := set(members))
    ]


def judge_behind(
    queries: Sequence[str], stored: Callable[[str], GroupRanking], prior: Prior, *, by_reward: bool
) -> LearntJudge:
    """Return the judge as the groups of a ranking show them, whatever the order of its queries."""
    rankings = (stored(name) for name in learnt_from_queries(queries))
    return learnt_from_calls(
        (some.calls for ranking in rankings for some in ranked_classes(ranking, by_reward=by_reward)), prior
    )


def learnt_from_queries(queries: Sequence[str]) -> list[str]:
    """Return the queries whose groups teach the judge: all, or so many spread evenly, whatever their order."""
    names = sorted(queries)
    count = min(len(names), _MOST_TRAINING)
    return [names[at * len(names) // count] for at in range(count)]


def learnt_from_calls(classes: Iterable[Comparisons], prior: Prior) -> LearntJudge:
    """Return the judge as the calls of classes show them."""
    return learnt_from([calls for calls in classes if calls.first.size], prior)


def stack_classes(classes: Sequence[Conclusion], failed_last: Sequence[int]) -> Conclusion:
    """Put classes, best first, one above the other, and `failed_last` below: the order inside a class stays.

    A class alone stays as it is, and has its failed already.

    If a class has no ranks, the group has none, and no signal; else the signal is `ok`: two classes differ for certain.
    The fit is that of the class with the most calls; only members of the best class can be best, and without ranks and
    their probabilities nobody has one. Rewards are from ranks.
    """
    if len(classes) == 1:
        return classes[0]
    keys = {e: (-level, -r.rank) for level, c in enumerate(classes) for e, r in c.ranked.items() if r.rank is not None}
    whole = len(keys) == sum(len(c.ranked) for c in classes)
    places = place(keys, failed_last) if whole else {}
    told_apart = whole or any(r.p_best is not None for r in classes[0].ranked.values())
    ranked: dict[int, Ranked] = {}
    for level, conclusion in enumerate(classes):
        for entrant, inside in conclusion.ranked.items():
            p_best = inside.p_best if not level else 0.0 if told_apart else None
            here = places[entrant]._asdict() if whole else {"rank": None, "reward": None, "advantage": None}
            ranked[entrant] = inside.model_copy(update={**here, "p_best": p_best, "p_above_mean": None})
    ranked |= {e: Ranked(index=e, **(places[e]._asdict() if whole else {})) for e in failed_last}
    return Conclusion(
        ranked=ranked,
        signal="ok" if whole else "none",
        fit=max((c.fit for c in classes if c.fit), key=lambda fit: fit.calls, default=None),
        note=next((c.note for c in classes if c.note), None),
    )
