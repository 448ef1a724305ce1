"""The win rate at equal length of the answers."""

import math
import warnings
from collections.abc import Mapping

import numpy as np

from harness.comparison.clusters import Numbers, cluster_of
from harness.comparison.intervals import t_quantile
from harness.comparison.libraries import statistics_module
from harness.comparison.outcomes import Pair, Pairs
from harness.core.comparisons import FEWEST_SHOWING, Interval

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
