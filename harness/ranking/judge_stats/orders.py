"""What judging pairs in both orders shows of the first side's effect: whether one order would do, and what it is worth.

Without numpy: to import it takes longer than `show` may take, and these systems of equations are as small as a group.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from harness.ranking.judge_stats.agreement import Addable


def components(n: int, pairs: Iterable[tuple[int, int]]) -> tuple[tuple[int, ...], ...]:
    """Return the entrants 0..n-1 in groups that pairs connect, each group sorted, by its smallest member."""
    met = [1 << i for i in range(n)]  # sets of entrants, as bits
    for i, j in {*pairs}:
        met[i] |= 1 << j
        met[j] |= 1 << i
    groups, left = list[tuple[int, ...]](), (1 << n) - 1
    while left:
        group = fresh = left & -left
        while fresh:
            i = fresh.bit_length() - 1
            fresh = (fresh | met[i] & ~group) & ~(1 << i)
            group |= met[i]
        groups.append(tuple(i for i in range(group.bit_length()) if group >> i & 1))
        left &= ~group
    return tuple(groups)


PRIOR_QUALITY, PRIOR_FIRST_SIDE = 1.0, 0.5
"""Prior precisions relative to unit noise."""
PRIOR_DOF, PRIOR_SIGMA = 2.0, 1.0
"""nu0 and s0: the noise is believed to be s0 score points with the weight of nu0 observations."""

Call = tuple[int, int, float]
"""Who stood first, who second, and the first's score less the second's."""


def first_side(n: int, calls: Sequence[Call]) -> tuple[float, float]:
    """Return what standing first is worth, in score points, and its posterior sd, from calls among n entrants."""
    matrix = [[0.0] * (n + 1) for _ in range(n + 1)]
    collected = [0.0] * (n + 1)
    for i in range(n):
        matrix[i][i] = PRIOR_QUALITY
    matrix[n][n] = PRIOR_FIRST_SIDE
    for first, second, margin in calls:
        signs = ((first, 1.0), (second, -1.0), (n, 1.0))
        for i, sign in signs:
            collected[i] += sign * margin
            for j, other in signs:
                matrix[i][j] += sign * other
    mode, last = solve(matrix, collected, [0.0] * n + [1.0])
    errors = [margin - (mode[first] - mode[second] + mode[n]) for first, second, margin in calls]
    dof = max(0, len(calls) - (n - 1) - 1) + PRIOR_DOF
    variance = (math.fsum(error * error for error in errors) + PRIOR_DOF * PRIOR_SIGMA**2) / dof
    return mode[n], math.sqrt(variance * last[n])


def solve(matrix: Sequence[Sequence[float]], *sides: Sequence[float]) -> list[list[float]]:
    """Return x with `matrix` x = b for each b of `sides`. The matrix (n, n) is symmetric and positive definite."""
    n = len(matrix)
    rows = [[*row, *of_sides] for row, *of_sides in zip(matrix, *sides, strict=True)]
    for i, pivot in enumerate(rows):
        for j, row in enumerate(rows):
            if j != i and row[i]:
                factor = row[i] / pivot[i]
                row[i:] = [value - factor * own for value, own in zip(row[i:], pivot[i:], strict=True)]
    return [[row[n + side] / row[i] for i, row in enumerate(rows)] for side in range(len(sides))]


THRESHOLD = 1.3
"""Below this ratio of var_position to var_residual a second order buys less than another pair would."""
_ENOUGH = 5
"""Degrees of freedom below which a variance is not reported."""
_PLENTY = 30
"""Degrees of freedom from which on the ratio no longer depends on a few pairs."""

PairMargins = Mapping[tuple[str, str], float]
"""For (first, second): first's score less second's."""


@dataclass(frozen=True)
class Advice:
    """Whether one order would do, from how many degrees of freedom, and the calls that it would save."""

    verdict: Literal["one order", "both orders", "too few"]
    ratio: float | None
    rough: bool
    """Few pairs: the next run may say otherwise."""
    saves: int
    of: int


_ROUNDING = 1 / 1200
"""The variance of rounding to tenths, as marks are."""


@dataclass(frozen=True)
class Information:
    """How far a pair's leads in the two orders correlate, once what standing first is worth on the average is off.

    0 of a judge that tosses coins, or sees nothing but the order; 1 of one that repeats each lead.
    """

    pairs: int
    value: float | None
    interval: tuple[float, float]
    """At 95 %; (-1, 1) of fewer than 3 pairs. A lower end above 0 is the one-sided test at 2.5 %."""


def information(pairs: float, preference: float, shift: float, position: float) -> Information:
    """Return the intraclass correlation of sums as `OrderSums` has them; var z = 1/(n - 3/2) (Fisher, 1921)."""
    position = max(0.0, position - shift**2 / max(1, pairs)) / max(1, pairs - 1)
    z = math.log((preference / max(1, pairs) + _ROUNDING) / (position + _ROUNDING)) / 2
    half = 1.959963984540054 / math.sqrt(pairs - 1.5) if pairs > 2 else math.inf
    return Information(round(pairs), math.tanh(z) if pairs > 1 else None, (math.tanh(z - half), math.tanh(z + half)))


@dataclass(frozen=True)
class OrderSums(Addable):
    """Sums of squares over pairs judged in both orders; they add up over groups."""

    pairs: int = 0
    position_ss: float = 0.0
    """Of (m_ij + m_ji)/2 about its group's mean: how the first side's gain differs from pair to pair."""
    position_df: int = 0
    residual_ss: float = 0.0
    """Of (m_ij - m_ji)/2 about its least-squares ranking: how far preferences are from any ranking."""
    residual_df: int = 0
    shift: float = 0.0
    """Sum of (m_ij + m_ji)/2: over `pairs`, the mean gain of standing first."""
    shift_squares: float = 0.0
    preference_squares: float = 0.0
    """Sum of ((m_ij - m_ji)/2)^2."""

    @property
    def of_information(self) -> tuple[float, float, float, float]:
        """What `information` takes."""
        return self.pairs, self.preference_squares, self.shift, self.shift_squares

    @property
    def information(self) -> Information:
        """What the judge sees beside the order shown."""
        return information(*self.of_information)

    @property
    def position_decides(self) -> bool:
        """Whether the judge shows no information, and the order shown surely moves it more than the texts do."""
        against_order = information(self.pairs, self.preference_squares, 0, self.shift_squares)
        return self.information.interval[0] <= 0 and against_order.interval[1] < 0

    @property
    def var_position(self) -> float | None:
        """The variance of the first side's gain within groups; None where there is nothing to tell it by."""
        return self.position_ss / self.position_df if self.position_df else None

    @property
    def var_residual(self) -> float | None:
        """The variance of preferences about their ranking; None where there is nothing to tell it by."""
        return self.residual_ss / self.residual_df if self.residual_df else None

    @property
    def advice(self) -> Advice:
        """Whether one order would do: yes where var_position is below 1.3 times var_residual."""
        freedom = min(self.position_df, self.residual_df)
        if freedom < _ENOUGH or self.var_position is None or self.var_residual is None:
            return Advice("too few", None, rough=True, saves=0, of=2 * self.pairs)
        small = self.var_position < THRESHOLD * self.var_residual or self.var_position < 1e-12
        ratio = self.var_position / self.var_residual if self.var_residual > 0 else None
        return Advice(
            "one order" if small else "both orders",
            ratio,
            rough=freedom < _PLENTY,
            saves=self.pairs if small else 0,
            of=2 * self.pairs,
        )


