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

    @classmethod
    def of(cls, means: Mapping[str, float], clusters: Mapping[str, str] | None = None) -> Self:
        """Sum the figure of each query by cluster. A query that `clusters` does not name is a cluster of its own."""
        places: dict[tuple[bool, str], list[float]] = {}
        for query in sorted(means):
            places.setdefault(cluster_name(query, clusters), []).append(means[query])
        listed = [places[name] for name in sorted(places)]
        return cls(np.array([sum(m) for m in listed], np.float64), np.array([len(m) for m in listed], np.float64))

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
    def spread(self) -> float | None:
        """The standard deviation between clusters: that of the mean, times the root of C. None below two clusters.

        Where clusters are of one size this is the standard deviation of their means. Where they are not it is that of
        the ratio of sums, linearized (W. G. Cochran, Sampling Techniques, 1977, section 6.4).
        """
        if self.count < 2:
            return None
        deviations = self.sums - self.mean * self.sizes
        squares = float((deviations**2).sum()) / (self.count - 1)
        spread = float(np.sqrt(squares)) / float(self.sizes.mean())
        return spread if spread > NEGLIGIBLE * max(1.0, abs(self.mean)) else 0.0

    @property
    def dissenters(self) -> int:
        """How many clusters have another mean than the one that most have."""
        means = np.round(self.sums / self.sizes, 9)
        return self.count - int(np.unique(means, return_counts=True)[1].max()) if self.count else 0


def cluster_name(query: str, clusters: Mapping[str, str] | None) -> tuple[bool, str]:
    """Name the cluster of a query: the one that `clusters` names, or one of its own."""
    named = clusters or {}
    return query in named, named.get(query, query)


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


Pairs = Mapping[str, Sequence[Pair]]
"""By query."""


def side_pairs(
    queries: Iterable[ComparedQuery], sides: tuple[int, int], role: Role = "sample"
) -> dict[str, list[Pair]]:
    """Return the pairs of two sides by query, the smaller place first; of `role` anchor: the anchors' pairs."""

    def seen(query: ComparedQuery, match: CrossMatch) -> Pair:
        before, after = match.score_first, match.score_second
        first, second = (rollout.answer_length if rollout else None for rollout in paired_rollouts(query, match))
        return Pair(
            outcome=match.outcome,
            margin=None if before is None or after is None else after - before,
            forfeit=match.forfeit,
            flipped=match.flipped,
            both_orders=len(set(match.shown_first)) == 2,
            lengths=(first, second),
        )

    return {query.query: [seen(query, match) for match in query.pairs(sides, role)] for query in queries}


def paired_rollouts(query: ComparedQuery, match: CrossMatch) -> Iterator[ComparedRollout | None]:
    """Yield the rollout of each side of a match; None for one that the query does not hold."""
    for side, index in zip(match.sides, (match.first, match.second), strict=True):
        yield next((rollout for rollout in query.rollouts[side] if rollout.index == index), None)


def outcomes(pairs: Pairs, *, forfeits: bool = True) -> dict[str, list[float]]:
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
