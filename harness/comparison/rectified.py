"""What people would say of two sides: from a judge's verdicts of all pairs, and people's labels of some."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Self

import numpy as np

from harness.comparison import outcomes
from harness.comparison.intervals import interval_of_share, scipy, t_value, with_unseen
from harness.core.comparisons import FEWEST_SHOWING, Interval, PeoplesRate

NORMAL_95 = 1.959964
"""Standard errors on either side of a normal interval of 95 %."""
_SURE, _HALVINGS = 37.0, 40
"""Standard errors at which p is nothing, and steps of a bisection up to there."""


@dataclass(frozen=True, eq=False)
class LabelledSums:
    """Sums over the pairs of each cluster [C]; a pair weighs one divided by the number of pairs of its query."""

    sizes: outcomes.Numbers
    """Queries."""
    forfeited: outcomes.Numbers
    """Outcomes of the pairs that a failure decided: nobody is asked of them."""
    judged: outcomes.Numbers
    """Outcomes of the judged pairs, as the judge has them."""
    weights: outcomes.Numbers
    """Weights of the judged pairs."""
    drawn: outcomes.Numbers
    """Weights of the labelled pairs, divided by their chances to be drawn."""
    said: outcomes.Numbers
    """With the same weights: outcomes of the labelled pairs, as people have them."""
    foretold: outcomes.Numbers
    """And as the judge has them."""
    agreed: outcomes.Numbers
    """And how far judge and people agree: 1, one half where one of them sees a tie, 0."""
    labels: int
    pairs: int
    """Judged pairs, labelled or not."""
    of_one_size: bool = False
    names: tuple[tuple[bool, str], ...] = ()
    """The clusters', in the order of the sums, where they have names."""

    @classmethod
    def of(cls, pairs: outcomes.Pairs, clusters: Mapping[str, str] | None = None) -> Self:
        """Sum up the pairs that are not open by cluster."""
        closed = {query: [p for p in listed if p.outcome is not None] for query, listed in sorted(pairs.items())}
        asked = [pair for listed in closed.values() for pair in listed if not pair.forfeit]
        labelled = [pair for pair in asked if pair.said is not None]
        weights = iter(drawing_weights([pair.weight for pair in labelled], len(asked)))
        rows: dict[tuple[bool, str], outcomes.Numbers] = {}
        for query in filter(closed.__getitem__, closed):
            row = rows.setdefault(outcomes.cluster_name(query, clusters), np.zeros(8))
            row[0] += 1
            for pair in closed[query]:
                is_labelled = pair.said is not None and not pair.forfeit
                row[1:] += _parts(pair, next(weights) if is_labelled else 1.0) / len(closed[query])
        columns = np.array([rows[name] for name in sorted(rows)], np.float64).reshape(-1, 8).T
        names, of_one_size = tuple(sorted(rows)), isinstance(clusters, outcomes.OfOneSize)
        return cls(*columns, labels=len(labelled), pairs=len(asked), names=names, of_one_size=of_one_size)

    @property
    def clusters(self) -> int:
        """How many clusters hold a label."""
        return int((self.drawn > 0).sum())

    def agreement(self, seed: int) -> Interval:
        """Return the share of the pairs on which the judge says what people say, a tie counting one half."""
        labelled = self.drawn > 0
        return interval_of_share(outcomes.Clusters(self.agreed[labelled], self.drawn[labelled], self.of_one_size), seed)


def _parts(pair: outcomes.Pair, weight: float) -> outcomes.Numbers:
    outcome = pair.outcome or 0.0
    if pair.forfeit:
        return np.array([outcome, 0, 0, 0, 0, 0, 0])
    if pair.said is None:
        return np.array([0, outcome, 1, 0, 0, 0, 0])
    of_people = weight * np.array([1, pair.said, outcome, 1 - abs(pair.said - outcome)])
    return np.array([0, outcome, 1, *of_people])


