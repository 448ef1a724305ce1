"""The fitted estimators: right by independent solvers, bounded where the data are thin, honest in their uncertainty."""

import itertools
import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

from harness.ranking.comparisons import Comparisons, Fit, with_chances
from harness.ranking.estimators import fit_bt
from harness.ranking.margins import (
    CROWDED,
    CROWDING,
    NOISE_DOF,
    NOISE_VAR,
    QUALITY_DOF,
    QUALITY_VAR,
    RATIOS,
    fit_margins,
)

Fitting = Callable[[Comparisons], Fit]
FITS = pytest.mark.parametrize("fit", [fit_margins, fit_bt])


@st.composite
def some_calls(draw: st.DrawFn) -> Comparisons:
    """Any calls among up to nine entrants: repeated, one-sided, disconnected, none; scores in tenths or few values."""
    n = draw(st.integers(1, 9))
    pairs = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda p: p[0] != p[1])
    shown = draw(st.lists(pairs, max_size=30 if n > 1 else 0))
    score = st.integers(0, 100).map(lambda tenths: tenths / 10) | st.sampled_from([5.0, 6.0])
    scores = draw(st.lists(st.tuples(score, score), min_size=len(shown), max_size=len(shown)))
    return Comparisons.of(
        n, [p[0] for p in shown], [p[1] for p in shown], [s[0] for s in scores], [s[1] for s in scores]
    )


def design(calls: Comparisons) -> np.ndarray:
    rows = np.zeros((len(calls.first), calls.n + 1))
    rows[:, -1] = 1
    for row, f, s in zip(rows, calls.first, calls.second, strict=True):
        row[f], row[s] = 1, -1
    return rows


def outcomes(calls: Comparisons) -> np.ndarray:
    return (np.sign(calls.score_first - calls.score_second) + 1) / 2


def projection(n: int) -> np.ndarray:
    return np.eye(n) - 1 / n


@given(some_calls())
def test_the_estimates_of_margins_are_those_of_an_independent_solver(calls: Comparisons) -> None:
    x, m, n = design(calls), calls.score_first - calls.score_second, calls.n
    prior = np.array([1.0] * n + [0.5])
    stacked, target = np.vstack([x, np.diag(np.sqrt(prior))]), np.concatenate([m, np.zeros(n + 1)])
    found = optimize.lsq_linear(stacked, target, tol=1e-14).x
    fit = fit_margins(calls)
    assert fit.estimates == pytest.approx(found[:n] - found[:n].mean(), abs=1e-6)
    assert fit.first_side == pytest.approx(found[n], abs=1e-6)


@given(some_calls())
def test_the_posterior_of_margins_is_the_average_over_the_ratios_of_noise_to_quality_written_out_in_full(
    calls: Comparisons,
) -> None:
    x, m, n = design(calls), calls.score_first - calls.score_second, calls.n
    width = np.diag(1 / np.array([1.0] * n + [0.5]))
    believed, logs, means, covariances = NOISE_DOF + QUALITY_DOF, [], [], []
    crowdings = zip(CROWDING.ravel(), CROWDED.ravel(), strict=True)
    for ratio, (crowding, probability) in itertools.product(RATIOS, list(crowdings)):
        sums = crowding * (NOISE_DOF * NOISE_VAR + QUALITY_DOF * QUALITY_VAR * ratio)
        spread = np.eye(len(m)) + x @ width @ x.T / ratio
        likely = (
            stats.multivariate_t(np.zeros(len(m)), spread * sums / believed, df=int(believed)).logpdf(m)
            if len(m)
            else 0
        )
        wide = QUALITY_DOF / 2 * np.log(ratio) + believed / 2 * np.log(crowding / sums)
        logs.append(likely + wide + np.log(probability))
        gain = np.linalg.solve(spread, x @ width / ratio).T
        means.append(gain @ m)
        scale = (sums + m @ np.linalg.solve(spread, m)) / (believed + len(m) - 2)
        covariances.append(scale * (width / ratio - gain @ x @ width / ratio))
    weights = np.exp(np.array(logs) - max(logs))
    weights /= weights.sum()
    mean = weights @ np.array(means)
    away = np.array(means) - mean
    covariance = np.tensordot(weights, np.array(covariances) + away[:, :, None] * away[:, None, :], 1)
    found, p = fit_margins(calls), projection(n)
    assert found.mean == pytest.approx(mean[:n] - mean[:n].mean(), abs=1e-6)
    of_side = np.sqrt(covariance[n, n] + (mean[n] - found.first_side) ** 2)
    assert found.first_side_sd == pytest.approx(of_side, abs=1e-6)
    variances = np.diag(p @ covariance[:n, :n] @ p)
    assert found.sds == pytest.approx(np.sqrt(variances + (found.mean - found.estimates) ** 2), abs=1e-6)
    assert 3 <= found.dof <= believed + len(m) + 1e-9


