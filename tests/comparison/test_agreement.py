"""Each figure agrees with scipy, statsmodels, choix, or with counting all cases.

statsmodels is not installed with the tests: its figures are written down, with the call that gave each (0.15.0).
"""

import itertools

import choix
import numpy as np
import pytest
from scipy import stats

from harness.comparison.conclusions import bradley_terry
from harness.comparison.intervals import (
    detectable,
    enough_queries,
    holm,
    interval_of_mean,
    interval_of_share,
    sign_flip_p,
    t_test_power,
)
from harness.comparison.outcomes import Clusters, OfOneSize, Pair, equal_clusters, ratio
from harness.comparison.side_results import length_controlled
from harness.ranking.judge_stats.agreement import Share


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def of_values(values: np.ndarray) -> Clusters:
    return Clusters.of({f"{i:03}": float(value) for i, value in enumerate(values)})


def uneven(count: int, rng: np.random.Generator) -> Clusters:
    """Return clusters of one to five queries with outcomes of two pairs each."""
    sizes = rng.integers(1, 6, count)
    return Clusters(np.array([rng.choice([0, 0.25, 0.5, 0.75, 1], size).sum() for size in sizes]), sizes.astype(float))


@pytest.mark.parametrize("count", [45, 60, 200])
def test_the_bootstrap_is_scipys_over_ratios_of_sums(count: int, rng: np.random.Generator):
    clusters = uneven(count, rng)
    worth = clusters.fewest
    widened = stats.t.ppf(0.975, worth - 1) * np.sqrt(worth / (worth - 1))
    theirs = stats.bootstrap(
        (clusters.sums, clusters.sizes),
        ratio,
        paired=True,
        n_resamples=10_000,
        method="percentile",
        confidence_level=float(1 - 2 * stats.norm.sf(widened)),
        rng=np.random.default_rng(3),
    ).confidence_interval
    ours = interval_of_share(clusters, seed=3)
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high))


def test_the_bootstrap_is_what_drawing_by_hand_gives(rng: np.random.Generator):
    clusters = uneven(50, rng)
    draws = np.random.default_rng(11).integers(0, 50, (40_000, 50))
    by_hand = np.quantile(clusters.sums[draws].sum(1) / clusters.sizes[draws].sum(1), [0.0225, 0.9775])
    ours = interval_of_share(clusters, seed=0)
    assert (ours.low, ours.high) == pytest.approx(by_hand, abs=0.008)


@pytest.mark.parametrize("count", [2, 8, 29])
def test_the_t_interval_of_amounts_is_scipys(count: int, rng: np.random.Generator):
    values = rng.lognormal(0, 1, count)
    ours, theirs = interval_of_mean(of_values(values), 0), stats.ttest_1samp(values, 0).confidence_interval()
    assert ours
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high))


@pytest.mark.parametrize("count", [2, 5, 9, 13])
def test_the_p_of_few_clusters_counts_all_flips_of_signs(count: int, rng: np.random.Generator):
    clusters = uneven(count, rng)
    distances = clusters.sums - clusters.sizes / 2
    flipped = [abs(np.dot(signs, distances)) for signs in itertools.product([-1, 1], repeat=count)]
    expected = np.mean(np.array(flipped) >= abs(distances.sum()) - 1e-9)
    assert sign_flip_p(clusters, 0) == pytest.approx(expected)


def test_the_p_of_many_clusters_is_near_that_of_a_t_test(rng: np.random.Generator):
    values = np.clip(rng.normal(0.53, 0.2, 300), 0, 1)
    _, expected = stats.ttest_1samp(values, 0.5)
    assert sign_flip_p(of_values(values), 0) == pytest.approx(expected, abs=0.02)


def test_the_bound_of_what_is_not_seen_is_clopper_and_pearsons():
    for wins, value in ((0, 0.0), (25, 1.0)):
        low, high = stats.binomtest(wins, 25).proportion_ci(method="exact")
        ours = interval_of_share(of_values(np.full(25, value)), 0)
        assert (ours.low, ours.high) == pytest.approx((low, high))


