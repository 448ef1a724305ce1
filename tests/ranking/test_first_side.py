"""The first-side effect without numpy is that of a ridge fit with numpy; small systems are solved as by numpy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.ranking.judge_stats.orders import first_side, solve

scores = st.floats(0, 10)


@st.composite
def some_calls(draw: st.DrawFn):
    n = draw(st.integers(2, 9))
    pairs = st.permutations(range(n)).map(lambda order: (order[0], order[1]))
    return n, draw(st.lists(st.tuples(pairs, scores, scores), max_size=40))


@given(some_calls())
def test_the_first_side_effect_is_that_of_the_ridge_fit(drawn):
    n, calls = drawn
    margins = np.array([a - b for _, a, b in calls])
    rows = np.zeros((len(calls), n + 1))
    for row, ((i, j), *_) in zip(rows, calls, strict=True):
        row[i], row[j], row[n] = 1, -1, 1
    inverse = np.linalg.inv(rows.T @ rows + np.diag([1.0] * n + [0.5]))
    at = inverse @ rows.T @ margins
    variance = (((margins - rows @ at) ** 2).sum() + 2) / (max(0, len(calls) - n) + 2)
    effect, sd = first_side(n, [(i, j, a - b) for (i, j), a, b in calls])
    assert effect == pytest.approx(at[n], abs=1e-9)
    assert sd == pytest.approx(np.sqrt(variance * inverse[n, n]), abs=1e-9)


@pytest.mark.parametrize("n", [1, 2, 64, 65])
def test_a_system_has_numpys_solutions_whatever_its_size(n: int):
    rng = np.random.default_rng(n)
    root = rng.normal(size=(n, n))
    matrix, sides = root @ root.T + n * np.eye(n), rng.normal(size=(2, n))
    solved = solve(matrix.tolist(), *sides.tolist())
    assert solved == pytest.approx(np.linalg.solve(matrix, sides.T).T, abs=1e-9)
