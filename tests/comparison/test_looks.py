"""Boundaries over several looks: those that others have published, and the error rate that they promise."""

from math import sqrt

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from harness.comparison.interim import alpha_spent, critical_values, exits

PUBLISHED = {
    1: (1.95996,),
    2: (2.96259, 1.96857),
    3: (3.71030, 2.51143, 1.99302),
    4: (4.33263, 2.96313, 2.35904, 2.01409),
    5: (4.87688, 3.35695, 2.68026, 2.28979, 2.03100),
}
"""D. M. Reboussin, D. L. DeMets, K. Kim and K. K. G. Lan, Controlled Clinical Trials 21, 2000, page 190 (program ld98,
spending function 1, two-sided 5 %), as the R packages gsDesign (sfLDOF, 0.025), rpact and RTSA print them.
"""
FAR_BELOW = [-9.0] * 8


def equal_steps(looks: int) -> tuple[float, ...]:
    return tuple((k + 1) / looks for k in range(looks))


@pytest.mark.parametrize("looks", PUBLISHED)
def test_critical_values_are_the_published_ones(looks: int):
    assert critical_values(equal_steps(looks)) == pytest.approx(PUBLISHED[looks], abs=1e-4)


@pytest.mark.parametrize("looks", range(1, 9))
def test_all_of_the_error_rate_is_spent_and_no_more(looks: int):
    shares = equal_steps(looks)
    above = [above for above, _ in exits(shares, critical_values(shares), FAR_BELOW[:looks])]
    assert np.cumsum(above) == pytest.approx([alpha_spent(share) for share in shares], abs=1e-9)
    assert sum(above) == pytest.approx(0.025, abs=1e-9)


def test_a_walk_stays_in_its_corridor_as_often_as_scipys_multivariate_normal_says():
    shares, low, high = (0.2, 0.5, 0.6, 1.0), [-2.5, -1.0, -1.5, -2.0], [3.0, 1.5, 0.5, 1.0]
    normal = multivariate_normal(cov=np.array([[sqrt(min(s, t) / max(s, t)) for t in shares] for s in shares]))  # pyright: ignore[reportArgumentType]
    stays = normal.cdf(high, lower_limit=low)
    leaves = exits(shares, high, low)
    assert 1 - sum(map(sum, leaves)) == pytest.approx(stays, abs=1e-4)
    assert leaves[0] == (pytest.approx(norm.sf(3.0)), pytest.approx(norm.cdf(-2.5)))


def test_looks_at_any_shares_keep_the_error_rate_even_where_the_first_one_can_say_nothing():
    shares = (0.001, 0.31, 0.33, 1.0)
    values = critical_values(shares)
    assert values[0] == 40
    assert sum(above for above, _ in exits(shares, values, FAR_BELOW[:4])) == pytest.approx(0.025, abs=1e-9)


def test_a_bound_that_is_below_its_floor_ends_every_walk():
    leaves = exits((0.5, 1.0), [-3.0, -3.0], [-2.0, -2.0])
    assert sum(map(sum, leaves)) == pytest.approx(1.0, abs=0.01)