@pytest.mark.parametrize(("part", "whole"), [(0, 5), (3, 17), (40, 41), (9, 9)])
def test_the_interval_of_a_share_of_matches_is_wilsons(part: int, whole: int):
    assert Share(part, whole).interval == pytest.approx(
        tuple(stats.binomtest(part, whole).proportion_ci(method="wilson"))
    )


def test_holm_is_what_its_steps_give():
    p = [0.01, 0.04, 0.03, 0.005, 1.0]
    steps = sorted(range(5), key=lambda i: p[i])
    running, expected = 0.0, [0.0] * 5
    for place, i in enumerate(steps):
        running = max(running, min(1.0, (5 - place) * p[i]))
        expected[i] = running
    assert holm(p) == pytest.approx(expected)
    assert holm(p) == pytest.approx([0.04, 0.09, 0.09, 0.025, 1.0], abs=1e-12)  # multipletests(p, method="holm")[1]
    assert holm([]) == []


def test_power_and_number_of_queries_are_those_of_the_t_test():
    clusters = of_values(np.tile([0.0, 0.5, 1.0, 1.0], 15))
    ((count, spread),) = clusters.as_equal
    assert count == 60
    assert spread == pytest.approx(np.std(clusters.sums, ddof=1))
    distance = detectable(clusters, 0.42)
    assert distance
    assert t_test_power(distance / spread, 60) == pytest.approx(0.8)
    needed = enough_queries(clusters, 0.42)
    assert needed
    effect = (clusters.mean - 0.5) / spread
    assert t_test_power(effect, needed - 1) < 0.8 <= t_test_power(effect, needed)


@pytest.mark.parametrize(
    ("effect", "count", "power"),  # statsmodels.stats.power.TTestPower().power(effect, count, 0.05)
    [
        (0.5, 34, 0.8077775012792737),
        (0.1, 100, 0.16769954719247082),
        (2.0, 4, 0.7549839171140109),
        (0.02, 10_000, 0.515928730762685),
        (0.0, 7, 0.05),
    ],
)
def test_the_power_is_statsmodels(effect: float, count: int, power: float):
    assert t_test_power(effect, count) == pytest.approx(power, abs=1e-12)


def test_the_length_controlled_rate_is_that_of_a_logistic_regression_with_a_sandwich_by_cluster():
    rng = np.random.default_rng(5)
    first, second = rng.integers(100, 900, 60).tolist(), rng.integers(100, 900, 60).tolist()
    won = rng.choice([0, 0.5, 1], 60).tolist()
    lengths = list(zip(first, second, strict=True))
    pairs = {f"{i:02}": [Pair(outcome=won[i], lengths=lengths[i])] for i in range(60)}
    ours = length_controlled(pairs, {query: f"{int(query) // 4:02}" for query in pairs})
    assert ours
    # What statsmodels gives: GLM(won, columns, family=Binomial()).fit(cov_type="cluster", cov_kwds={"groups": groups},
    # tol=1e-14) with the columns 1 and x / x.std(), x = (second - first) / (second + first) and groups
    # arange(60) // 4: the logistic function of params[0], and of params[0] -+ t.ppf(0.975, 14) * bse[0].
    expected = (0.5438953974698739, 0.4381772987666836, 0.645800939650669)
    assert (ours.value, ours.low, ours.high) == pytest.approx(expected, abs=1e-12)


def test_where_nothing_spreads_the_power_is_that_of_the_default_spread():
    alike = of_values(np.full(40, 0.6))
    assert detectable(alike, 0.0) == detectable(alike, 0.42)
    assert enough_queries(alike, 0.0) == enough_queries(alike, 0.42) == 141
    assert enough_queries(of_values(np.full(3, 1.0)), 0.01) == 6
    assert detectable(of_values(np.full(2, 1.0)), 0.42) is None


