"""What the pairs of two sides say, seen from the second side: by query, and summed up by cluster."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from harness.core.comparisons import ComparedQuery, ComparedRollout, CrossMatch, ForfeitedBy
from harness.core.records import Role

Numbers = NDArray[np.float64]

INTERVAL_VERSION = 2
"""How intervals of clusters are made: 2 since their sizes count. A comparison that 1 made says what it said."""


class OfOneSize(dict[str, str]):
    """The clusters of a comparison of interval version 1: they count as if they were of one size, which is too many."""


NEGLIGIBLE = 1e-12
"""Below this a difference is rounding."""


@dataclass(frozen=True, eq=False)
class Clusters:
    """Sums of a figure over the queries of each cluster [C], and how many queries there are [C].

    The clusters stand in the order of their names, so that the same data give the same figures in whatever order they
    come.
    """

    sums: Numbers
    sizes: Numbers
    of_one_size: bool = False

    @classmethod
    def of(cls, means: Mapping[str, float], clusters: Mapping[str, str] | None = None) -> Self:
        """Sum the figure of each query by cluster. A query that `clusters` does not name is a cluster of its own."""
        places: dict[tuple[bool, str], list[float]] = {}
        for query in sorted(means):
            places.setdefault(cluster_name(query, clusters), []).append(means[query])
        listed = [places[name] for name in sorted(places)]
        sums, sizes = (np.array([*map(figure, listed)], np.float64) for figure in (sum, len))
        return cls(sums, sizes, isinstance(clusters, OfOneSize))

    @property
    def count(self) -> int:
        """C, the number of clusters."""
        return len(self.sums)

    @property
    def queries(self) -> int:
        """How many queries the clusters hold."""
        return int(self.sizes.sum())

    @cached_property
    def mean(self) -> float:
        """The mean over queries: a ratio of sums, for clusters differ in size. 0 of nothing."""
        return float(self.sums.sum() / self.sizes.sum()) if self.count else 0.0

    @cached_property
    def as_equal(self) -> tuple[tuple[float, float], ...]:
        """How many clusters of one size these are worth and the spread of those, as `equal_clusters` says: one or two.

        A spread is the standard deviation of the clusters' means. Nothing below two clusters.
        """
        if self.count < 2:
            return ()
        least = NEGLIGIBLE * max(1.0, abs(self.mean))
        worths = equal_clusters(self.sums, self.sizes, of_one_size=self.of_one_size)
        return tuple((count, float(spread) if spread > least else 0.0) for count, spread in worths)

    @property
    def fewest(self) -> float:
        """As how many clusters of one size these count at least."""
        return min((count for count, _ in self.as_equal), default=self.count)

    @property
    def dissenters(self) -> int:
        """How many clusters have another mean than the one that most have."""
        means = np.round(self.sums / self.sizes, 9)
        return self.count - int(np.unique(means, return_counts=True)[1].max()) if self.count else 0


def equal_clusters(sums: Numbers, sizes: Numbers, *, of_one_size: bool = False) -> list[tuple[float, Numbers]]:
    """Return as how many clusters of one size clusters of `sizes` [C] count, and the spread [...] of `sums` [..., C].

    The spread over the root of the count is the standard error of the mean, and the count less one its degrees of
    freedom: CR2 with those of Satterthwaite (R. M. Bell and D. F. McCaffrey, Survey Methodology 28, 2002; J. E.
    Pustejovsky and E. Tipton, J. Bus. Econ. Stat. 36, 2018), in closed form for a mean. Once with the variance of a
    cluster's sum proportional to its size (its queries have nothing in common), once to its square (they say the same).
    Few clusters tell too little to choose between the two: whoever asks takes the wider. Clusters of one size are C
    with the standard deviation of their means, by both; `of_one_size` takes others so.
    """
    total, count = sizes.sum(), len(sizes)
    residuals = sums - (sums.sum(-1) / total)[..., None] * sizes
    if of_one_size or (sizes == sizes[0]).all():
        return [(float(count), np.sqrt((residuals**2).sum(-1) / (count - 1)) / sizes.mean())]
    share = sizes / total
    worths: list[tuple[float, Numbers]] = []
    for variance in (sizes, sizes**2):
        whole = variance.sum()
        common = share * share * whole - 2 * share * variance  # a residual's variance is `variance + common`
        weight = variance / (variance + common) / total**2
        a, b, c = ((weight * part).sum() for part in (share**2, share * variance, variance**2))
        crossed = 2 * a * c + whole**2 * a**2 + 2 * b**2 - 4 * whole * a * b
        squares = (weight**2 * variance * (variance + 2 * common)).sum() + crossed
        worth = float((whole / total**2) ** 2 / squares) + 1
        worths.append((worth, np.sqrt((weight * residuals**2).sum(-1) * worth)))
    return worths


def cluster_name(query: str, clusters: Mapping[str, str] | None) -> tuple[bool, str]:
    """Name the cluster of a query: the one that `clusters` names, or one of its own."""
    named = clusters or {}
    return query in named, named.get(query, query)


def split_alone(by_query: Mapping[str, Sequence[float]]) -> Mapping[str, Sequence[float]]:
    """Return the figures by query; of one query alone each by itself, as if it were a query's."""
    if len(by_query) != 1:
        return by_query
    return {f"{place}": [value] for values in by_query.values() for place, value in enumerate(values)}


