"""The maximum of a smooth function by BFGS: nine parameters, and scipy takes longer to import than such a fit."""

from collections.abc import Callable

import numpy as np

from harness.ranking.comparisons import Floats

_MOST_STEPS, _SHORTEST_STEP = 200, 1e-8
_LONGEST_MOVE = 1.0
"""No parameter moves farther in a step: far away the function is flat, and the search would stay there."""
_ENOUGH = 1e-4
"""Of the rise that the slope promises, this share is asked for (Armijo's rule)."""
_TOLERANCE = 1e-6
_FLAT = 1e-2
"""At rest a step raises the value by less than the tolerance, and no slope is steeper than this."""

ValueAndSlope = Callable[[Floats], tuple[float, Floats]]


def maximum(function: ValueAndSlope, start: Floats, inverse_curvature: Floats) -> tuple[Floats, bool]:
    """Return where `function` is greatest, from `start` on, and whether the search came to rest.

    BFGS with backtracking (Nocedal and Wright, Numerical Optimization, 6.1 and 3.1).
    """
    at, curvature = start, inverse_curvature
    value, slope = function(at)
    for _ in range(_MOST_STEPS):
        direction = curvature @ slope
        step = min(1.0, _LONGEST_MOVE / float(np.abs(direction).max() or 1.0))
        new, new_value, new_slope = at, value, slope
        while step > _SHORTEST_STEP:
            new = at + step * direction
            new_value, new_slope = function(new)
            if new_value >= value + _ENOUGH * step * float(slope @ direction):
                break
            step /= 2
        else:
            return at, _is_flat(slope)
        curvature = _updated(curvature, new - at, slope - new_slope)
        rise, at, value, slope = new_value - value, new, new_value, new_slope
        if rise < _TOLERANCE and _is_flat(slope):
            return at, True
    return at, False


def _is_flat(slope: Floats) -> bool:
    return float(np.abs(slope).max()) < _FLAT


def _updated(curvature: Floats, move: Floats, bend: Floats) -> Floats:
    along = float(move @ bend)
    if along <= 0:
        return curvature
    turn = np.eye(len(move)) - np.outer(move, bend) / along
    return turn @ curvature @ turn.T + np.outer(move, move) / along
