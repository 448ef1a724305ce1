"""Intervals of 95 % for a mean over queries, its distance from one half, and the statistics behind: Holm, power, t."""

import math
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Literal

import numpy as np

from harness.comparison.outcomes import Clusters, Numbers, ratio, split_alone
from harness.core.comparisons import ALPHA, FEWEST_SHOWING, Interval

DEFAULT_SPREAD = 0.42
"""Standard deviation of a query's win rate between equal agents, with two pairs a query, where nothing was measured."""
POWER = 0.8
_ROUNDING = 1e-9
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

    def shown(count: float, spread: float) -> float:
        return spread * least_with_power(lambda effect: t_test_power(effect, count), 0.0, 1 / math.sqrt(count))

    distance = max(shown(count, spread or spread_of_equals or DEFAULT_SPREAD) for count, spread in clusters.as_equal)
    return distance if distance <= 0.5 else None


def enough_queries(clusters: Clusters, spread_of_equals: float) -> int | None:
    """Return about how many queries, in clusters as large as these, show the distance from one half that there is."""
    distance = abs(clusters.mean - 0.5)
    if not clusters.count or distance < 1e-9:
        return None

    def needed(count: float, spread: float) -> float:
        effect = min(_GREATEST_EFFECT, distance / (spread or spread_of_equals or DEFAULT_SPREAD))
        least = least_with_power(lambda count: t_test_power(effect, count), 2.0, 4.0)
        return max(FEWEST_SHOWING, least) * clusters.queries / count

    fewest = max(needed(*worth) for worth in clusters.as_equal or [(clusters.count, 0.0)])
    return max(clusters.queries + 1, math.ceil(fewest))


def least_with_power(power: Callable[[float], float], low: float, high: float, wanted: float = POWER) -> float:
    """Return where a growing power reaches what is `wanted`; at `low` it is less."""
    while power(high) < wanted:
        low, high = high, 2 * high

    def missing(at: float) -> float:
        return power(at) - wanted

    return float(scipy("optimize").brentq(missing, low, high, xtol=1e-12))


DRAWS = 10_000
"""Times that the clusters are drawn again, or have their signs flipped."""
FEWEST_DRAWN_AGAIN = 30
"""`Clusters.fewest` below which an interval is by t: the bootstrap is too narrow, too, where few hold most queries."""
_OUTSIDE = 0.025
"""What lies outside of an interval on either side."""
_NUMBERS_AT_ONCE = 2_000_000
"""Bounds the memory of drawing again."""


def method_for(clusters: Clusters) -> Literal["bootstrap", "t"]:
    """Tell how the interval of clusters is made."""
    return "bootstrap" if clusters.fewest >= FEWEST_DRAWN_AGAIN else "t"


def interval_of_share(clusters: Clusters, seed: int) -> Interval:
    """Return the mean of shares, 0..1, with its interval; 0.5 [0, 1] of nothing, and [0, 1] for one cluster.

    Where fewer than six clusters, and fewer than one in five, differ from the others, the spread between them says
    little of what else there may be. The interval then holds at least what the next clusters can change: the upper
    Clopper-Pearson bound u of the share of clusters that would say something else, were there none so far, gives
    mean * (1 - u) to mean * (1 - u) + u.
    """
    if clusters.count < 2:
        return Interval(value=clusters.mean if clusters.count else 0.5, low=0.0, high=1.0)
    value = clusters.mean
    low, high = _ends(clusters, seed)
    few = clusters.dissenters < min(FEWEST_SHOWING, clusters.count / 5)
    return with_unseen(value, low, high, clusters.fewest if few else math.inf)


def with_unseen(value: float, low: float, high: float, fewest: float, outside: float = _OUTSIDE) -> Interval:
    """Return the interval of a share, with what the clusters after `fewest` can change: nothing after `math.inf`."""
    unseen = 1 - outside ** (1 / fewest)
    low, high = min(low, value * (1 - unseen)), max(high, value * (1 - unseen) + unseen)
    return Interval(value=value, low=max(0.0, low), high=min(1.0, high))


def interval_of_mean(clusters: Clusters, seed: int) -> Interval | None:
    """Return the mean of an amount with its interval; None for fewer than two clusters."""
    if clusters.count < 2:
        return None
    low, high = _ends(clusters, seed)
    return Interval(value=clusters.mean, low=low, high=high)


