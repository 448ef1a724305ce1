"""Kendall's tau-b against scipy's."""

import math
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau  # pyright: ignore[reportMissingTypeStubs]

from harness.ranking.rewards import tau_b

PLACES = st.integers(0, 6).map(lambda place: place / 2)


@given(st.lists(st.tuples(PLACES, PLACES), max_size=12))
def test_tau_b_is_scipys_and_none_where_one_side_ties_all(pairs: list[tuple[float, float]]):
    first, second = [a for a, _ in pairs], [b for _, b in pairs]
    tau = tau_b(first, second)
    expected = cast("Any", kendalltau(first, second)).statistic if len(pairs) > 1 else math.nan
    assert (tau is None) == math.isnan(expected)
    assert tau is None or tau == pytest.approx(expected)
