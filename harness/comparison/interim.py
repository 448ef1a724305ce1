"""The interim analyses of a gate: at which queries they are, the boundaries that they take, and what each one says.

The error rate is spent over the analyses by the function of O'Brien and Fleming's type that Lan and DeMets give
(Biometrika 70, 1983, page 659): hardly anything at the first ones, nearly all of it at the last one.
"""

import hashlib
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import accumulate, pairwise
from typing import Self

import numpy as np

from harness.comparison.intervals import interval_of_share, scipy, t_value, with_unseen
from harness.comparison.outcomes import Clusters, Numbers, bounds, cluster_name, mean_by_query, of_pairs, side_pairs
from harness.core.comparisons import ComparedQuery, Interval
from harness.core.gates import GateFinding, InterimAnalysis

ONE_SIDED = 0.025
"""The error rate on each side: together they are the 5 % of a 95 % interval."""
_FAR = 9.0
"""Standard deviations beyond which a normal density is taken for nothing."""
_NEVER = 40.0
_NOTHING = 1e-18
"""An error rate for which no boundary is worked out: no difference ends the comparison then."""


def alpha_spent(share: float) -> float:
    """Return how much of the error rate α of a side is spent after a share of the data: 2 − 2Φ(z(1 − α/2)/√share)."""
    special = scipy("special")
    return float(2 * special.ndtr(special.ndtri(ONE_SIDED / 2) / share**0.5))


@cache
def critical_values(shares: tuple[float, ...]) -> tuple[float, ...]:
    """Return for each analysis how many standard errors a difference must have to end the comparison there.

    `shares` says how much of the data is in at each analysis, rising to 1. The values hold for each side: a true null
    hypothesis is rejected at any analysis with probability `ONE_SIDED`. They are found one after the other from the
    density of the walk that no analysis has ended (Armitage, McPherson and Rowe, J. R. Statist. Soc. A 132, 1969, page
    235).
    """

    def overspent(z: float, walk: _Walk, spent: float) -> float:
        return walk.above(z) - spent

    values: list[float] = []
    for k, share in enumerate(shares):
        spent = alpha_spent(share) - (alpha_spent(shares[k - 1]) if k else 0.0)
        if spent < _NOTHING:
            values.append(_NEVER)
            continue
        *_, walk = _walks(shares[: k + 1], [-_FAR] * k, values)
        values.append(float(scipy("optimize").brentq(overspent, -_FAR, _NEVER, (walk, spent), xtol=1e-10)))
    return tuple(values)


def exits(shares: Sequence[float], high: Sequence[float], low: Sequence[float]) -> list[tuple[float, float]]:
    """Return how probably a standard normal walk leaves a corridor at each analysis: above `high`, and below `low`.

    At each analysis it is a standard normal z whose correlation with the one before is √(share before / share).
    """
    walks = zip(_walks(shares, low, high), low, high, strict=True)
    return [(walk.above(ceiling), walk.below(min(floor, ceiling))) for walk, floor, ceiling in walks]


@dataclass(frozen=True)
class _Walk:
    """The walk before an analysis: the points where it may stand, the weight of each, and its step up to there."""

    points: Numbers
    weights: Numbers
    share: float
    step: float

    def above(self, z: float) -> float:
        return float(self.weights @ scipy("special").ndtr((self.points - z * self.share**0.5) / self.step**0.5))

    def below(self, z: float) -> float:
        return float(self.weights @ scipy("special").ndtr((z * self.share**0.5 - self.points) / self.step**0.5))


def _walks(shares: Sequence[float], lows: Sequence[float], highs: Sequence[float]) -> Iterator[_Walk]:
    """Yield the walk before each analysis; it has stayed between the bounds of the analyses before."""
    walk = _Walk(np.zeros(1), np.ones(1), shares[0], shares[0])
    yield walk
    nodes, lengths = _nodes()
    for (before, share), low, high in zip(pairwise(shares), lows, highs, strict=False):
        bottom, top = max(low, -_FAR) * before**0.5, min(high, _FAR) * before**0.5
        half = max(top - bottom, 0.0) / 2
        points = bottom + half * (nodes + 1)
        distance = (points[:, None] - walk.points[None, :]) / walk.step**0.5
        density = np.exp(-(distance**2) / 2) @ walk.weights / (2 * np.pi * walk.step) ** 0.5
        walk = _Walk(points, density * lengths * half, share, share - before)
        yield walk


