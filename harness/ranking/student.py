"""Student's t, as far as a posterior needs it: scipy, which has it, is not among what the core installs."""

import math
from functools import cache
from typing import Any

import numpy as np
from numpy.polynomial.legendre import leggauss  # named, so that it is loaded with this module
from numpy.typing import NDArray

_Floats = NDArray[np.floating[Any]]
_NODES = 96


def probability_above_zero(z: float, dof: float) -> float:
    """Return the probability that a Student t about `z`, of scale 1, is above 0; a normal where `dof` is infinite."""
    return float(probabilities_above_zero(np.array([z]), dof)[0])


def probabilities_above_zero(z: _Floats, dof: float) -> _Floats:
    """Return the same for many at once, (n,).

    Gauss-Legendre quadrature of the density in the angle atan(t / sqrt(dof)), in which it is a power of the cosine.
    """
    if math.isinf(dof):
        return np.array([math.erfc(-at / math.sqrt(2)) / 2 for at in z.tolist()])
    nodes, weights = _legendre()
    half = np.arctan(np.abs(z) / math.sqrt(dof)) / 2
    logs = math.lgamma((dof + 1) / 2) - math.lgamma(dof / 2) - math.log(math.pi) / 2
    inside = math.exp(logs) * half * (np.exp((dof - 1) * np.log(np.cos(half[:, None] * (nodes + 1)))) @ weights)
    return np.clip(0.5 + np.copysign(inside, z), 0, 1)


@cache
def _legendre() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return leggauss(_NODES)