def drawing_weights(weights: Sequence[float], pairs: int) -> outcomes.Numbers:
    """Return one divided by the chance that each label had to be drawn, from numbers in the same proportion [n].

    No chance is above 1, and together they stand for all `pairs`: max(1, weight / c), where c makes the sum right. So
    all weigh the same once all pairs are labelled.
    """
    given = np.array(weights, np.float64)
    if not 0 < len(given) < pairs:
        return np.ones(len(given))
    ordered = np.sort(given)[::-1]
    heads = np.cumsum(ordered) / (pairs - len(given) + np.arange(1, len(given) + 1))  # c if so many are above 1
    fits = heads <= ordered * (1 + 1e-12)
    return np.maximum(1.0, given / heads[fits][-1])


@dataclass(frozen=True, eq=False)
class Rectified:
    """The share of people that would prefer the second side, estimated with as much trust in the judge as shortens it.

    PPI++ (A. Angelopoulos, J. Duchi and T. Zrnic, arXiv 2311.01453): the mean of what people said, and `trust` (lambda)
    times what the judge says more of all pairs than of the labelled ones. Only the labels need be drawn at random; a
    judge that is wrong makes the interval wider, not wrong. The labelled pairs are among all, so that the influence of
    a cluster [C] on both parts is added up before it is squared.
    """

    sums: LabelledSums
    power_tuned: bool = True
    """Else labels alone."""

    @cached_property
    def _parts(self) -> tuple[tuple[float, outcomes.Numbers], tuple[float, outcomes.Numbers]]:
        """The estimate and the influences by labels alone, and what they change for each unit of trust in the judge."""
        s, queries, drawn = self.sums, self.sums.sizes.sum(), self.sums.drawn.sum()
        said, foretold = s.said.sum() / drawn, s.foretold.sum() / drawn
        share = s.weights.sum() / queries
        alone, more = s.forfeited + said * s.weights, s.judged - foretold * s.weights
        means = alone.sum() / queries, more.sum() / queries
        of_labels = share * (s.said - said * s.drawn) / drawn, share * (s.foretold - foretold * s.drawn) / drawn
        influences = (
            (alone - means[0] * s.sizes) / queries + of_labels[0],
            (more - means[1] * s.sizes) / queries - of_labels[1],
        )
        return (float(means[0]), influences[0]), (float(means[1]), influences[1])

    @cached_property
    def trust(self) -> float:
        """Lambda, from 0 to 1: how much of the judge's word is added to the labels."""
        (_, alone), (_, more) = self._parts
        squares = float(more @ more)
        return min(1.0, max(0.0, -float(alone @ more) / squares)) if self.power_tuned and squares > 0 else 0.0

    @property
    def value(self) -> float:
        """The estimate."""
        (alone, _), (more, _) = self._parts
        return min(1.0, max(0.0, alone + self.trust * more))

    @property
    def people_say(self) -> outcomes.Numbers:
        """What people would say of the queries of each cluster [C], added up: all of them have the estimate as mean.

        A cluster's own, and its influence on the estimate: so that drawing clusters again shows the estimate's error.
        """
        (_, alone), (_, more) = self._parts
        return self.value * self.sums.sizes + (alone + self.trust * more) * self.sums.sizes.sum()

    @cached_property
    def worths(self) -> list[tuple[float, float]]:
        """Degrees of freedom and standard error, by each assumption of `equal_clusters`.

        Clusters with a label and those without say independent things; each part's error is that of a mean of clusters,
        and their degrees of freedom are Satterthwaite's. Tuning the trust takes one of the labelled clusters'.
        """
        (_, alone), (_, more) = self._parts
        influences = alone + self.trust * more
        labelled = self.sums.drawn > 0
        left = max(1.0, labelled.sum() - 1 - (0 < self.trust < 1)) / max(1.0, labelled.sum() - 1)
        ours = self._errors(influences[labelled], self.sums.drawn[labelled])
        others = self._errors(influences[~labelled], self.sums.sizes[~labelled])
        worths: list[tuple[float, float]] = []
        for (count, error), (rest, of_rest) in product(ours, others):
            free = max(1.0, left * (count - 1))
            of_labels = error**2 / left
            variance = of_labels + of_rest**2
            spread = of_labels**2 / free + (of_rest**4 / (rest - 1) if rest > 1 else 0.0)
            worths.append((variance**2 / spread if spread else free, math.sqrt(variance)))
        return worths

    def _errors(self, influences: outcomes.Numbers, sizes: outcomes.Numbers) -> list[tuple[float, float]]:
        """Return as how many clusters of one size these count, and the standard error of their influences' sum."""
        if len(influences) < 2:
            return [(1.0, float(np.abs(influences).sum()))]
        worths = outcomes.equal_clusters(influences * sizes.sum(), sizes, of_one_size=self.sums.of_one_size)
        return [(count, float(spread) / math.sqrt(count)) for count, spread in worths]

    def interval(self, critical: float | None = None) -> Interval:
        """Return the estimate with its interval of 95 %, or of so many standard errors of a normal one.

        Where people, or people and judge, differ on few of the labelled clusters, it holds at least what the next
        labels can change (see `interval_of_share`).
        """
        z = NORMAL_95 if critical is None else critical
        half = max(t_value(z, freedom) * error for freedom, error in self.worths)
        low, high = self.value - half, self.value + half
        labelled = self.sums.drawn > 0
        drawn, said, foretold = (of[labelled] for of in (self.sums.drawn, self.sums.said, self.sums.foretold))
        dissent = min(outcomes.Clusters(figure, drawn).dissenters for figure in (said, said - foretold))
        fewest = math.inf
        if dissent < min(FEWEST_SHOWING, len(drawn) / 5):
            fewest = min(count for count, _ in outcomes.equal_clusters(said, drawn, of_one_size=self.sums.of_one_size))
        return with_unseen(self.value, low, high, fewest, float(scipy("special").ndtr(-z)))

    @property
    def p(self) -> float:
        """Two-sided, that chance alone gives an estimate as far from one half: how wide an interval just holds that."""
        if abs(self.value - 0.5) < outcomes.NEGLIGIBLE:
            return 1.0
        low, high = 0.0, _SURE
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            interval = self.interval(middle)
            low, high = (low, middle) if interval.low <= 0.5 <= interval.high else (middle, high)
        return 2 * float(scipy("special").ndtr(-low))

    @property
    def effective_labels(self) -> float:
        """How many labels alone would give as narrow an interval."""
        alone, ours = (max(error for _, error in r.worths) for r in (Rectified(self.sums, power_tuned=False), self))
        return self.sums.labels * (alone / ours) ** 2 if ours else float(self.sums.labels)

    def more_labels(self, half: float) -> int | None:
        """Return about how many further labels make the interval reach `half` on either side.

        0 where it reaches no further; None where not even labels of all pairs would do.
        """
        (_, alone), (_, more) = self._parts
        s, labels = self.sums, self.sums.labels
        residuals = s.said - self.trust * s.foretold
        share = s.weights.sum() / s.sizes.sum()
        of_labels = share * (residuals - residuals.sum() / s.drawn.sum() * s.drawn) / s.drawn.sum()
        influences = alone + self.trust * more
        whole = max(error for _, error in self.worths) ** 2
        shrinking = whole * min(1.0, float(of_labels @ of_labels) / float(influences @ influences)) if whole else 0.0
        wanted = (half / NORMAL_95) ** 2
        if whole <= wanted:
            return 0
        least = shrinking * labels / (wanted - whole + shrinking) if wanted > whole - shrinking else math.inf
        return math.ceil(least) - labels if least <= s.pairs else None


WANTED_HALF = 0.05
"""To this half width of the interval more labels are counted."""


def peoples_rate(pairs: outcomes.Pairs, clusters: Mapping[str, str] | None, seed: int) -> PeoplesRate | None:
    """Return what people would say of pairs of which some are labelled; None where none is."""
    sums = LabelledSums.of(pairs, clusters)
    if not sums.labels:
        return None
    if sums.clusters < FEWEST_SHOWING:
        return PeoplesRate(labels=sums.labels, clusters=sums.clusters)
    rectified = Rectified(sums)
    return PeoplesRate(
        labels=sums.labels,
        clusters=sums.clusters,
        rate=rectified.interval(),
        p=rectified.p,
        trust=rectified.trust,
        effective_labels=rectified.effective_labels,
        more_labels=rectified.more_labels(WANTED_HALF),
        agreement=sums.agreement(seed),
    )
