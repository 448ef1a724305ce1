"""Fits told many at once: the very figures that each gives by itself, rounded as Python rounds."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.ranking.comparisons import Comparisons, Fit, with_chances
from harness.ranking.posteriors import rounded, rounded_rows

NUMBERS = st.floats(-1e7, 1e7) | st.integers(-(10**8), 10**8).map(lambda k: k / 20000) | st.sampled_from([1e300, -0.0])


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=9), st.sampled_from([4, 6, 9]))
def test_rows_are_rounded_as_python_rounds(rows: list[tuple[float, float]], digits: int) -> None:
    values = np.array(rows)
    told = rounded_rows(values, digits).tolist()
    assert told == [rounded(row, digits) for row in values]
    assert all(math.copysign(1, v) > 0 for row in told for v in row if v == 0)


def test_estimates_of_any_size_are_told_to_the_billionth() -> None:
    fit = replace(a_fit(np.random.default_rng(0), 2), estimates=np.array([3e12, -1.25]))
    assert fit.billionths == with_chances([fit])[0].billionths == [3 * 10**21, -1_250_000_000]


def test_a_fit_that_rounding_has_broken_is_not_reliable() -> None:
    fit = replace(a_fit(np.random.default_rng(1), 2), covariance=np.full((2, 2), np.nan), center=np.array([1.0, -1.0]))
    assert fit.reliability == 0


def a_fit(rng: np.random.Generator, n: int) -> Fit:
    spread = rng.normal(size=(n, n)) * rng.choice([0.0, 0.1, 1.0])
    estimates = rng.normal(size=n) * rng.choice([0.0, 0.1, 2.0])
    return Fit(
        estimates=estimates - estimates.mean(),
        covariance=spread @ spread.T,
        first_side=0.1,
        first_side_sd=0.1,
        sigma=1.0,
        of=Comparisons.of(n, [], [], [], []),
        converged=True,
        dof=float(rng.choice([1.5, 2.5, 8.0, math.inf])),
        center=None if rng.random() < 0.5 else estimates,
    )


@given(st.integers(0, 10**6), st.lists(st.integers(1, 12), min_size=1, max_size=5))
@settings(max_examples=40, deadline=None)
def test_fits_told_at_once_are_those_told_alone(seed: int, sizes: list[int]) -> None:
    rng = np.random.default_rng(seed)
    fits = [a_fit(rng, n) for n in sizes]
    for alone, told in zip(fits, with_chances(fits), strict=True):
        assert told.figures == alone.figures
        assert told.billionths == alone.billionths
        assert told.reliability == alone.reliability
        assert told.p_best().tolist() == alone.p_best().tolist()
        assert told.p_above_mean().tolist() == pytest.approx(alone.p_above_mean().tolist(), abs=1e-14)
