"""At which queries a gate looks, and what each look says."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Self

from harness.comparison.clusters import Clusters, cluster_of, mean_by_query
from harness.comparison.forecast import t_value
from harness.comparison.intervals import interval_of_share
from harness.comparison.libraries import statistics_module
from harness.comparison.looks import critical_values
from harness.comparison.outcomes import Pairs, closed, outcomes, pairs_of
from harness.core.comparisons import ComparedQuery, Interval
from harness.core.gates import GateFinding, GateLook

FEWEST_QUERIES = 20
"""A gate, and each look of a gate, rests on so many queries at least."""
FEWEST_CLUSTERS = 8
"""And on so many clusters: with fewer, five or six that are all lost would not be rare enough to speak of."""
SIDES = (0, 1)


@dataclass(frozen=True)
class LookPlan:
    """Which queries are judged up to each look, and how the looks are to be taken."""

    parts: tuple[tuple[str, ...], ...]
    """Content hashes: a look is taken after each part."""
    margin: float
    clusters: Mapping[str, str] | None = None
    seed: int = 0

    @classmethod
    def of(
        cls,
        queries: Sequence[str],
        looks: int,
        margin: float,
        clusters: Mapping[str, str] | None = None,
        seed: int = 0,
    ) -> Self:
        """Return the plan of a gate with so many looks, or fewer where a look would rest on too few queries."""
        return cls(tuple(map(tuple, steps(queries, looks, clusters, seed))), margin, clusters, seed)

    @cached_property
    def shares(self) -> tuple[float, ...]:
        """The share of the queries that is judged at each look; the last one is 1."""
        sizes = list(accumulate(map(len, self.parts)))
        return tuple(size / sizes[-1] for size in sizes)

    def looks(self, judged: Mapping[str, ComparedQuery]) -> tuple[GateLook, ...]:
        """Return the looks that can be taken, up to the first one that tells; `judged` holds queries by content."""
        taken: list[GateLook] = []
        so_far: list[ComparedQuery] = []
        for number, part in enumerate(self.parts):
            if not judged.keys() >= set(part):
                break
            so_far += [judged[query] for query in part]
            taken.append(self._look(number, so_far))
            if taken[-1].finding != "cannot tell":
                break
        return tuple(taken)

    def _look(self, number: int, queries: Sequence[ComparedQuery]) -> GateLook:
        """Return what the queries judged so far say of the second side.

        The interval of a gate with one look is that of the comparison. Pairs that stayed open count against any
        finding: the interval reaches as low as if all of them were lost, and as high as if all were won.
        """
        pairs = pairs_of(queries, SIDES)
        summed = Clusters.of(mean_by_query(outcomes(pairs)), self.clusters)
        critical = critical_values(self.shares)[number]
        rate = interval_at(summed, critical) if len(self.parts) > 1 else interval_of_share(summed, self.seed)
        interval = _with_open_pairs(rate, pairs, self.clusters)
        return GateLook(
            queries=summed.queries,
            critical=critical,
            win_rate=rate.value,
            interval=interval,
            finding=finding(interval, self.margin),
        )


def finding(interval: tuple[float, float], margin: float) -> GateFinding:
    """Return what an interval of the win rate says.

    Not worse: the lower end is above 0.5 − margin. Worse: the upper end is below 0.5. An interval that lies between
    the two is not worse: the second side loses, but by less than the margin.
    """
    low, high = interval
    if low > 0.5 - margin:
        return "not worse"
    return "worse" if high < 0.5 else "cannot tell"


def steps(
    queries: Sequence[str], looks: int, clusters: Mapping[str, str] | None = None, seed: int = 0
) -> list[list[str]]:
    """Return the queries in as many parts as there are looks: a look is taken after each of them.

    The parts are of about one size, and a cluster is in one part. The order is drawn from the seed and the clusters'
    names, so that it depends on nothing else. A look that would rest on too few queries or clusters is left out.
    """
    members: dict[tuple[bool, str], list[str]] = {}
    for query in sorted(queries):
        members.setdefault(cluster_of(query, clusters), []).append(query)
    order = sorted(members, key=lambda cluster: hashlib.sha256(f"{seed}:{cluster}".encode()).digest())
    parts: list[list[str]] = [[]]
    size = looks_due = 0
    for place, cluster in enumerate(order, start=1):
        parts[-1] += members[cluster]
        size += len(members[cluster])
        due = size * looks // len(queries)
        if looks_due < due < looks and size >= FEWEST_QUERIES and place >= FEWEST_CLUSTERS:
            parts.append([])
            looks_due = due
    return parts


def interval_at(clusters: Clusters, critical: float) -> Interval:
    """Return the mean of shares with an interval by t of so many standard errors, at the tail of the standard normal.

    Where all clusters say the same, it holds at least what the next clusters can change (see `interval_of_share`).
    """
    if clusters.count < FEWEST_CLUSTERS:
        return Interval(value=clusters.mean if clusters.count else 0.5, low=0.0, high=1.0)
    tail = float(statistics_module("scipy.special").ndtr(-critical))
    half = t_value(critical, clusters.count - 1) * (clusters.spread or 0.0) / clusters.count**0.5
    low, high = clusters.mean - half, clusters.mean + half
    if clusters.dissenters < FEWEST_CLUSTERS:
        unseen = 1 - tail ** (1 / clusters.count)
        shrunk = clusters.mean * (1 - unseen)
        low, high = min(low, shrunk), max(high, shrunk + unseen)
    return Interval(value=clusters.mean, low=max(0.0, low), high=min(1.0, high))


def _with_open_pairs(rate: Interval, pairs: Pairs, clusters: Mapping[str, str] | None) -> tuple[float, float]:
    if all(pair.outcome is not None for listed in pairs.values() for pair in listed):
        return rate.low, rate.high
    worst, best = (Clusters.of(mean_by_query(closed(pairs, outcome)), clusters).mean for outcome in (0.0, 1.0))
    return max(0.0, rate.low + min(0.0, worst - rate.value)), min(1.0, rate.high + max(0.0, best - rate.value))
