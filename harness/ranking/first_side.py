"""The first-side effect of a group's calls: the ridge fit of `margins` (Bayesian Data Analysis, 14.8), without numpy.

To import numpy takes longer than `show` may take, and its systems of equations are as small as a group.
"""

import math
from collections.abc import Sequence

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
