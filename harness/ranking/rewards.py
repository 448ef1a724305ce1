"""From sort keys to ranks, rewards and standardized advantages, and how far two rankings agree; all without numpy."""

import math
import statistics
from collections.abc import Hashable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, groupby
from typing import Any, NamedTuple, TypeVar


def split_by_reward(verified: Mapping[int, float | None]) -> list[list[int]]:
    """Return entrants in classes of equal reward, best first; all in one class where any reward is unknown.

    Ranking by the reward alone gives no signal inside a class, and none at all where the whole group is one class:
    with binary rewards, the common case (arXiv 2606.09380).
    """
    if None in verified.values():
        return [list(verified)]
    levels = sorted({v for v in verified.values() if v is not None}, reverse=True)
    return [[e for e, v in verified.items() if v == level] for level in levels]


def tau_b(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return Kendall's tau-b of two sequences of values, -1..1; None where one of them holds no two different values.

    tau-b = (C - D) / sqrt((n0 - n1)(n0 - n2)): concordant less discordant pairs, over the pairs that each sequence does
    not tie (M. G. Kendall, Biometrika 33, 1945).
    """
    balance = untied_first = untied_second = 0
    for (a, c), (b, d) in combinations(zip(first, second, strict=True), 2):
        sign_first, sign_second = (a > b) - (a < b), (c > d) - (c < d)
        balance += sign_first * sign_second
        untied_first += sign_first != 0
        untied_second += sign_second != 0
    untied = untied_first * untied_second
    return balance / math.sqrt(untied) if untied else None


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


EPS = 1e-8
"""Keeps the advantage finite; far below the spread of any ranked group (docs/estimators.md)."""


class Placed(NamedTuple):
    """Rank (0 best, ties share the average), reward in 0..1, standardized advantage."""

    rank: float
    reward: float
    advantage: float


def place(
    keys: Mapping[int, Any],
    failed_last: Sequence[int] = (),
    *,
    tied: bool = False,
    values: Mapping[int, Fraction] | None = None,
) -> dict[int, Placed]:
    """Rank entrants by `keys` (greater is better), and `failed_last` together below them all.

    `tied` puts all of `keys` on one rank, for a group in which no two scores differ. The number ranked, M, counts
    `keys` and `failed_last`. `values`, if given, are the rewards of `keys` in place of those from the ranks; the failed
    then get the lowest value less 1, and an entrant ranked alone 0. Returns each entrant's place; empty for M = 0.
    """
    halves = half_ranks(dict.fromkeys(keys, 0) if tied else keys)
    halves |= dict.fromkeys(failed_last, 2 * len(halves) + len(failed_last) - 1)
    gains = _from_half_ranks(tuple(halves.values())) if values is None else _from_values(list(halves), values)
    return {e: Placed(half / 2, *gain) for (e, half), gain in zip(halves.items(), gains, strict=True)}


@lru_cache(maxsize=1024)
def _from_half_ranks(halves: tuple[int, ...]) -> Sequence[tuple[float, float]]:
    """Return reward and advantage for each rank; kept, since most groups of a size have the same ranks in order."""
    return _with_advantages(rewards([Fraction(half, 2) for half in halves]))


def _from_values(order: Sequence[int], values: Mapping[int, Fraction]) -> Sequence[tuple[float, float]]:
    lowest = min(values.values(), default=Fraction()) - 1
    return _with_advantages([values.get(e, lowest) if len(order) > 1 else Fraction() for e in order])


def _with_advantages(gained: Sequence[Fraction]) -> Sequence[tuple[float, float]]:
    return [(float(g), a) for g, a in zip(gained, advantages(gained), strict=True)]


def rewards(ranks: Sequence[Fraction]) -> list[Fraction]:
    """Return 1 - rank/(M-1) for M ranks, 0 best; 0 where M is 1 (ArenaRL, arXiv 2601.06487)."""
    m = len(ranks)
    return [Fraction() if m == 1 else 1 - rank / (m - 1) for rank in ranks]


def advantages(gained: Sequence[Fraction]) -> list[float]:
    """Return (reward - mean) / (population std + 1e-8) for M rewards; exactly 0 where all are equal.

    Source: ArenaRL, arXiv 2601.06487; its code (qqr) divides by the sample std and adds 1e-6.
    """
    if len(set(gained)) <= 1:
        return [0.0] * len(gained)
    mean = sum(gained, Fraction()) / len(gained)
    std = statistics.pstdev([float(g) for g in gained])
    return [float(g - mean) / (std + EPS) for g in gained]
