"""Intervals of 95 % for a mean over queries, and the chance of its distance from one half."""

from collections.abc import Callable
from typing import Literal

import numpy as np

from harness.comparison.outcomes import Clusters, Numbers, ratio
from harness.comparison.statistics import scipy
from harness.core.comparisons import FEWEST_SHOWING, Interval

DRAWS = 10_000
"""Times that the clusters are drawn again, or have their signs flipped."""
FEWEST_DRAWN_AGAIN = 30
"""Clusters below which an interval is by t: with few clusters the percentile bootstrap is too narrow."""
_OUTSIDE = 0.025
"""What lies outside of an interval on either side."""
_NUMBERS_AT_ONCE = 2_000_000
"""Bounds the memory of drawing again."""


def method_for(count: int) -> Literal["bootstrap", "t"]:
    """Tell how the interval of so many clusters is made."""
    return "bootstrap" if count >= FEWEST_DRAWN_AGAIN else "t"


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
    if clusters.dissenters < min(FEWEST_SHOWING, clusters.count / 5):
        unseen = 1 - _OUTSIDE ** (1 / clusters.count)
        low, high = min(low, value * (1 - unseen)), max(high, value * (1 - unseen) + unseen)
    return Interval(value=value, low=max(0.0, low), high=min(1.0, high))


def interval_of_mean(clusters: Clusters, seed: int) -> Interval | None:
    """Return the mean of an amount with its interval; None for fewer than two clusters."""
    if clusters.count < 2:
        return None
    low, high = _ends(clusters, seed)
    return Interval(value=clusters.mean, low=low, high=high)


def sign_flip_p(clusters: Clusters, middle: float, seed: int) -> float:
    """Return how often flipped signs of the clusters give a mean as far from `middle`, two-sided.

    All flips are counted for up to 13 clusters that are not at `middle`, 10,000 random ones for more. A cluster at
    `middle` changes nothing.
    """
    distances = clusters.sums - middle * clusters.sizes
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
    spread = clusters.spread or 0.0
    if spread and method_for(clusters.count) == "bootstrap":
        return quantiles(redrawn((clusters.sums, clusters.sizes), ratio, seed), clusters.count)
    half = t_quantile(clusters.count) * spread / float(np.sqrt(clusters.count))
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


def t_quantile(count: int) -> float:
    """Return the factor of a standard error that a two-sided 95 % interval of `count` clusters takes."""
    return float(scipy("special").stdtrit(count - 1, 1 - _OUTSIDE))


def quantiles(drawn: Numbers, count: int) -> tuple[float, float]:
    """Return the ends of the percentile interval of a figure that was worked out for each draw of `count` clusters.

    A little less than 2.5 % is left out on either side: drawing again knows neither that the spread is estimated nor
    that it is divided by C in place of C - 1 (the expanded percentile interval of T. Hesterberg, The American
    Statistician 69, 2015).
    """
    widened = t_quantile(count) * float(np.sqrt(count / (count - 1)))
    outside = float(scipy("special").ndtr(-widened))
    low, high = np.quantile(drawn, [outside, 1 - outside])
    return float(low), float(high)