def mean_by_query(figures: Mapping[str, Iterable[float]]) -> dict[str, float]:
    """Return the mean of each query's figures, without the queries that have none."""
    listed: dict[str, list[float]] = {query: list(values) for query, values in figures.items()}
    return {query: sum(values) / len(values) for query, values in listed.items() if values}


def ratio(sums: Any, sizes: Any, axis: int = -1) -> Any:
    """Return the ratio of sums along an axis: the mean over queries of drawn clusters."""
    return sums.sum(axis) / sizes.sum(axis)


@dataclass(frozen=True)
class Pair:
    """A pair of rollouts, seen from the second side."""

    outcome: float | None
    """1 for a win, one half for a tie, 0 for a loss; None while the pair is open."""
    margin: float | None = None
    """Score of the second side less that of the first."""
    forfeit: ForfeitedBy | None = None
    """Who failed by the agent's own making."""
    flipped: bool = False
    both_orders: bool = False
    lengths: tuple[int | None, int | None] = (None, None)
    """Characters of the two answers."""
    said: float | None = None
    """The outcome as people have it: the mean of those who labelled the pair; None without a label."""
    weight: float = 1.0
    """Of a label: a number in proportion to one divided by the chance that the pair had to be drawn."""


Pairs = Mapping[str, Sequence[Pair]]
"""By query."""
PairPlace = tuple[str, tuple[int, int], int, int]
"""A query's content hash, the places of two sides, and the index of each one's rollout."""


@dataclass(frozen=True)
class PairLabel:
    """What people said of a pair."""

    said: float
    """What the second side gets; of several people their mean."""
    weight: float = 1.0
    """As `Pair.weight`."""


PairLabels = Mapping[PairPlace, PairLabel]


def side_pairs(
    queries: Iterable[ComparedQuery],
    sides: tuple[int, int],
    role: Role = "sample",
    labels: PairLabels | None = None,
) -> dict[str, list[Pair]]:
    """Return the pairs of two sides by query, the smaller place first; of `role` anchor: the anchors' pairs."""
    of_people = labels or {}

    def seen(query: ComparedQuery, match: CrossMatch) -> Pair:
        before, after = match.score_first, match.score_second
        first, second = (rollout.answer_length if rollout else None for rollout in paired_rollouts(query, match))
        label = of_people.get((query.query, match.sides, match.first, match.second))
        return Pair(
            outcome=match.outcome,
            margin=None if before is None or after is None else after - before,
            forfeit=match.forfeit,
            flipped=match.flipped,
            both_orders=len(set(match.shown_first)) == 2,
            lengths=(first, second),
            said=label and label.said,
            weight=label.weight if label else 1.0,
        )

    return {query.query: [seen(query, match) for match in query.pairs(sides, role)] for query in queries}


def paired_rollouts(query: ComparedQuery, match: CrossMatch) -> Iterator[ComparedRollout | None]:
    """Yield the rollout of each side of a match; None for one that the query does not hold."""
    for side, index in zip(match.sides, (match.first, match.second), strict=True):
        yield next((rollout for rollout in query.rollouts[side] if rollout.index == index), None)


def of_pairs(pairs: Pairs, *, forfeits: bool = True) -> dict[str, list[float]]:
    """Return the outcomes of the pairs that are not open, by query; perhaps without those that a failure decided."""
    return {
        query: [pair.outcome for pair in listed if pair.outcome is not None and (forfeits or not pair.forfeit)]
        for query, listed in pairs.items()
    }


def bounds(pairs: Pairs, clusters: Mapping[str, str] | None = None) -> tuple[float, float]:
    """Return the win rate with all open pairs lost, and with all of them won; (0, 1) of nothing."""

    def closed(outcome: float) -> Clusters:
        outcomes = {q: [outcome if p.outcome is None else p.outcome for p in listed] for q, listed in pairs.items()}
        return Clusters.of(mean_by_query(outcomes), clusters)

    worst, best = closed(0.0), closed(1.0)
    return (worst.mean, best.mean) if worst.count else (0.0, 1.0)
