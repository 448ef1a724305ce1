"""Ranks of anything that can be ordered."""

from collections.abc import Hashable, Mapping
from fractions import Fraction
from typing import Any, TypeVar

_Key = TypeVar("_Key", bound=Hashable)


def average_ranks(values: Mapping[_Key, Any]) -> dict[_Key, Fraction]:
    """Return each key's rank, 0 for the greatest value, the best first; equal values share the average of their ranks.

    Keys of equal values keep their order.
    """
    order = sorted(values, key=lambda key: values[key], reverse=True)
    ranks: dict[_Key, Fraction] = {}
    start = 0
    while start < len(order):
        end = start
        while end < len(order) and values[order[end]] == values[order[start]]:
            end += 1
        ranks |= dict.fromkeys(order[start:end], Fraction(start + end - 1, 2))
        start = end
    return ranks
