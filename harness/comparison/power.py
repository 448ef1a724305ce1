"""How great a difference shows with so many queries, and how many queries a difference takes."""

import math
from typing import Any

from harness.comparison.clusters import Clusters
from harness.comparison.libraries import statistics_module
from harness.core.comparisons import ALPHA, FEWEST_SHOWING

DEFAULT_SPREAD = 0.42
"""Standard deviation of a query's win rate between equal agents, with two pairs a query, where nothing was measured."""
POWER = 0.8
_GREATEST_EFFECT = 3.0
"""In standard deviations: with greater ones statsmodels' search does not end, and three clusters are enough."""


def detectable(clusters: Clusters, spread_of_equals: float) -> float | None:
    """Return the smallest distance from one half that so many clusters show; None where not even the greatest shows.

    By the noncentral t, from the spread between clusters; where all say the same, from `spread_of_equals`.
    """
    if clusters.count < 2:
        return None
    effect = _power().solve_power(nobs=clusters.count, alpha=ALPHA, power=POWER)
    distance = float(effect) * _spread(clusters, spread_of_equals)
    return distance if distance <= 0.5 else None


def enough_queries(clusters: Clusters, spread_of_equals: float) -> int | None:
    """Return about how many queries, in clusters as large as these, show the distance from one half that there is."""
    distance = abs(clusters.mean - 0.5)
    if not clusters.count or distance < 1e-9:
        return None
    effect = min(_GREATEST_EFFECT, distance / _spread(clusters, spread_of_equals))
    count = float(_power().solve_power(effect_size=effect, alpha=ALPHA, power=POWER))
    fewest = max(FEWEST_SHOWING, count) * clusters.queries / clusters.count
    return max(clusters.queries + 1, math.ceil(fewest))


def _spread(clusters: Clusters, of_equals: float) -> float:
    """Return the spread; where all clusters say the same that of equals, and where those did, too, the default."""
    return clusters.spread or of_equals or DEFAULT_SPREAD


def _power() -> Any:
    return statistics_module("statsmodels.stats.power").TTestPower()