def share_below(
    by_query: Mapping[str, Sequence[float]], share: float, clusters: Mapping[str, str] | None = None
) -> Interval | None:
    """Return the amount that this share of all values does not exceed, with its interval.

    The ends are values by their order, as the binomial distribution gives them, of as many independent values as the
    clusters are worth by the variance of the share (E. Korn and B. Graubard, Survey Methodology 24, 1998; R. Woodruff,
    JASA 47, 1952). None where too few values are there for an end above, as below 73 for a share of 0.95.
    """
    by_query = split_alone(by_query)
    ordered = sorted(value for values in by_query.values() for value in values)
    total = len(ordered)
    if not total:
        return None
    at = ordered[math.ceil(share * total - _ROUNDING) - 1]
    sums = Clusters.of({query: float(sum(value <= at for value in of)) for query, of in by_query.items()}, clusters)
    sizes = Clusters.of({query: float(len(of)) for query, of in by_query.items()}, clusters)
    apart, count = sums.sums - share * sizes.sums, sums.count
    variance = float((apart**2).sum()) * count / max(1, count - 1) / total**2
    worth = min(total, share * (1 - share) / variance) if variance else total
    places = np.arange(1, math.floor(worth + _ROUNDING) + 1)
    at_least = scipy("special").betainc(places, worth - places + 1, share)  # P(so many values lie below)
    below, above = places[at_least >= 1 - _OUTSIDE], places[at_least <= _OUTSIDE]
    if not len(above):
        return None
    ends = (math.floor((below[-1] if len(below) else 1) / worth * total), math.ceil(above[0] / worth * total))
    return Interval(value=at, low=ordered[max(1, ends[0]) - 1], high=ordered[min(total, ends[1]) - 1])


def later_below(
    first: Mapping[str, Sequence[float]],
    second: Mapping[str, Sequence[float]],
    share: float,
    clusters: Mapping[str, str] | None = None,
) -> Interval | None:
    """Return how far the amount of `share_below` of the second values lies above that of the first, with its interval.

    From both intervals, and from how alike the clusters are on both sides (MOVER; G. Zou, Psychological Methods 12,
    2007). None where `share_below` gives none.
    """
    a, b = (share_below(values, share, clusters) for values in (first, second))
    if a is None or b is None:
        return None
    x, y = (
        Clusters.of(
            {q: sum(v <= at.value for v in of.get(q, ())) - share * len(of.get(q, ())) for q in {**first, **second}},
            clusters,
        ).sums
        for of, at in ((first, a), (second, b))
    )
    norm = math.sqrt(float(x @ x) * float(y @ y))
    alike = float(x @ y) / norm if norm and len(x) >= FEWEST_SHOWING else 0.0

    def off(of_b: float, of_a: float) -> float:
        return math.sqrt(max(0.0, of_b**2 + of_a**2 - 2 * alike * of_b * of_a))

    value = b.value - a.value
    low, high = off(b.value - b.low, a.high - a.value), off(b.high - b.value, a.value - a.low)
    return Interval(value=value, low=value - low, high=value + high)


def sign_flip_p(clusters: Clusters, seed: int) -> float:
    """Return how often flipped signs of the clusters give a mean as far from one half, two-sided.

    All flips are counted for up to 13 clusters that are not at one half, 10,000 random ones for more. A cluster at one
    half changes nothing.
    """
    distances = clusters.sums - clusters.sizes / 2
    distances = distances[np.abs(distances) > 1e-9]
    if len(distances) < 2:
        return 1.0
    flips = scipy("stats").permutation_test(
        (distances,),
        np.sum,
        permutation_type="samples",
        vectorized=True,
        n_resamples=DRAWS,
        batch=max(1, _NUMBERS_AT_ONCE // len(distances)),
        rng=np.random.default_rng(seed),
    )
    return float(flips.pvalue)


def _ends(clusters: Clusters, seed: int) -> tuple[float, float]:
    if clusters.as_equal[0][1] and method_for(clusters) == "bootstrap":
        return quantiles(redrawn((clusters.sums, clusters.sizes), ratio, seed), clusters.fewest)
    half = max(t_quantile(count) * spread / float(np.sqrt(count)) for count, spread in clusters.as_equal)
    return clusters.mean - half, clusters.mean + half


def redrawn(sums: tuple[Numbers, ...], statistic: Callable[..., Numbers], seed: int) -> Numbers:
    """Return a statistic of sums by cluster (each [C]) for 10,000 draws of the clusters [..., 10,000]."""
    count = len(sums[0])
    drawn = scipy("stats").bootstrap(
        sums,
        statistic,
        paired=True,
        vectorized=True,
        method="percentile",
        n_resamples=DRAWS,
        batch=max(1, _NUMBERS_AT_ONCE // (count * len(sums))),
        rng=np.random.default_rng(seed),
    )
    return drawn.bootstrap_distribution


def t_quantile(count: float) -> float:
    """Return the factor of a standard error that a two-sided 95 % interval of `count` clusters takes."""
    return float(scipy("special").stdtrit(count - 1, 1 - _OUTSIDE))


def quantiles(drawn: Numbers, count: float) -> tuple[float, float]:
    """Return the ends of the percentile interval of a figure that was worked out for each draw of `count` clusters.

    A little less than 2.5 % is left out on either side: drawing again knows neither that the spread is estimated nor
    that it is divided by C in place of C - 1 (the expanded percentile interval of T. Hesterberg, The American
    Statistician 69, 2015).
    """
    widened = t_quantile(count) * float(np.sqrt(count / (count - 1)))
    outside = float(scipy("special").ndtr(-widened))
    low, high = np.quantile(drawn, [outside, 1 - outside])
    return float(low), float(high)