def order_sums(margins: PairMargins) -> OrderSums:
    """Return the sums of one group; only pairs with both orders count."""
    both = [(i, j) for i, j in margins if (j, i) in margins and i < j]
    if not both:
        return OrderSums()
    position = [(margins[i, j] + margins[j, i]) / 2 for i, j in both]
    preference = [(margins[i, j] - margins[j, i]) / 2 for i, j in both]
    residual, rank = _about_ranking(both, preference)
    shift = math.fsum(position)
    mean = shift / len(both)
    return OrderSums(
        len(both),
        _squares([effect - mean for effect in position]),
        len(both) - 1,
        _squares(residual),
        len(both) - rank,
        shift,
        _squares(position),
        _squares(preference),
    )


def orders_of_pair(leads: Iterable[tuple[bool, float]]) -> OrderSums:
    """Return the sums of a pair {i, j}, of each verdict whether i stood first, and the lead of i."""
    by_order: dict[tuple[str, str], list[float]] = {}
    for i_first, lead in leads:
        by_order.setdefault(("i", "j") if i_first else ("j", "i"), []).append(lead if i_first else -lead)
    return order_sums({order: math.fsum(listed) / len(listed) for order, listed in by_order.items()})


def _squares(values: Sequence[float]) -> float:
    return math.fsum(value * value for value in values)


def _about_ranking(pairs: Sequence[tuple[str, str]], preference: Sequence[float]) -> tuple[list[float], int]:
    """Return what a least-squares ranking leaves of the preferences, and how many parameters it took.

    Pairs do not tell the level of those whom they connect, so the first of each component stays at 0.
    """
    place = {node: k for k, node in enumerate(dict.fromkeys(node for pair in pairs for node in pair))}
    numbered = [(place[i], place[j]) for i, j in pairs]
    at_zero = {members[0] for members in components(len(place), numbered)}
    matrix = [[float(i == j and i in at_zero) for j in range(len(place))] for i in range(len(place))]
    collected = [0.0] * len(place)
    for pair, lead in zip(numbered, preference, strict=True):
        for node, other, sign in ((*pair, 1.0), (*reversed(pair), -1.0)):
            if node not in at_zero:
                matrix[node][node] += 1.0
                matrix[node][other] -= other not in at_zero
                collected[node] += sign * lead
    (qualities,) = solve(matrix, collected)
    left = [lead - (qualities[i] - qualities[j]) for (i, j), lead in zip(numbered, preference, strict=True)]
    return left, len(place) - len(at_zero)
