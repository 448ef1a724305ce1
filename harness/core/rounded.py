"""Figures for people: sums with unknown parts, and rounding in the same way wherever the same figure stands."""

import math
from collections.abc import Iterable
from typing import Self


class Addable:
    """The base of dataclasses of sums, which add up field by field."""

    def __add__(self, other: Self) -> Self:
        """Return the sums of both."""
        return type(self)(**{name: value + getattr(other, name) for name, value in vars(self).items()})


def sum_if_known(figures: Iterable[float | None]) -> float | None:
    """Return the sum, 0 of no figures, or None if any figure is None: part of a bill is not the bill."""
    known: list[float] = []
    for figure in figures:
        if figure is None:
            return None
        known.append(figure)
    return math.fsum(known)


def whole_percent(share: float) -> int:
    """Return whole per cent; half a per cent goes away from 50, so that B against A mirrors A against B."""
    return 100 - math.floor((1 - share) * 100 + 0.5) if share < 0.5 else math.floor(share * 100 + 0.5)


def percent_half_up(share: float) -> int:
    """Return whole per cent of a share that has no mirror image: half a per cent goes up."""
    return math.floor(round(share * 100, 9) + 0.5)


def round_number(count: int) -> str:
    """Return a count to two digits, upwards: more would claim a precision that an estimate has not."""
    step = 10 ** max(0, len(str(count)) - 2)
    return f"{math.ceil(count / step) * step:,}"
