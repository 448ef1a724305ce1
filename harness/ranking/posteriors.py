"""What the posteriors of many fits of one size say of their entrants, all at once."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial.legendre import leggauss  # named, so that it is loaded with this module
from numpy.typing import NDArray

_Floats = NDArray[np.floating[Any]]
_EXACT_BELOW = 2.0**40
"""So far from 0, in units of the last decimal, a float lies near enough to the decimal to tell how it is rounded."""
_NEAR_HALF = 1e-3


def rounded(values: _Floats, digits: int) -> list[float]:
    """Return the numbers of an array (n,) rounded as Python rounds them."""
    return [round(v, digits) + 0.0 for v in values.tolist()]


def rounded_rows(values: _Floats, digits: int) -> _Floats:
    """Return the numbers of an array rounded just the same, in a fraction of the time where there are many.

    All but those that are about halfway between two decimals, of which Python itself looks at every digit.
    """
    units = 10.0**digits
    is_near = np.abs(values) < _EXACT_BELOW / units
    scaled = np.where(is_near, values, 0.0) * units
    whole = np.rint(scaled)
    result = whole / units + 0.0
    is_plain = is_near & (np.abs(np.abs(scaled - whole) - 0.5) > _NEAR_HALF)
    result[~is_plain] = rounded(values[~is_plain], digits)
    return result


_NODES = 96


def probability_above_zero(z: float, dof: float) -> float:
    """Return the probability that a Student t about `z`, of scale 1, is above 0; a normal where `dof` is infinite."""
    return float(probabilities_above_zero(np.array([z]), dof)[0])


def probabilities_above_zero(z: _Floats, dof: float | _Floats) -> _Floats:
    """Return the same for many at once, in the shape of `z`; `dof` is a number, or an array of that shape or to one.

    Gauss-Legendre quadrature of the density in the angle atan(t / sqrt(dof)), in which it is a power of the cosine.
    """
    dofs = np.broadcast_to(dof, z.shape)
    finite = np.isfinite(dofs)
    above = np.empty(z.shape)
    above[~finite] = [math.erfc(-at / math.sqrt(2)) / 2 for at in z[~finite].tolist()]
    nodes, weights = _legendre(_NODES)
    of_student, freedom = z[finite], dofs[finite]
    half = np.arctan(np.abs(of_student) / np.sqrt(freedom)) / 2
    densities = np.exp((freedom - 1)[:, None] * np.log(np.cos(half[:, None] * (nodes + 1))))
    inside = np.array([_density_at_0(dof) for dof in freedom.tolist()]) * half * (densities @ weights)
    above[finite] = np.clip(0.5 + np.copysign(inside, of_student), 0, 1)
    return above


@lru_cache(maxsize=64)
def _density_at_0(dof: float) -> float:
    return math.exp(math.lgamma((dof + 1) / 2) - math.lgamma(dof / 2) - math.log(math.pi) / 2)


_legendre = cache(leggauss)


_DRAWS = 4096
"""Monte Carlo draws: the standard error is at most 0.008."""
_DOFS_PER_OCTAVE = 16
"""Degrees of freedom are rounded to so many steps for the draws, which are then kept: by 2 % at most."""


def chances_of_best(means: _Floats, covariances: _Floats, dofs: Sequence[float] | _Floats) -> _Floats:
    """Return for each of G posteriors each entrant's probability of being best, (G, n), with sum 1.

    They are normal, or Student t with their degrees of freedom: means (G, n), covariances or scales (G, n, n). The
    draws are fixed: the same input gives the same output.
    """
    values, vectors = np.linalg.eigh(covariances)
    roots = (vectors * np.sqrt(np.maximum(values, 0))[:, None, :]) @ vectors.swapaxes(1, 2)
    n = means.shape[1]
    drawn, leads, counts = np.empty((n, _DRAWS), np.float32), np.empty((n, _DRAWS), bool), np.empty(means.shape)
    for at, (root, mean, dof) in enumerate(zip(roots.astype(np.float32), means.astype(np.float32), dofs, strict=True)):
        np.matmul(root, _normals(n), out=drawn)
        if not math.isinf(dof):
            drawn *= _stretches(round(_DOFS_PER_OCTAVE * math.log2(dof)))
        drawn += mean[:, None]
        np.equal(drawn, drawn.max(axis=0), out=leads)  # many times faster than argmax
        counts[at] = [np.count_nonzero(row) for row in leads]
    return counts / counts.sum(axis=1, keepdims=True)


@cache
def _normals(n: int) -> NDArray[np.float32]:
    return np.random.default_rng(20260106).standard_normal((n, _DRAWS), np.float32)


@lru_cache(maxsize=256)
def _stretches(step: int) -> NDArray[np.float32]:
    """Return what makes normal draws those of a Student t: one number a draw, for all entrants."""
    dof = 2 ** (step / _DOFS_PER_OCTAVE)
    return np.sqrt(dof / np.random.default_rng(20261122).chisquare(dof, _DRAWS)).astype(np.float32)


BILLION = 10**9
_FEWEST_DOF = 2
"""Up to here a Student t has no standard deviation, and its scale is given."""


class Figures(NamedTuple):
    """What a fit says of n entrants as records hold it: each of n rounded numbers."""

    billionths: Sequence[int]
    """The estimates to nine decimals, so that ties are ties, in whole numbers."""
    sds: Sequence[float]
    p_best: Sequence[float]
    p_above_mean: Sequence[float]


@dataclass(frozen=True, eq=False)
class Posteriors:
    """G posteriors of n entrants each, normal or Student t, about their means."""

    estimates: _Floats
    """(G, n)."""
    means: _Floats
    """(G, n)."""
    covariances: _Floats
    """(G, n, n)."""
    dofs: _Floats
    """(G,); inf for a normal."""

    @cached_property
    def variances(self) -> _Floats:
        """(G, n)."""
        has_sd = (self.dofs > _FEWEST_DOF) & np.isfinite(self.dofs)
        dofs = np.where(has_sd, self.dofs, 2 * _FEWEST_DOF)
        widening = np.where(has_sd, dofs / (dofs - 2), 1.0)
        return np.maximum(self._scales * widening[:, None], 0)

    @cached_property
    def sds(self) -> _Floats:
        """How far each entrant's quality relative to the group's mean lies from the estimate, (G, n).

        The root of the posterior's mean square: its standard deviation, where its mean is the estimate.
        """
        return np.sqrt(self.variances + (self.means - self.estimates) ** 2)

    @cached_property
    def reliabilities(self) -> _Floats:
        """1 - mean posterior variance / variance of the means, (G,); 0 where that is negative or nothing differs."""
        spread, unsure = (self.means * self.means).sum(axis=1), self.variances.sum(axis=1)
        return np.where(spread > 0, np.fmax(0.0, 1 - unsure / np.where(spread > 0, spread, 1.0)), 0.0)

    @cached_property
    def best(self) -> _Floats:
        """Each entrant's probability of being best, (G, n), sum 1, under the joint posterior.

        Monte Carlo over 4096 fixed draws: the same input gives the same output; standard error at most 0.008.
        """
        return chances_of_best(self.means, self.covariances, self.dofs.tolist())

    @cached_property
    def above_mean(self) -> _Floats:
        """Each entrant's posterior probability of being above the group's mean, (G, n)."""
        scales = np.sqrt(np.maximum(self._scales, 0))
        return probabilities_above_zero(self.means / np.where(scales > 0, scales, 1.0), self.dofs[:, None])

    @cached_property
    def billionths(self) -> list[list[int]]:
        """The estimates of each to nine decimals, in whole numbers, however large."""
        return [list(map(round, row)) for row in (rounded_rows(self.estimates, 9) * BILLION).tolist()]

    @cached_property
    def figures(self) -> list[Figures]:
        """What records hold of each."""
        columns: Any = (rounded_rows(self.sds, 6), rounded_rows(self.best, 4), rounded_rows(self.above_mean, 4))
        return list(map(Figures, self.billionths, *(column.tolist() for column in columns)))

    @property
    def _scales(self) -> _Floats:
        return np.diagonal(self.covariances, axis1=1, axis2=2)
