"""How often an equal agent passes a gate: as simulated agents do."""

import numpy as np
import pytest
from scipy.stats import t

from harness.comparison.gate import default_spread, pass_forecast, pass_probability
from harness.comparison.intervals import interval_of_mean
from harness.comparison.outcomes import Clusters

COMMON = 0.1028 / 0.42**2
"""Of the default variance of two pairs, the part that more pairs would not lessen."""


@pytest.mark.parametrize(("queries", "percent"), [(20, 9), (200, 39), (400, 66), (800, 90)])
def test_the_default_spread_gives_the_figures_that_the_docs_name(queries: int, percent: int):
    assert 100 * pass_forecast(queries, 0.05, None).probability == pytest.approx(percent, abs=2.1)


@pytest.mark.parametrize(("queries", "spread"), [(20, 0.35), (60, 0.42), (300, 0.2)])
def test_one_look_passes_as_often_as_the_interval_by_t_of_simulated_agents(queries: int, spread: float):
    means = np.random.default_rng(1).normal(0.5, spread, (20_000, queries))
    lower = means.mean(1) - t.ppf(0.975, queries - 1) * means.std(1, ddof=1) / np.sqrt(queries)
    assert pass_probability(queries, 0.05, spread) == pytest.approx((lower > 0.45).mean(), abs=0.012)


def test_so_many_queries_as_are_named_pass_in_four_of_five():
    for shares in ((1.0,), (0.25, 0.5, 0.75, 1.0)):
        of_few = pass_forecast(20, 0.05, 0.35, shares=shares)
        assert of_few.queries_desired is not None
        assert pass_probability(of_few.queries_desired, 0.05, 0.35, shares) >= 0.8
        assert pass_probability(of_few.queries_desired - 1, 0.05, 0.35, shares) < 0.8
    assert pass_forecast(20, 0.0001, None).queries_desired is None


def test_more_queries_a_wider_margin_and_more_pairs_pass_more_often():
    plain = pass_forecast(200, 0.05, None).probability
    assert pass_forecast(300, 0.05, None).probability > plain
    assert pass_forecast(200, 0.06, None).probability > plain
    assert pass_forecast(200, 0.05, None, pairs=4).probability > plain


def test_looking_four_times_costs_hardly_any_chance_to_pass():
    assert pass_forecast(400, 0.05, None, shares=(0.25, 0.5, 0.75, 1.0)).probability == pytest.approx(
        pass_forecast(400, 0.05, None).probability, abs=0.02
    )


def test_one_pair_a_query_is_a_coin_and_two_have_the_default_spread():
    assert [default_spread(pairs) for pairs in (1, 2)] == [pytest.approx(0.5), pytest.approx(0.42)]


def test_queries_of_a_cluster_count_as_one_as_far_as_more_pairs_would_not_lessen_their_spread():
    def counted(pairs: int, *sizes: int) -> int:
        return pass_forecast(sum(sizes), 0.05, 0.4, pairs=pairs, sizes=[sizes]).queries

    assert counted(2, *[1] * 12) == 12
    assert counted(2, 60, 60) == round(120 / (1 + 59 * COMMON))
    assert counted(1000, 3, 3, 3, 3) == 4  # so many pairs leave nothing else
    assert counted(1000, 4, 4, 1, 1, 1, 1) == round(144 / 36)


def test_where_all_pairs_tie_enough_queries_pass_for_certain():
    assert [pass_probability(queries, 0.05, 0.0) for queries in (20, 35, 36)] == [0.0, 0.0, 1.0]
    assert pass_forecast(20, 0.05, 0.0).queries_desired == 36


@pytest.mark.parametrize("sizes", [[30] + [1] * 20, [30] * 3 + [1] * 30, [1, 2, 3] * 9, [5] * 20])
def test_a_gate_of_clusters_passes_as_often_as_is_foretold(sizes: list[int]):
    size, rng = np.array(sizes, float), np.random.default_rng(3)
    spreads = 0.4 * np.sqrt(COMMON + (1 - COMMON) / size)
    drawn = [interval_of_mean(Clusters(size * rng.normal(0.5, spreads), size), 0) for _ in range(800)]
    for margin in (0.05, 0.3):
        passed = np.mean([interval.low > 0.5 - margin for interval in drawn if interval])
        assert pass_forecast(sum(sizes), margin, 0.4, sizes=[sizes]).probability == pytest.approx(passed, abs=0.03)


def test_four_looks_at_clusters_that_differ_in_size_pass_hardly_less_often_than_one():
    sizes = [[1, 2, 3] * 20] * 4
    once, four = (
        pass_forecast(480, 0.05, 0.3, sizes=[sizes[0] * 4]),
        pass_forecast(480, 0.05, 0.3, shares=(0.25, 0.5, 0.75, 1.0), sizes=sizes),
    )
    assert four.probability == pytest.approx(once.probability, abs=0.04)
