"""The first-side effect of a group's calls, without numpy: a ridge fit (Bayesian Data Analysis, 14.8)."""

import math
from collections.abc import Sequence

from harness.ranking.small_systems import solve

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
