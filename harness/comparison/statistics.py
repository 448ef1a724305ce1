"""What scipy gives the comparisons, and the small statistics that rest on it: Holm, power, Student's t."""

import math
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from harness.comparison.outcomes import Clusters
from harness.core.comparisons import ALPHA, FEWEST_SHOWING

DEFAULT_SPREAD = 0.42
"""Standard deviation of a query's win rate between equal agents, with two pairs a query, where nothing was measured."""
POWER = 0.8
_GREATEST_EFFECT = 3.0
"""In standard deviations: three clusters show any greater one."""


def scipy(part: str) -> Any:
    """Return a module of scipy, imported by the first figure that needs it: most commands never do."""
    return import_module(f"scipy.{part}")


def holm(p: Sequence[float]) -> list[float]:
    """Return each p corrected for there being several, by Holm's step-down method."""
    corrected = [0.0] * len(p)
    least = 0.0
    for place, i in enumerate(sorted(range(len(p)), key=lambda i: p[i])):
        least = min(1.0, max(least, (len(p) - place) * p[i]))
        corrected[i] = least
    return corrected


def t_value(z: float, freedom: float) -> float:
    """Return the value of Student's t that is passed as seldom as the standard normal z."""
    special = scipy("special")
    return float(-special.stdtrit(max(1.0, freedom), special.ndtr(-z)))


def t_test_power(effect: float, count: float) -> float:
    """Return the power of a two-sided t test of `count` values whose mean is `effect` standard deviations off."""
    shift = effect * math.sqrt(count)
    critical = t_value(-scipy("special").ndtri(ALPHA / 2), count - 1)
    return t_exceeds(critical, count - 1, shift) + t_exceeds(critical, count - 1, -shift)


def t_exceeds(critical: float, freedom: float, shift: float) -> float:
    """Return how probably Student's noncentral t lies above a value."""
    return float(scipy("stats").nct.sf(critical, freedom, shift))


def detectable(clusters: Clusters, spread_of_equals: float) -> float | None:
    """Return the smallest distance from one half that so many clusters show; None where not even the greatest shows.

    By the noncentral t, from the spread between clusters; where all say the same, from `spread_of_equals`.
    """
    if clusters.count < 2:
        return None
    effect = _least_with_power(lambda effect: t_test_power(effect, clusters.count), 0.0, 1 / math.sqrt(clusters.count))
    distance = effect * _spread(clusters, spread_of_equals)
    return distance if distance <= 0.5 else None


def enough_queries(clusters: Clusters, spread_of_equals: float) -> int | None:
    """Return about how many queries, in clusters as large as these, show the distance from one half that there is."""
    distance = abs(clusters.mean - 0.5)
    if not clusters.count or distance < 1e-9:
        return None
    effect = min(_GREATEST_EFFECT, distance / _spread(clusters, spread_of_equals))
    count = _least_with_power(lambda count: t_test_power(effect, count), 2.0, 4.0)
    fewest = max(FEWEST_SHOWING, count) * clusters.queries / clusters.count
    return max(clusters.queries + 1, math.ceil(fewest))


def _spread(clusters: Clusters, of_equals: float) -> float:
    """Return the spread; where all clusters say the same that of equals, and where those did, too, the default."""
    return clusters.spread or of_equals or DEFAULT_SPREAD


def _least_with_power(power: Callable[[float], float], low: float, high: float) -> float:
    """Return where a growing power reaches `POWER`; at `low` it is less."""
    while power(high) < POWER:
        low, high = high, 2 * high

    def missing(at: float) -> float:
        return power(at) - POWER

    return float(scipy("optimize").brentq(missing, low, high, xtol=1e-12))
