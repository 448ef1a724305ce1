"""How far two orders of the same things agree."""

import math
from collections.abc import Sequence
from itertools import combinations


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
