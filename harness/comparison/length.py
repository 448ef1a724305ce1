"""The win rate at equal length of the answers."""

import math
import warnings
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from harness.comparison.clusters import Numbers
from harness.comparison.intervals import t_quantile
from harness.comparison.libraries import statistics_module
from harness.comparison.outcomes import Pair, Pairs
from harness.core.comparisons import Interval

_FEWEST_CLUSTERS = 6
_LEAST_SPREAD = 1e-6
_GREATEST_LOGIT = 10.0
"""Beyond it the fit runs away: the lengths tell the winners apart without a fault."""


def length_controlled(pairs: Pairs, clusters: Mapping[str, str] | None) -> Interval | None:
    """Fit the outcome by the difference in length, and return the win rate where the difference is 0.

    A logistic regression on (length of the second answer - of the first) / (their sum), a tie half a win, each query
    of the same weight, with an interval by cluster (sandwich, t). None where it cannot be fitted: fewer than six
    clusters, no difference in length anywhere, or lengths that tell the winners apart without a fault.
    """
    rows = [
        (outcome, difference, 1 / len(compared), (clusters or {}).get(query, f"\0{query}"))
        for query, listed in pairs.items()
        if (compared := [row for pair in listed if (row := _row(pair))])
        for outcome, difference in compared
    ]
    if len({row[3] for row in rows}) < _FEWEST_CLUSTERS:
        return None
    won, difference, weight = (np.array([row[i] for row in rows], np.float64) for i in range(3))
    if difference.std() < _LEAST_SPREAD or won.std() < _LEAST_SPREAD:
        return None
    _, groups = np.unique([row[3] for row in rows], return_inverse=True)
    return _fitted(won, difference, weight, groups)


def _fitted(won: Numbers, difference: Numbers, weight: Numbers, groups: NDArray[np.intp]) -> Interval | None:
    models = statistics_module("statsmodels.genmod.generalized_linear_model")
    families = statistics_module("statsmodels.genmod.families")
    columns = np.column_stack([np.ones_like(difference), difference / difference.std()])
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what statsmodels warns of are fits that mean nothing
        try:
            fit = models.GLM(won, columns, family=families.Binomial(), var_weights=weight).fit(
                cov_type="cluster", cov_kwds={"groups": groups}
            )
        except (Warning, np.linalg.LinAlgError, ValueError):
            return None
    logit, half = float(fit.params[0]), t_quantile(len(np.unique(groups))) * float(fit.bse[0])
    if not math.isfinite(half) or max(abs(logit), *np.abs(fit.params)) > _GREATEST_LOGIT:
        return None
    return Interval(value=_chance(logit), low=_chance(logit - half), high=_chance(logit + half))


def _row(pair: Pair) -> tuple[float, float] | None:
    """Return the outcome of a judged pair and its difference in length; None where either is not known."""
    first, second = pair.lengths
    if pair.outcome is None or pair.forfeit or first is None or second is None:
        return None
    return pair.outcome, (second - first) / max(1, first + second)


def _chance(logit: float) -> float:
    return (1 + math.tanh(logit / 2)) / 2
