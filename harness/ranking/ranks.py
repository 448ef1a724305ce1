"""Ranks of anything that can be ordered."""

from collections.abc import Hashable, Mapping
from fractions import Fraction
from itertools import groupby
from typing import Any, TypeVar

_Key = TypeVar("_Key", bound=Hashable)


def average_ranks(values: Mapping[_Key, Any]) -> dict[_Key, Fraction]:
    """Return each key's rank, 0 for the greatest value, the best first; equal values share the average of their ranks.

    Keys of equal values keep their order.
    """
    return {key: Fraction(halves, 2) for key, halves in half_ranks(values).items()}


def half_ranks(values: Mapping[_Key, Any]) -> dict[_Key, int]:
    """Return the same in halves of a place, which are whole numbers."""
    order = sorted(values, key=values.__getitem__, reverse=True)
    ranks: dict[_Key, int] = {}
    start = 0
    for _, of_one_value in groupby(order, values.__getitem__):
        equal = list(of_one_value)
        ranks |= dict.fromkeys(equal, 2 * start + len(equal) - 1)
        start += len(equal)
    return ranks
