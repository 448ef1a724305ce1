"""Small systems of linear equations, solved without numpy: to import numpy takes longer than `show` may take."""

import math
from collections.abc import Sequence
from operator import mul

Matrix = Sequence[Sequence[float]]

_SMALL = 64
"""Unknowns up to which this is quick: 64 take 10 ms, and the time grows with the third power."""


def solve(matrix: Matrix, *sides: Sequence[float]) -> list[list[float]]:
    """Return x with `matrix` x = b for each b of `sides`. The matrix (n, n) is symmetric and positive definite."""
    if len(matrix) > _SMALL:
        import numpy as np  # noqa: PLC0415 - see above

        return np.linalg.solve(np.array(matrix), np.array(sides).T).T.tolist()
    lower = _cholesky(matrix)
    return [_substituted(lower, side) for side in sides]


def _cholesky(matrix: Matrix) -> list[list[float]]:
    """Return the rows of L up to the diagonal, with L L' = `matrix`."""
    lower: list[list[float]] = []
    for i, row in enumerate(matrix):
        new: list[float] = []
        for j in range(i):
            new.append((row[j] - sum(map(mul, new, lower[j]))) / lower[j][j])
        new.append(math.sqrt(row[i] - sum(map(mul, new, new))))
        lower.append(new)
    return lower


def _substituted(lower: list[list[float]], side: Sequence[float]) -> list[float]:
    values: list[float] = []
    for row, value in zip(lower, side, strict=True):
        values.append((value - sum(map(mul, row, values))) / row[-1])
    for i in reversed(range(len(values))):
        values[i] /= lower[i][i]
        for j in range(i):
            values[j] -= lower[i][j] * values[i]
    return values
