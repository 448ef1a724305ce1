"""Numbers as records hold them: rounded to some decimals, without a negative zero."""

from typing import Any

import numpy as np
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
    told = whole / units + 0.0
    is_plain = is_near & (np.abs(np.abs(scaled - whole) - 0.5) > _NEAR_HALF)
    told[~is_plain] = rounded(values[~is_plain], digits)
    return told