@cache
def _nodes() -> tuple[Numbers, Numbers]:
    """Return the points and weights of Gauss and Legendre's quadrature between −1 and 1."""
    nodes, lengths = np.polynomial.legendre.leggauss(100)
    return nodes, lengths


FEWEST_QUERIES = 20
"""A gate, and each analysis of a gate, rests on so many queries at least."""
FEWEST_CLUSTERS = 8
"""And on so many clusters: with fewer, five or six that are all lost would not be rare enough to speak of."""


@dataclass(frozen=True)
class InterimPlan:
    """Which queries are judged up to each analysis, and how the analyses are to be taken."""

    parts: tuple[tuple[str, ...], ...]
    """Content hashes: an analysis is taken after each part."""
    margin: float
    clusters: Mapping[str, str] | None = None
    seed: int = 0

    @classmethod
    def of(
        cls, queries: Sequence[str], looks: int, margin: float, clusters: Mapping[str, str] | None = None, seed: int = 0
    ) -> Self:
        """Return the plan of a gate with so many analyses, or fewer where an analysis would rest on too few queries.

        The parts are of about one size, and a cluster is in one part. The order is drawn from the seed and the
        clusters' names, so that it depends on nothing else.
        """
        members: dict[tuple[bool, str], list[str]] = {}
        for query in sorted(queries):
            members.setdefault(cluster_name(query, clusters), []).append(query)
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
        return cls(tuple(map(tuple, parts)), margin, clusters, seed)

    @property
    def sizes(self) -> tuple[tuple[int, ...], ...]:
        """How many queries each cluster of each part has."""
        return tuple(tuple(Counter(cluster_name(q, self.clusters) for q in part).values()) for part in self.parts)

    @cached_property
    def shares(self) -> tuple[float, ...]:
        """The share of the queries that is judged at each analysis; the last one is 1."""
        sizes = list(accumulate(map(len, self.parts)))
        return tuple(size / sizes[-1] for size in sizes)

    def analyses(self, judged: Mapping[str, ComparedQuery]) -> tuple[InterimAnalysis, ...]:
        """Return the analyses that can be taken, up to the first one that tells; `judged` holds queries by content."""
        taken: list[InterimAnalysis] = []
        so_far: list[ComparedQuery] = []
        for number, part in enumerate(self.parts):
            if not judged.keys() >= set(part):
                break
            so_far += [judged[query] for query in part]
            taken.append(self._analysis(number, so_far))
            if taken[-1].finding != "cannot tell":
                break
        return tuple(taken)

    def _analysis(self, number: int, queries: Sequence[ComparedQuery]) -> InterimAnalysis:
        """Return what the queries judged so far say of the second side.

        The interval of a gate with one analysis is that of the comparison. Pairs that stayed open count against any
        finding: the interval reaches as low as if all of them were lost, and as high as if all were won.
        """
        pairs = side_pairs(queries, (0, 1))
        summed = Clusters.of(mean_by_query(of_pairs(pairs)), self.clusters)
        critical = critical_values(self.shares)[number]
        rate = interval_at(summed, critical) if len(self.parts) > 1 else interval_of_share(summed, self.seed)
        worst, best = bounds(pairs, self.clusters)
        low, high = rate.low + min(0.0, worst - rate.value), rate.high + max(0.0, best - rate.value)
        interval = max(0.0, low), min(1.0, high)
        return InterimAnalysis(
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


def interval_at(clusters: Clusters, critical: float) -> Interval:
    """Return the mean of shares with an interval by t of so many standard errors, at the tail of the standard normal.

    Where all clusters say the same, it holds at least what the next clusters can change (see `interval_of_share`).
    """
    if clusters.count < FEWEST_CLUSTERS:
        return Interval(value=clusters.mean if clusters.count else 0.5, low=0.0, high=1.0)
    tail = float(scipy("special").ndtr(-critical))
    half = max(t_value(critical, count - 1) * spread / count**0.5 for count, spread in clusters.as_equal)
    fewest = clusters.fewest if clusters.dissenters < FEWEST_CLUSTERS else math.inf
    return with_unseen(clusters.mean, clusters.mean - half, clusters.mean + half, fewest, tail)
