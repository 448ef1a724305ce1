"""The calls behind ranked groups, by class of rollouts that may meet, and the judge that all of them show."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from harness.core.rankings import GroupRanking, Match
from harness.ranking.comparisons import Comparisons
from harness.ranking.conclusions import comparisons_of
from harness.ranking.equal_rewards import classes_of
from harness.ranking.judge_prior import Prior
from harness.ranking.pooled import LearntJudge, learnt_from

_MOST_TRAINING = 512
"""Groups of a ranking that teach `pooled` the judge at most; more teach nothing that these have not."""


class RankedClass(NamedTuple):
    """Rollouts of a ranked group that may have met: all that ended well, or those of one verifiable reward."""

    entrants: list[int]
    matches: list[Match]

    @property
    def calls(self) -> Comparisons:
        """The judged calls, which number the entrants by their place."""
        return comparisons_of(self.entrants, self.matches)


def ranked_classes(ranking: GroupRanking, *, by_reward: bool) -> list[RankedClass]:
    """Return the classes of a group, the best first; `by_reward` is what --judge-when tied asks.

    Whoever took part has a margin, and nobody else has. Empty without a match.
    """
    if not ranking.matches:
        return []
    verified = {r.index: r.verified for r in ranking.rollouts if r.margin is not None}
    classes = classes_of(verified) if by_reward else [list(verified)]
    return [RankedClass(members, _within(ranking, members)) for members in classes if members]


def _within(ranking: GroupRanking, members: Sequence[int]) -> list[Match]:
    entrants = set(members)
    return [match for match in ranking.matches if match.a in entrants]


def judge_behind(
    queries: Sequence[str], ranking_of: Callable[[str], GroupRanking], prior: Prior, *, by_reward: bool
) -> LearntJudge:
    """Return the judge as the groups of a ranking show them, whatever the order of its queries."""
    rankings = (ranking_of(name) for name in learnt_from_queries(queries))
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
