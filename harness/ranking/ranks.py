"""Ranks of anything that can be ordered."""

from collections.abc import Hashable, Mapping
from fractions import Fraction
from functools import lru_cache
from itertools import groupby
from typing import Any, TypeVar

_Key = TypeVar("_Key", bound=Hashable)


def average_ranks(values: Mapping[_Key, Any]) -> dict[_Key, Fraction]:
    """Return each key's rank, 0 for the greatest value, the best first; equal values share the average of their ranks.

    Keys of equal values keep their order.
    """
    order = sorted(values, key=values.__getitem__, reverse=True)
    ranks: dict[_Key, Fraction] = {}
    start = 0
    for _, of_one_value in groupby(order, values.__getitem__):
        equal = list(of_one_value)
        ranks |= dict.fromkeys(equal, _halves(2 * start + len(equal) - 1))
        start += len(equal)
    return ranks


@lru_cache(maxsize=4096)
def _halves(number: int) -> Fraction:
    """Return half of a number; kept, since there are as many as entrants, and to make a fraction takes long."""
    return Fraction(number, 2)
