"""Student's t, as far as a posterior needs it: scipy, which has it, is not among what the core installs."""

import math
from functools import cache

import numpy as np
from numpy.polynomial.legendre import leggauss  # named, so that it is loaded with this module
from numpy.typing import NDArray

_NODES = 96


def probability_above_zero(z: float, dof: float) -> float:
    """Return the probability that a Student t about `z`, of scale 1, is above 0; a normal where `dof` is infinite.

    Gauss-Legendre quadrature of the density in the angle atan(t / sqrt(dof)), in which it is a power of the cosine.
    """
    if math.isinf(dof):
        return math.erfc(-z / math.sqrt(2)) / 2
    nodes, weights = _legendre()
    half = math.atan(abs(z) / math.sqrt(dof)) / 2
    logs = math.lgamma((dof + 1) / 2) - math.lgamma(dof / 2) - math.log(math.pi) / 2
    inside = math.exp(logs) * half * float(weights @ np.cos(half * (nodes + 1)) ** (dof - 1))
    return min(1.0, max(0.0, 0.5 + math.copysign(inside, z)))


@cache
def _legendre() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return leggauss(_NODES)
