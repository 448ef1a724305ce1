"""The comparison of two sides: from their pairs to the record of what the pairs say."""

import math
import warnings
from collections.abc import Mapping, Sequence

import numpy as np

from harness.comparison.clusters import Clusters, Numbers, cluster_of, mean_by_query
from harness.comparison.intervals import interval_of_mean, interval_of_share, method_for, sign_flip_p, t_quantile
from harness.comparison.libraries import statistics_module
from harness.comparison.outcomes import Pair, Pairs, closed, margins, outcomes, pairs_of
from harness.comparison.power import DEFAULT_SPREAD, detectable, enough_queries
from harness.core.comparisons import FEWEST_SHOWING, ComparedQuery, Interval, SideResult, leaves_out_half

_LEAST_SPREAD = 1e-6
_GREATEST_LOGIT = 10.0
"""Beyond it the fit runs away: the lengths tell the winners apart without a fault."""


def length_controlled(pairs: Pairs, clusters: Mapping[str, str] | None) -> Interval | None:
    """Fit the outcomes by the difference in length, and return the win rate where the difference is 0.

    A logistic regression of the judged pairs on (length of the second answer - of the first) / (their sum), a tie half
    a win, with an interval by cluster (sandwich, t). None where it cannot be fitted: fewer than six clusters, the same
    difference in all pairs, or lengths that tell the winners apart without a fault.
    """
    rows = [
        (*row, cluster_of(query, clusters))
        for query, listed in sorted(pairs.items())
        for pair in listed
        if (row := _row(pair))
    ]
    numbers = {cluster: number for number, cluster in enumerate(sorted({row[2] for row in rows}))}
    if len(numbers) < FEWEST_SHOWING:
        return None
    won, difference = (np.array([row[i] for row in rows], np.float64) for i in range(2))
    if difference.std() < _LEAST_SPREAD or won.std() < _LEAST_SPREAD:
        return None
    return _fitted(won, difference, [numbers[row[2]] for row in rows])


def _fitted(won: Numbers, difference: Numbers, clusters: list[int]) -> Interval | None:
    models = statistics_module("statsmodels.genmod.generalized_linear_model")
    families = statistics_module("statsmodels.genmod.families")
    columns = np.column_stack([np.ones_like(difference), difference / difference.std()])
    meaningless = _fits_that_mean_nothing()
    with warnings.catch_warnings():
        for kind in meaningless:
            warnings.simplefilter("error", kind)
        try:
            fit = models.GLM(won, columns, family=families.Binomial()).fit(
                cov_type="cluster", cov_kwds={"groups": np.array(clusters)}
            )
        except meaningless:
            return None
    logit, slope = (float(value) for value in fit.params)
    half = t_quantile(max(clusters) + 1) * float(fit.bse[0])
    if not math.isfinite(half) or max(abs(logit), abs(slope)) > _GREATEST_LOGIT:
        return None
    return Interval(value=_chance(logit), low=_chance(logit - half), high=_chance(logit + half))


def _fits_that_mean_nothing() -> tuple[type[Warning], ...]:
    """Return what statsmodels warns of where lengths tell winners apart without a fault, or no fit is reached."""
    of_statsmodels = statistics_module("statsmodels.tools.sm_exceptions")
    return of_statsmodels.PerfectSeparationWarning, of_statsmodels.ConvergenceWarning, RuntimeWarning


def _row(pair: Pair) -> tuple[float, float] | None:
    """Return the outcome of a judged pair and its difference in length; None where either is not known."""
    first, second = pair.lengths
    if pair.outcome is None or pair.forfeit or first is None or second is None:
        return None
    return pair.outcome, (second - first) / max(1, first + second)


def _chance(logit: float) -> float:
    return (1 + math.tanh(logit / 2)) / 2


_HALF = 1e-9
"""How far from one half a mean of outcomes counts as one half."""


def side_result(
    queries: Sequence[ComparedQuery],
    sides: tuple[int, int],
    labels: tuple[str, str],
    *,
    clusters: Mapping[str, str] | None = None,
    floor: float | None = None,
    seed: int = 0,
) -> SideResult:
    """Say what the matches of two sides say, seen from the second one.

    `sides` are places in the comparison, `clusters` names the cluster of a query's content hash, and `floor` is the
    standard deviation of a query's win rate between equal agents, where it was measured.
    """
    result = result_of(pairs_of(queries, sides), labels, clusters=clusters, floor=floor, seed=seed)
    anchors = Clusters.of(mean_by_query(outcomes(pairs_of(queries, sides, role="anchor"))), clusters)
    return result.model_copy(update={"anchors": interval_of_share(anchors, seed) if anchors.count else None})


def result_of(
    pairs: Pairs, labels: tuple[str, str], *, clusters: Mapping[str, str] | None, floor: float | None, seed: int
) -> SideResult:
    """Say what pairs say that stand by query."""
    means = mean_by_query(outcomes(pairs))
    summed = Clusters.of(means, clusters)
    rate = interval_of_share(summed, seed)
    spread = DEFAULT_SPREAD if floor is None else floor
    listed = [pair for of_query in pairs.values() for pair in of_query]
    wins, losses = sum(m > 0.5 + _HALF for m in means.values()), sum(m < 0.5 - _HALF for m in means.values())
    return SideResult(
        sides=labels,
        queries=len(means),
        clusters=summed.count,
        pairs=sum(pair.outcome is not None for pair in listed),
        better=wins,
        worse=losses,
        tied=len(means) - wins - losses,
        win_rate=rate.value,
        interval=(rate.low, rate.high),
        method=method_for(summed.count),
        p=sign_flip_p(summed, 0.5, seed),
        margin=_margin(pairs, clusters, seed),
        flips=sum(pair.flipped for pair in listed),
        both_orders=sum(pair.both_orders for pair in listed),
        length_controlled=length_controlled(pairs, clusters),
        forfeits=(sum(pair.forfeit == "first" for pair in listed), sum(pair.forfeit == "second" for pair in listed)),
        without_forfeits=_without_forfeits(pairs, clusters, seed),
        unjudged=sum(pair.outcome is None for pair in listed),
        bounds=_bounds(pairs),
        detectable=detectable(summed, spread),
        enough_queries=None if leaves_out_half(summed.count, (rate.low, rate.high)) else enough_queries(summed, spread),
        floor=spread,
        floor_from="default" if floor is None else "runs",
    )


def _margin(pairs: Pairs, clusters: Mapping[str, str] | None, seed: int) -> Interval | None:
    return interval_of_mean(Clusters.of(mean_by_query(margins(pairs)), clusters), seed)


def _without_forfeits(pairs: Pairs, clusters: Mapping[str, str] | None, seed: int) -> Interval | None:
    if not any(pair.forfeit for listed in pairs.values() for pair in listed):
        return None
    judged = Clusters.of(mean_by_query(outcomes(pairs, forfeits=False)), clusters)
    return interval_of_share(judged, seed) if judged.count else None


def _bounds(pairs: Pairs) -> tuple[float, float]:
    low, high = (Clusters.of(mean_by_query(closed(pairs, outcome))) for outcome in (0.0, 1.0))
    return (low.mean, high.mean) if low.count else (0.0, 1.0)