def test_the_spread_of_uneven_clusters_is_the_standard_error_of_their_ratio(rng: np.random.Generator):
    clusters = uneven(400, rng)
    drawn = stats.bootstrap((clusters.sums, clusters.sizes), ratio, paired=True, rng=np.random.default_rng(0))
    for count, spread in clusters.as_equal:
        assert spread / count**0.5 == pytest.approx(drawn.standard_error, rel=0.05)
    means = {"a": 1.0, "b": 0.0, "c": 0.75, "d": 0.0}
    assert Clusters.of(means).as_equal == ((4, pytest.approx(np.std([1, 0, 0.75, 0], ddof=1))),)
    in_twos = Clusters.of(means, {"a": "x", "b": "x", "c": "y", "d": "y"}).as_equal
    assert in_twos == ((2, pytest.approx(np.std([0.5, 0.375], ddof=1))),)
    assert Clusters.of({"a": 1.0}).as_equal == ()


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("sizes", [[30] + [1] * 20, [3, 3, 1, 2, 5], [2, 1]])
def test_uneven_clusters_have_cr2_and_the_freedom_of_satterthwaite_in_matrices(sizes: list[int], power: int):
    size, sums = np.array(sizes, float), np.random.default_rng(0).normal(size=len(sizes)) * sizes
    variance = np.diag(size**power)
    residual = np.eye(len(size)) - np.outer(size / size.sum(), np.ones(len(size)))
    covariance = residual @ variance @ residual.T
    weight = np.diag(np.diag(variance) / np.diag(covariance)) / size.sum() ** 2
    quadratic = weight @ covariance
    freedom = np.trace(quadratic) ** 2 / np.trace(quadratic @ quadratic)
    count, spread = equal_clusters(sums, size)[power - 1]
    assert count - 1 == pytest.approx(freedom)
    assert spread**2 / count == pytest.approx((residual @ sums) @ weight @ (residual @ sums))


@pytest.mark.parametrize(("count", "alike"), [(7, 1), (12, 5), (2, 3)])
def test_clusters_of_one_size_keep_the_interval_by_t_with_one_degree_less_than_clusters(count: int, alike: int):
    means = np.random.default_rng(count).random(count)
    clusters = Clusters(means * alike, np.full(count, float(alike)))
    half = stats.t.ppf(0.975, count - 1) * means.std(ddof=1) / count**0.5
    ours = interval_of_mean(clusters, 0)
    assert ours
    assert (ours.low, ours.high) == pytest.approx((means.mean() - half, means.mean() + half), abs=1e-12)
    nearly = equal_clusters(np.append(clusters.sums, 1e-9), np.append(clusters.sizes, 1e-9))  # one of next to no size
    assert [worth for worth, _ in nearly] == pytest.approx([count] * 2, abs=1e-3)


def test_strengths_are_choixs_and_those_of_every_draw_at_once(rng: np.random.Generator):
    met = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    played = rng.integers(5, 20, (6, 30)).astype(float)
    won = np.floor(played * rng.random((6, 30)))
    won[:, 0], won[:, 1] = played[:, 0], 0  # the later side always wins, or never
    ours = bradley_terry(won, played, met)
    for draw in range(30):
        table = np.zeros((4, 4))
        for (first, second), wins, games in zip(met, won[:, draw], played[:, draw], strict=True):
            table[second, first], table[first, second] = wins + 0.25, games - wins + 0.25
        assert ours[:, draw] == pytest.approx(choix.ilsr_pairwise_dense(table, tol=1e-12), abs=1e-6)


def test_clusters_of_a_comparison_that_0_2_0_made_keep_its_spread_and_count():
    clusters = {f"q{i}": "alike" for i in range(6)}
    means = {f"q{i}": float(i % 3) / 2 for i in range(12)}
    old, new = (Clusters.of(means, kind(clusters)) for kind in (OfOneSize, dict))
    linearized = np.sqrt(((old.sums - old.mean * old.sizes) ** 2).sum() / 6) / old.sizes.mean()
    assert old.as_equal == ((7, pytest.approx(linearized)),)
    assert new.fewest < 3 < 7 == old.fewest