@given(some_calls())
def test_bt_agrees_with_an_independent_solver_and_converges(calls: Comparisons) -> None:
    x, w, n = design(calls), outcomes(calls), calls.n
    prior = np.array([0.4] * n + [0.2])

    def loss(at: np.ndarray) -> float:
        return -(w * (x @ at) - np.logaddexp(0, x @ at)).sum() + (prior * at * at).sum() / 2

    def slope(at: np.ndarray) -> np.ndarray:
        return -x.T @ (w - 1 / (1 + np.exp(-(x @ at)))) + prior * at

    found = optimize.minimize(loss, np.zeros(n + 1), jac=slope, method="BFGS", options={"gtol": 1e-9}).x
    p = 1 / (1 + np.exp(-(x @ found)))
    sigma = np.linalg.inv(x.T @ (x * (p * (1 - p))[:, None]) + np.diag(prior))
    fit = fit_bt(calls)
    assert fit.converged
    assert fit.estimates == pytest.approx(found[:n] - found[:n].mean(), abs=1e-6)
    assert fit.first_side == pytest.approx(found[n], abs=1e-6)
    assert fit.covariance == pytest.approx(projection(n) @ sigma[:n, :n] @ projection(n), abs=1e-6)


def log_posterior(calls: Comparisons, at: np.ndarray) -> np.ndarray:
    """Return the log posterior of `bt` of many candidates at once, (..., n+1), up to a constant, call by call."""
    total = -np.array([0.4] * calls.n + [0.2]) @ (at.T**2) / 2
    for f, s, a, b in zip(calls.first, calls.second, calls.score_first, calls.score_second, strict=True):
        ahead = at[:, f] - at[:, s] + at[:, -1]
        won = 1.0 if a > b else 0.0 if a < b else 0.5
        total += won * np.log(stats.logistic.cdf(ahead)) + (1 - won) * np.log(stats.logistic.sf(ahead))
    return total


@pytest.mark.parametrize("scores", list(itertools.product([4.0, 5.0, 6.5], repeat=2)))
def test_no_point_of_a_grid_is_more_probable_than_the_estimate(scores: tuple[float, float]) -> None:
    calls = Comparisons.of(3, [0, 1], [1, 2], scores, [5.0, 5.0])
    found = fit_bt(calls)
    mode = np.append(found.estimates, found.first_side)
    steps = np.array(list(itertools.product([-0.3, -0.01, 0, 0.01, 0.3], repeat=4)))
    around, wide = mode + steps, np.array(list(itertools.product(np.linspace(-2, 2, 9), repeat=4)))
    best = log_posterior(calls, mode[None, :])[0]
    assert best >= log_posterior(calls, np.vstack([around, wide])).max() - 1e-12


@given(some_calls())
@FITS
def test_every_fit_is_finite_and_centred_and_its_chances_add_up(fit: Fitting, calls: Comparisons) -> None:
    found = fit(calls)
    for values in (found.estimates, found.covariance, found.sds, [found.first_side, found.first_side_sd]):
        assert np.isfinite(values).all()
    assert found.estimates.sum() == pytest.approx(0, abs=1e-9)
    assert found.p_best().sum() == pytest.approx(1)
    assert found.p_best().tolist() == fit(calls).p_best().tolist()
    assert ((found.p_above_mean() >= 0) & (found.p_above_mean() <= 1)).all()
    assert 0 <= found.reliability <= 1


