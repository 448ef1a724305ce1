"""Figures over many queries, with their 95 % intervals.

The unit is the query: verdicts on one query are alike, so that a thousand verdicts on ten queries say little more than
ten verdicts. Every figure here is a function of sums over queries, and its error comes from leaving each query out in
turn (the jackknife: M. H. Quenouille, Biometrika 43, 1956; J. W. Tukey, Ann. Math. Stat. 29, 1958).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_Z = 1.959963984540054
"""Standard normal quantile of a two-sided 95 % interval."""
_SMALL = {1: 12.706205, 2: 4.302653, 3: 3.182446, 4: 2.776445}
"""Student's t of a two-sided 95 % interval, where the expansion is not good enough."""

Sums = Sequence[float]
"""What one query adds to the sums that a figure is made of."""


@dataclass(frozen=True)
class QueryFigure:
    """A figure over queries with its 95 % interval; one query has no interval."""

    value: float
    low: float | None
    high: float | None
    queries: int
    """Queries that the figure comes from."""


def over_queries(
    rows: Sequence[Sums], figure: Callable[[Sums], float | None], bounds: tuple[float, float] | None = None
) -> QueryFigure | None:
    """Return a figure of the sums of `rows`, one row a query; None where there is nothing to make it of.

    `figure` may give None. A figure within `bounds` (a share: 0 and 1) gets an interval within them: Wilson's, of so
    many independent trials as have the jackknife's error, with Student's t (E. L. Korn, B. I. Graubard, Survey
    Methodology 24, 1998). Where all queries give a bound itself, the trials are the queries,
    with the normal's quantile.
    """
    totals = [math.fsum(column) for column in zip(*rows, strict=True)]
    value = figure(totals) if totals else None
    if value is None:
        return None
    n, without_each = len(rows), list[float]()
    for row in rows:
        left = [total - part for total, part in zip(totals, row, strict=True)]
        other = figure([0.0 if abs(rest) < 1e-12 else rest for rest in left])  # what is left of nothing is nothing
        without_each += [] if other is None else [other]
    if n == 1 or len(without_each) < n:
        return QueryFigure(value, None, None, n)
    mean = math.fsum(without_each) / n
    error = math.sqrt((n - 1) / n * math.fsum((other - mean) ** 2 for other in without_each))  # of the jackknife
    return QueryFigure(value, *_interval(value, error, bounds, n), n)


def mean_over_queries(values: Sequence[float], bounds: tuple[float, float] | None = None) -> QueryFigure | None:
    """Return the mean of one value a query; None of no query."""
    return over_queries([(value, 1.0) for value in values], quotient, bounds)


def quotient(sums: Sums) -> float | None:
    """Return the first sum over the second one; None over 0."""
    return sums[0] / sums[1] if sums[1] > 0 else None


def students_t(freedom: int) -> float:
    """Return Student's t of a two-sided 95 % interval (M. Abramowitz, I. A. Stegun, 26.7.5), to three decimals."""
    if freedom in _SMALL:
        return _SMALL[freedom]
    z, f = _Z, float(freedom)
    return (
        z
        + (z**3 + z) / (4 * f)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * f**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * f**3)
        + (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / (92160 * f**4)
    )


def _interval(value: float, error: float, bounds: tuple[float, float] | None, queries: int) -> tuple[float, float]:
    t = students_t(queries - 1)
    low, high = bounds or (-math.inf, math.inf)
    if math.isinf(low) or math.isinf(high):
        return max(low, value - t * error), min(high, value + t * error)
    share, spread = (value - low) / (high - low), error / (high - low)
    inside = 1e-12 < share < 1 - 1e-12
    if inside and spread < 1e-12:
        return value, value
    trials, t = (share * (1 - share) / spread**2, t) if inside else (queries, _Z)
    middle = (share + t * t / (2 * trials)) / (1 + t * t / trials)
    half = t / (1 + t * t / trials) * math.sqrt(share * (1 - share) / trials + t * t / (4 * trials**2))
    ends = max(0.0, middle - half), min(1.0, middle + half)
    return low + ends[0] * (high - low), low + ends[1] * (high - low)
