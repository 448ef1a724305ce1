"""Student's t, as far as a posterior needs it: scipy, which has it, is imported by comparisons alone."""

import math
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.polynomial.legendre import leggauss  # named, so that it is loaded with this module
from numpy.typing import NDArray

_Floats = NDArray[np.floating[Any]]
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
    above[finite] = _of_student(z[finite], dofs[finite])
    return above


def _of_student(z: _Floats, dofs: _Floats) -> _Floats:
    nodes, weights = _legendre()
    half = np.arctan(np.abs(z) / np.sqrt(dofs)) / 2
    densities = np.exp((dofs - 1)[:, None] * np.log(np.cos(half[:, None] * (nodes + 1))))
    inside = np.array([_density_at_0(dof) for dof in dofs.tolist()]) * half * (densities @ weights)
    return np.clip(0.5 + np.copysign(inside, z), 0, 1)


@lru_cache(maxsize=64)
def _density_at_0(dof: float) -> float:
    return math.exp(math.lgamma((dof + 1) / 2) - math.lgamma(dof / 2) - math.log(math.pi) / 2)


@cache
def _legendre() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return leggauss(_NODES)
