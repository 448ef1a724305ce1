"""Figures over queries: the jackknife's errors, Student's t, intervals that keep within bounds and cover the truth."""

import math
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats  # pyright: ignore[reportMissingTypeStubs]

from harness.ranking.judge_stats.side_by_side import mean_over_queries, over_queries, quotient, students_t

scipy_stats = cast("Any", stats)


def test_the_quantiles_are_students():
    for freedom in (*range(1, 60), 100, 1000):
        assert students_t(freedom) == pytest.approx(scipy_stats.t.ppf(0.975, freedom), abs=2e-3)


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=20))
def test_the_interval_of_a_mean_without_bounds_is_students(values: list[float]):
    figure = mean_over_queries(values)
    assert figure
    assert figure.low is not None
    half = scipy_stats.t.ppf(0.975, len(values) - 1) * scipy_stats.sem(values)
    assert (figure.value, figure.queries) == (pytest.approx(np.mean(values), abs=1e-9), len(values))
    assert figure.value - figure.low == pytest.approx(half, rel=2e-3, abs=1e-6)


@given(st.lists(st.integers(0, 5).flatmap(lambda of: st.tuples(st.integers(0, of), st.just(of)))))
def test_a_share_and_its_interval_lie_between_0_and_1_and_nothing_has_no_share(rows: list[tuple[int, int]]):
    figure = over_queries(rows, quotient, (0, 1))
    whole = sum(of for _, of in rows)
    assert (figure is None) == (whole == 0)
    if figure and figure.low is not None and figure.high is not None:
        assert figure.value == pytest.approx(sum(part for part, _ in rows) / whole)
        assert 0 <= figure.low <= figure.value + 1e-9
        assert figure.value - 1e-9 <= figure.high <= 1


def test_one_query_has_no_interval_and_queries_that_all_give_a_bound_have_one_that_leaves_room():
    one, all_alike = mean_over_queries([1.0], (0, 1)), mean_over_queries([1.0] * 8, (0, 1))
    assert one
    assert (one.value, one.low, one.high) == (1, None, None)
    assert all_alike
    assert all_alike.low == pytest.approx(8 / (8 + 1.96**2), abs=1e-3)
    assert mean_over_queries([]) is None


@pytest.mark.parametrize("queries", [8, 40])
def test_the_interval_covers_the_truth_where_the_verdicts_of_a_query_are_alike(queries: int):
    rng = np.random.default_rng(0)
    covered, repeats = 0, 1000
    for _ in range(repeats):
        rates = rng.beta(2, 4, size=queries)
        figure = over_queries([(float(rng.binomial(12, rate)), 12.0) for rate in rates], quotient, (0, 1))
        assert figure
        covered += (figure.low or 0) <= 1 / 3 <= (figure.high or 1)
    assert 0.93 <= covered / repeats <= 0.97


def test_a_figure_that_one_query_alone_makes_has_no_interval():
    figure = over_queries([(1.0, 0.0), (0.0, 2.0)], lambda sums: sums[0] / sums[1] if sums[1] else None)
    assert figure
    assert (figure.value, figure.low) == (0.5, None)
    assert not math.isnan(figure.value)
