"""When a comparison may stop early: boundaries that keep the error rate over several looks at the same data.

The error rate is spent over the looks by the function of O'Brien and Fleming's type that Lan and DeMets give
(Biometrika 70, 1983, page 659): hardly anything at the first looks, nearly all of it at the last one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np

from harness.comparison.clusters import Numbers
from harness.comparison.libraries import statistics_module

ONE_SIDED = 0.025
"""The error rate on each side: together they are the 5 % of a 95 % interval."""
MOST_LOOKS = 8
_NODES = 100
_FAR = 9.0
"""Standard deviations beyond which a normal density is taken for nothing."""
_NEVER = 40.0
_NOTHING = 1e-18
"""An error rate for which no boundary is worked out: no difference ends the comparison then."""


@dataclass(frozen=True)
class Exits:
    """How probable it is that a walk leaves its corridor at each look: above, and below."""

    above: tuple[float, ...]
    below: tuple[float, ...]


def equal_steps(looks: int) -> tuple[float, ...]:
    """Return the shares of the data at looks of equal distance; the last one is 1."""
    return tuple((k + 1) / looks for k in range(looks))


def alpha_spent(share: float, alpha: float = ONE_SIDED) -> float:
    """Return how much of a one-sided error rate is spent when a share of the data is in: 2 − 2Φ(z(1 − α/2)/√share)."""
    special = statistics_module("scipy.special")
    return float(2 * special.ndtr(special.ndtri(alpha / 2) / share**0.5))


def critical_values(shares: Sequence[float], alpha: float = ONE_SIDED) -> tuple[float, ...]:
    """Return for each look how many standard errors a difference must have to end the comparison there.

    `shares` says how much of the data is in at each look, rising to 1. The values hold for each side: a true null
    hypothesis is rejected at any look with probability `alpha`. They are found one after the other from the density
    of the walk that no look has ended (Armitage, McPherson and Rowe, J. R. Statist. Soc. A 132, 1969, page 235).
    """
    return _critical_values(tuple(shares), alpha)


@cache
def _critical_values(shares: tuple[float, ...], alpha: float) -> tuple[float, ...]:
    values: list[float] = []
    for k, share in enumerate(shares):
        spent = alpha_spent(shares[k - 1], alpha) if k else 0.0
        values.append(_value_that_spends(alpha_spent(share, alpha) - spent, shares[: k + 1], values))
    return tuple(values)


def exits(shares: Sequence[float], high: Sequence[float], low: Sequence[float] | None = None) -> Exits:
    """Return how probably a standard normal walk first leaves a corridor at each look: above `high`, or below `low`.

    The walk at a look is a standard normal z whose correlation with the look before is √(share before / share).
    """
    lows = [-_FAR] * len(high) if low is None else list(low)
    above: list[float] = []
    below: list[float] = []
    for walk, floor, ceiling in zip(_walks(shares, lows, high), lows, high, strict=True):
        above.append(walk.above(ceiling))
        below.append(0.0 if low is None else walk.below(min(floor, ceiling)))
    return Exits(tuple(above), tuple(below))


@dataclass(frozen=True)
class _Walk:
    """The walk before a look: the points where it may stand, the weight of each, and its step up to the look."""

    points: Numbers
    weights: Numbers
    share: float
    step: float

    def above(self, z: float) -> float:
        return float(self.weights @ _ndtr((self.points - z * self.share**0.5) / self.step**0.5))

    def below(self, z: float) -> float:
        return float(self.weights @ _ndtr((z * self.share**0.5 - self.points) / self.step**0.5))

    def between(self, low: float, high: float) -> tuple[Numbers, Numbers]:
        """Return points between two z values at the look, and the walk's weight at each of them."""
        nodes, lengths = _nodes()
        bottom, top = max(low, -_FAR) * self.share**0.5, min(high, _FAR) * self.share**0.5
        half = max(top - bottom, 0.0) / 2
        points = bottom + half * (nodes + 1)
        distance = (points[:, None] - self.points[None, :]) / self.step**0.5
        density = np.exp(-(distance**2) / 2) @ self.weights / (2 * np.pi * self.step) ** 0.5
        return points, density * lengths * half


def _walks(shares: Sequence[float], lows: Sequence[float], highs: Sequence[float]) -> Iterator[_Walk]:
    """Yield the walk before each look; it has stayed between the bounds of the looks before."""
    walk = _Walk(np.zeros(1), np.ones(1), shares[0], shares[0])
    yield walk
    for (before, share), low, high in zip(pairwise(shares), lows, highs, strict=False):
        walk = _Walk(*walk.between(low, high), share, share - before)
        yield walk


def _value_that_spends(alpha: float, shares: tuple[float, ...], values: Sequence[float]) -> float:
    """Return the z value above which the walk leaves at the last of `shares` with probability `alpha`."""
    if alpha < _NOTHING:
        return _NEVER
    *_, walk = _walks(shares, [-_FAR] * len(values), values)

    def overspent(z: float) -> float:
        return walk.above(z) - alpha

    return float(statistics_module("scipy.optimize").brentq(overspent, -_FAR, _NEVER, xtol=1e-10))


@cache
def _nodes() -> tuple[Numbers, Numbers]:
    """Return the points and weights of Gauss and Legendre's quadrature between −1 and 1."""
    nodes, lengths = np.polynomial.legendre.leggauss(_NODES)
    return nodes, lengths


def _ndtr(z: Numbers) -> Numbers:
    return statistics_module("scipy.special").ndtr(z)
