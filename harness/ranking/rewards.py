"""From sort keys to ranks, rewards and standardized advantages."""

import statistics
from collections.abc import Mapping, Sequence
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

from harness.ranking.ranks import half_ranks

EPS = 1e-8
"""Keeps the advantage finite; far below the spread of any ranked group (docs/estimators.md)."""


class Reason(Enum):
    """Why a rollout has the place that it has."""

    RANKED = "ranked"
    FAILED_LAST = "failed of the agent's own making: last"


class Placed(NamedTuple):
    """Rank (0 best, ties share the average), reward in 0..1, standardized advantage."""

    rank: float
    reward: float
    advantage: float
    reason: Reason


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
    reasons = dict.fromkeys(failed_last, Reason.FAILED_LAST)
    return {
        e: Placed(half / 2, reward, advantage, reasons.get(e, Reason.RANKED))
        for (e, half), (reward, advantage) in zip(halves.items(), gains, strict=True)
    }


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