def knockout(size: int) -> Comparisons:
    """A single elimination in which the lower index always wins ten to nought."""
    first, second, left = [], [], size
    while left > 1:
        first += range(left // 2)
        second += range(left // 2, left)
        left //= 2
    return Comparisons.of(size, first, second, [10.0] * len(first), [0.0] * len(first))


@FITS
@pytest.mark.parametrize("size", [2, 8, 64])
def test_a_perfect_knockout_gives_finite_estimates_with_the_champion_first(fit: Fitting, size: int) -> None:
    found = fit(knockout(size))
    assert found.converged
    assert found.connected
    assert np.abs(found.estimates).max() < 30
    assert found.estimates.argmax() == 0
    assert found.p_above_mean().argmax() == 0


@FITS
@pytest.mark.parametrize("times", [1, 10, 1000])
def test_a_perfect_record_however_long_stays_finite_and_grows_surer(fit: Fitting, times: int) -> None:
    calls = Comparisons.of(2, [0, 1] * times, [1, 0] * times, [10.0, 0.0] * times, [0.0, 10.0] * times)
    found = fit(calls)
    assert found.converged
    assert np.isfinite(found.estimates).all()
    assert found.p_best()[0] > 0.85
    assert found.first_side == pytest.approx(0, abs=1e-9)


@FITS
def test_parts_that_never_met_are_named_and_the_uncertainty_between_them_stays_the_prior_s(fit: Fitting) -> None:
    first, second = [0, 1, 2, 3] * 50, [1, 0, 3, 2] * 50
    apart = fit(Comparisons.of(5, first, second, [5.0] * 200, [5.0] * 200))
    assert not apart.connected
    assert apart.components == ((0, 1), (2, 3), (4,))
    within, between = np.array([1, -1, 0, 0, 0]), np.array([1, 1, -1, -1, 0]) / 2
    sd_within, sd_between = (np.sqrt(c @ apart.covariance @ c) for c in (within, between))
    bridged = fit(Comparisons.of(5, [*first, *[0, 2] * 50], [*second, *[2, 0] * 50], [5.0] * 300, [5.0] * 300))
    prior = 0.4**-0.5 if fit is fit_bt else sd_between
    assert sd_between == pytest.approx(prior, rel=1e-6)  # the mean of two on either side: 4 quarters of a variance
    assert 0.2 < prior < QUALITY_VAR, "with margins the width is learnt: pairs that are equal narrow it"
    assert sd_within < prior / 4
    assert bridged.components == ((0, 1, 2, 3), (4,))
    assert np.sqrt(between @ bridged.covariance @ between) < sd_between / 2


def test_without_any_call_nothing_is_claimed() -> None:
    for found in (fit_margins(Comparisons.of(3, [], [], [], [])), fit_bt(Comparisons.of(3, [], [], [], []))):
        assert found.estimates.tolist() == [0, 0, 0]
        assert found.components == ((0,), (1,), (2,))
        assert found.reliability == 0
        assert found.p_above_mean().tolist() == [0.5] * 3
        assert found.p_best() == pytest.approx(1 / 3, abs=0.02)


@given(some_calls(), st.randoms(use_true_random=False))
@FITS
def test_other_numbers_for_the_entrants_permute_the_estimates(
    fit: Fitting, calls: Comparisons, rng: random.Random
) -> None:
    renamed = list(range(calls.n))
    rng.shuffle(renamed)
    new = np.array(renamed)
    other = fit(Comparisons.of(calls.n, new[calls.first], new[calls.second], calls.score_first, calls.score_second))
    assert other.estimates[new] == pytest.approx(fit(calls).estimates, abs=1e-8)
    assert other.sds[new] == pytest.approx(fit(calls).sds, abs=1e-8)


@given(some_calls())
@FITS
def test_swapping_what_all_scored_turns_the_estimates_round(fit: Fitting, calls: Comparisons) -> None:
    turned = Comparisons.of(calls.n, calls.first, calls.second, calls.score_second, calls.score_first)
    assert fit(turned).estimates == pytest.approx(-fit(calls).estimates, abs=1e-8)
    assert fit(turned).first_side == pytest.approx(-fit(calls).first_side, abs=1e-8)


def test_a_position_effect_goes_to_the_first_side_not_to_the_noise() -> None:
    rng = np.random.default_rng(5)
    first, second = np.array(list(itertools.permutations(range(8), 2))).T
    quality = rng.normal(size=8)
    margin = quality[first] - quality[second] + 3 + rng.normal(size=56)
    found = fit_margins(Comparisons.of(8, first, second, margin, np.zeros(56)))
    assert abs(found.first_side - 3) < 3 * found.first_side_sd
    assert found.sigma == pytest.approx(1, abs=0.3)


def test_the_probability_of_being_best_agrees_with_sampling_the_posterior() -> None:
    found = fit_margins(Comparisons.of(3, [0, 1, 0], [1, 2, 2], [7.0, 5.0, 6.0], [5.0, 6.0, 6.5]))
    rng = np.random.default_rng(1)
    drawn = rng.multivariate_normal(np.zeros(3), found.covariance, 200_000, method="svd")
    drawn = found.mean + drawn * np.sqrt(found.dof / rng.chisquare(found.dof, (200_000, 1)))
    often = np.bincount(drawn.argmax(axis=1), minlength=3) / 200_000
    assert found.p_best() == pytest.approx(often, abs=0.015)
    above = (drawn > 0).mean(axis=0)
    assert found.p_above_mean() == pytest.approx(above, abs=0.01)


@pytest.mark.parametrize(
    "bad",
    [
        (0, [], [], [], []),
        (2, [0], [2], [1.0], [1.0]),
        (2, [-1], [0], [1.0], [1.0]),
        (2, [1], [1], [1.0], [1.0]),
        (2, [0], [1], [float("nan")], [1.0]),
        (2, [0], [1], [1.0], [float("inf")]),
        (2, [0, 1], [1], [1.0], [1.0]),
    ],
)
def test_calls_that_make_no_sense_are_refused(bad: tuple) -> None:
    with pytest.raises(ValueError, match=r"calls need|different entrants|finite"):
        Comparisons.of(*bad)


# ---- Coverage: the stated uncertainty is true under the model's own noise

GROUPS, N = 1000, 8


def _arena_like(rng: np.random.Generator) -> np.ndarray:
    """Calls of an anchor phase and a bracket of eight in both orders, winners drawn: 28 calls, as ArenaRL's."""
    field, pairs = rng.permutation(np.arange(N)).tolist(), [(0, i) for i in range(1, N)]
    while len(field) > 1:
        met = list(zip(field[::2], field[1::2], strict=True))
        pairs += met
        field = [pair[rng.integers(2)] for pair in met]
    return np.array([*pairs, *[(b, a) for a, b in pairs]]).T


def _one_order_each(rng: np.random.Generator) -> np.ndarray:
    pairs = np.array(list(itertools.combinations(range(N), 2)))
    turn = rng.integers(2, size=len(pairs)).astype(bool)
    pairs[turn] = pairs[turn][:, ::-1]
    return pairs.T


def _covered(fit: str, shape: str) -> float:
    """The share of intervals that hold the truth, over groups drawn from the model: its prior and its noise."""
    rng, held = np.random.default_rng(2026), 0
    for _ in range(GROUPS):
        first, second = _arena_like(rng) if shape == "arena" else _one_order_each(rng)
        prior, noise = (0.4, 0.2), 1.0
        if fit == "margins":  # the variances, too, are drawn from what is believed of them
            quality_var = QUALITY_DOF * QUALITY_VAR / rng.chisquare(QUALITY_DOF)
            prior = (1 / quality_var, 0.5 / quality_var)
            noise = (NOISE_DOF * NOISE_VAR / rng.chisquare(NOISE_DOF)) ** 0.5
        quality, bias = rng.normal(size=N) * prior[0] ** -0.5, rng.normal() * prior[1] ** -0.5
        ahead = quality[first] - quality[second] + bias
        if fit == "margins":
            margin = ahead + noise * rng.normal(size=len(first))
            found = fit_margins(Comparisons.of(N, first, second, margin, 0 * ahead))
        else:
            won = rng.random(len(first)) < stats.logistic.cdf(ahead)
            found = fit_bt(Comparisons.of(N, first, second, won, 1 - won))
        held += (np.abs(found.estimates - (quality - quality.mean())) <= 1.96 * found.sds).sum()
    return held / (GROUPS * N)


@pytest.mark.few(1)
@pytest.mark.parametrize("shape", ["arena", "pairs"])
@pytest.mark.parametrize("fit", ["margins", "bt"])
def test_the_95_percent_intervals_hold_the_true_quality_90_to_98_percent_of_the_time(fit: str, shape: str) -> None:
    assert 0.90 <= _covered(fit, shape) <= 0.98


@FITS
def test_the_probabilities_of_many_groups_at_once_are_those_of_each_alone(fit: Callable[[Comparisons], Fit]) -> None:
    rng = np.random.default_rng(3)
    groups = [
        Comparisons.of(
            n, *(np.array(list(itertools.permutations(range(n), 2))).T), *rng.integers(0, 10, (2, n * (n - 1)))
        )
        for n in (2, 8, 3, 8, 8)
    ]
    for alone, among_many in zip(map(fit, groups), with_chances([fit(group) for group in groups]), strict=True):
        assert (alone.p_best() == among_many.p_best()).all()
        assert alone.p_above_mean() == pytest.approx(among_many.p_above_mean(), abs=1e-12)
