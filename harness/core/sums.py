"""Sums of figures of which some may be unknown."""

import math
from collections.abc import Iterable


def sum_if_known(figures: Iterable[float | None]) -> float | None:
    """Return the sum, 0 of no figures, or None if any figure is None: part of a bill is not the bill."""
    known: list[float] = []
    for figure in figures:
        if figure is None:
            return None
        known.append(figure)
    return math.fsum(known)
