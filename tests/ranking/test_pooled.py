"""`pooled`: the model against the joint normal in full, its symmetries, what it promises on simulated judges."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

import harness
from harness.ranking.comparisons import PRIOR_MEAN, PRIOR_SD, WEAK, Comparisons, Floats, Parameters
from harness.ranking.fixed_pairs import Cyclic
from harness.ranking.margins import fit_margins
from harness.ranking.pooled import fit_alone, fit_by, fit_pooled, learnt_from
from harness.ranking.pooled_judge import learn_judge, maximum
from harness.ranking.pooled_model import log_evidence, log_probabilities, posterior
from harness.ranking.pooled_sums import pool_sums, thinned
from harness.ranking.posteriors import probability_above_zero
from harness.ranking.profile import lent_prior
from harness.ranking.score_table import ScoreTable, rank_many

ROUNDING = 0.1**2 / 12
"""The variance of marks in tenths: no noise is below."""
CIRCLE = [(0, 1), (1, 2), (2, 3), (3, 0)]
BOTH = [*CIRCLE, (1, 0), (2, 1), (3, 2)]


def group(calls: Sequence[tuple[int, int]], rng: np.random.Generator, n: int = 4) -> Comparisons:
    first, second = np.array(calls).T
    scores = rng.integers(30, 91, (2, len(calls))) / 10
    return Comparisons.of(n, first, second, *scores)


def some_parameters(rng: np.random.Generator) -> Parameters:
    return Parameters(*(np.array(PRIOR_MEAN) + 0.5 * np.array(PRIOR_SD) * rng.standard_normal(9)).tolist())


def dense(calls: Comparisons, at: Parameters) -> tuple[Floats, Floats, float]:
    """The posterior mean and covariance of theta, and the log likelihood, from the joint normal written out in full."""
    n, k = calls.n, len(calls.first)
    rows = np.zeros((k, n))
    rows[range(k), calls.first], rows[range(k), calls.second] = 1, -1
    seen = list(zip(calls.first.tolist(), calls.second.tolist(), strict=True))
    preference, position, of_level = (math.hypot(math.exp(log), ROUNDING) for log in at[3:6])
    noise = np.diag(np.full(k, preference + position))
    for i, (a, b) in enumerate(seen):
        if (b, a) in seen:  # margins of the two orders: half their difference and their mean have a noise each
            noise[i, seen.index((b, a))] = position - preference
    design = np.zeros((2 * k, n + 2))
    design[:k, :n], design[:k, n] = rows, 1
    design[k:, :n], design[k:, n + 1] = at.level_share * np.abs(rows) / 2, 1
    prior = np.diag(np.exp([at.log_quality_var] * n + [at.log_side_var, at.log_level_var]))
    covariance = design @ prior @ design.T
    covariance[:k, :k] += noise
    covariance[k:, k:] += np.eye(k) * of_level
    mean = np.r_[np.full(k, at.first_side), np.full(k, at.level)]
    seen_values = np.r_[calls.score_first - calls.score_second, (calls.score_first + calls.score_second) / 2]
    gain = np.linalg.solve(covariance, design @ prior).T
    of_all = prior - gain @ design @ prior
    off = seen_values - mean
    log = -(float(off @ np.linalg.solve(covariance, off)) + float(np.linalg.slogdet(covariance)[1])) / 2
    return (gain @ (seen_values - mean))[:n], of_all[:n, :n], log


@given(st.integers(0, 999), st.sampled_from([CIRCLE, BOTH, [(0, 1), (1, 0)]]))
def test_the_posterior_and_the_likelihood_are_those_of_the_joint_normal_in_full(seed: int, pairs: Any) -> None:
    rng = np.random.default_rng(seed)
    calls, at, other = group(pairs, rng), some_parameters(rng), some_parameters(rng)
    (sums,) = pool_sums([calls])
    mean, covariance, _ = dense(calls, at)
    here = posterior(sums, at)
    assert here.mean[0, :4] == pytest.approx(mean, abs=1e-8)
    assert here.covariance[0, :4, :4] == pytest.approx(covariance, abs=1e-8)

    def without_prior(parameters: Parameters) -> float:
        away = (np.array(parameters) - PRIOR_MEAN) / np.array(PRIOR_SD)
        return log_evidence([sums], np.array(parameters))[0] + float(away @ away) / 2

    # how the two orders' margins are turned into halves and means is the same for all parameters: it cancels
    expected = dense(calls, at)[2] - dense(calls, other)[2]
    assert without_prior(at) - without_prior(other) == pytest.approx(expected, abs=1e-7)


def test_the_gradient_is_that_of_the_evidence() -> None:
    rng = np.random.default_rng(3)
    pool = pool_sums([*(group(pairs, rng) for pairs in (CIRCLE, BOTH, BOTH)), group([(0, 1), (4, 2)], rng, 5)])
    at = np.array(some_parameters(rng))
    gradient = optimize.approx_fprime(at, lambda x: log_evidence(pool, x)[0], 1e-6)
    assert log_evidence(pool, at)[1] == pytest.approx(gradient, abs=1e-3)


def test_the_learnt_judge_is_the_maximum_that_scipy_finds() -> None:
    rng = np.random.default_rng(5)
    pool = pool_sums([group(BOTH, rng) for _ in range(12)])
    for prior in (replace(WEAK, any_kind=False), WEAK.of_near_equals()):
        found = optimize.minimize(lambda x, by=prior: -log_evidence(pool, x, by)[0], PRIOR_MEAN, options={"gtol": 1e-5})
        learnt = learn_judge(pool, prior)
        assert learnt.converged
        assert np.array(learnt.parameters) == pytest.approx(found.x, abs=0.02)


def test_a_maximum_is_found_where_scipy_finds_it() -> None:
    def banana(at: Floats) -> tuple[float, Floats]:
        return -float(optimize.rosen(at)), -np.asarray(optimize.rosen_der(at))

    at, converged = maximum(banana, np.array([-1.2, 1.0]), np.eye(2))
    assert converged
    assert at == pytest.approx(np.ones(2), abs=0.02)


def test_repeats_of_a_call_count_as_their_mean_and_many_groups_are_thinned_evenly() -> None:
    rng = np.random.default_rng(7)
    once = Comparisons.of(3, [0, 1], [1, 2], [7.0, 5.0], [6.0, 8.0])
    twice = Comparisons.of(3, [0, 1, 0], [1, 2, 1], [6.0, 5.0, 8.0], [7.0, 8.0, 5.0])
    by = replace(WEAK, fit_version=1)  # of two that differ one may be wild
    assert fit_pooled([once], by)[0].estimates == pytest.approx(fit_pooled([twice], by)[0].estimates)
    (sums,) = pool_sums([group(pairs, rng) for pairs in (CIRCLE, BOTH) for _ in range(20)])
    few = thinned(sums, 4)
    assert few.places.tolist() == [0, 13, 26, 39]
    assert few.design.tolist() == [0, 0, 1, 1]


@given(st.integers(0, 999))
@settings(max_examples=3)
def test_other_names_other_sides_and_turned_scores_turn_the_estimates_with_them(seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups = [group(BOTH, rng) for _ in range(2)]
    plain = fit_pooled(groups)
    names = rng.permutation(4)
    renamed = fit_pooled(
        [Comparisons.of(4, names[g.first], names[g.second], g.score_first, g.score_second) for g in groups]
    )
    swapped = fit_pooled([Comparisons.of(4, g.second, g.first, g.score_second, g.score_first) for g in groups])
    mirrored = fit_pooled(
        [Comparisons.of(4, g.first, g.second, 10 - g.score_first, 10 - g.score_second) for g in groups]
    )
    for before, after, turned, opposite in zip(plain, renamed, swapped, mirrored, strict=True):
        assert opposite.estimates == pytest.approx(-before.estimates, abs=2e-3)
        assert opposite.covariance == pytest.approx(before.covariance, rel=0.01, abs=2e-3)
        assert turned.covariance == pytest.approx(before.covariance, rel=0.01, abs=2e-3)
        assert after.estimates[names] == pytest.approx(before.estimates, abs=2e-3)
        assert turned.estimates == pytest.approx(before.estimates, abs=2e-3)
        assert turned.first_side == pytest.approx(-before.first_side, abs=2e-3)
        assert before.estimates.sum() == pytest.approx(0, abs=1e-9)


@given(st.floats(-9, 9), st.floats(1, 400))
def test_the_students_tail_is_scipys(z: float, dof: float) -> None:
    assert probability_above_zero(z, dof) == pytest.approx(float(stats.t.cdf(z, dof)), abs=1e-8)


@pytest.mark.few(1)
@pytest.mark.parametrize("count", [1, 8, 400])
def test_the_points_of_what_is_not_known_of_a_judge_have_the_moments_that_a_long_chain_has(count: int) -> None:
    _, groups = noisy_groups(count, 4, 17)
    pool = pool_sums(groups)
    learnt = learn_judge(pool)
    names = ("log_quality_var", "log_level_noise", "level_share")
    places = [Parameters._fields.index(name) for name in names]
    of_points = learnt.points.weights @ learnt.points.at
    spread = np.sqrt(learnt.points.weights @ (learnt.points.at - of_points) ** 2)
    rng, at = np.random.default_rng(1), np.array(learnt.parameters)
    root, value, chain = (
        np.linalg.cholesky(learnt.covariance) * 0.8,
        log_evidence(pool, np.array(learnt.parameters))[0],
        [],
    )
    for _ in range(2000):  # Metropolis
        new = at + root @ rng.standard_normal(9)
        new_value = float(log_probabilities(pool, new[None])[0])
        if math.log(rng.random()) < new_value - value:
            at, value = new, new_value
        chain.append(at)
    sds = np.std(chain, axis=0)[places]
    assert of_points[places] == pytest.approx(np.mean(chain, axis=0)[places], abs=0.4 * sds.max())
    assert spread[places] == pytest.approx(sds, rel=0.35)


def noisy_groups(count: int, n: int, seed: int) -> tuple[Floats, list[Comparisons]]:
    """Groups of a judge whose marks carry half of the level, and who prefers the first side by a point and a half."""
    rng = np.random.default_rng(seed)
    quality = 1.5 * rng.standard_normal((count, n))
    pairs = [(i, j) if (i + j) % 2 else (j, i) for i in range(n) for j in range(i)]
    first, second = np.array(pairs).T
    a, b = quality[:, first], quality[:, second]
    margin = a - b + 1.5 + 2.5 * rng.standard_normal(a.shape)
    level = 6 + (a + b) / 4 + rng.standard_normal(a.shape)
    sides = np.rint(10 * np.clip([level + margin / 2, level - margin / 2], 0, 10)) / 10
    return quality, [Comparisons.of(n, first, second, sides[0, g], sides[1, g]) for g in range(count)]


@pytest.mark.nightly
def test_what_is_said_with_certainty_is_right_as_often_as_it_says() -> None:
    quality, groups = noisy_groups(400, 6, 11)
    fits = [fit for at in range(0, 400, 8) for fit in fit_pooled(groups[at : at + 8])]
    away = quality - quality.mean(axis=1, keepdims=True)
    inside = [
        np.abs(fit.estimates - q) < stats.t.ppf(0.95, fit.dof) * np.sqrt(fit.covariance.diagonal())
        for fit, q in zip(fits, away, strict=True)
    ]
    assert 0.87 < np.mean(inside) < 0.93, "of 2400 intervals of 90 %"
    stated = np.array([fit.p_best() for fit in fits])
    best = quality == quality.max(axis=1, keepdims=True)
    for low, high in ((0.2, 0.4), (0.4, 0.6), (0.6, 0.8), (0.8, 1)):
        claims = (stated >= low) & (stated < high)
        chance = 3 * math.sqrt(0.25 / claims.sum())
        assert best[claims].mean() == pytest.approx(stated[claims].mean(), abs=chance)


def test_scores_at_the_ends_of_the_scale_widen_the_intervals_by_twice_their_share() -> None:
    _, groups = noisy_groups(8, 4, 13)
    judge = learnt_from(groups)
    (plain,), (cut,) = (fit_by(replace(judge, at_ends=share), groups[:1]) for share in (0.0, 0.25))
    assert cut.covariance == pytest.approx(1.5 * plain.covariance)
    assert cut.estimates == pytest.approx(plain.estimates)


def test_the_same_calls_teach_the_very_same_judge_and_one_other_score_another() -> None:
    _, groups = noisy_groups(3, 4, 13)
    judge = learnt_from(groups)
    assert learnt_from([replace(calls, first=calls.first.copy()) for calls in groups]) is judge
    other = learnt_from([*groups[:2], replace(groups[2], score_first=groups[2].score_first[::-1].copy())])
    assert other.parameters != judge.parameters
    assert learnt_from(groups, replace(WEAK, any_kind=False)).parameters != judge.parameters
    assert learnt_from(groups).parameters == judge.parameters


@pytest.mark.nightly
def test_rollouts_alone_are_told_apart_by_differences_where_the_judge_gives_no_level() -> None:
    """A group alone cannot tell whether levels are real: without any, it loses little against `margins`."""
    rng, margins, pooled = np.random.default_rng(3), list[float](), list[float]()
    pairs = [(i, j) if (i + j) % 2 else (j, i) for i in range(4) for j in range(i)]
    first, second = np.array(pairs).T
    for _ in range(150):
        quality = 1.5 * rng.standard_normal(4)
        margin = quality[first] - quality[second] + 2.5 * rng.standard_normal(6)
        level = 6 + rng.standard_normal(6)
        calls = Comparisons.of(4, first, second, level + margin / 2, level - margin / 2)
        for shares, fit in ((margins, fit_margins(calls)), (pooled, fit_alone(calls))):
            shares.append(float(np.corrcoef(fit.estimates, quality)[0, 1]))
    assert np.mean(pooled) > np.mean(margins) - 0.02


def test_a_group_alone_is_less_sure_than_in_a_pool_of_its_judge() -> None:
    _, groups = noisy_groups(64, 4, 13)
    alone, pooled = fit_pooled(groups[:1])[0], fit_pooled(groups)[0]
    assert alone.dof < 30 < pooled.dof
    with pytest.raises(IndexError):
        _ = fit_pooled([])[0]


def test_tables_are_ranked_as_they_stand_by_each_estimator() -> None:
    tables = [{(0, 1): (7.5, 6.0), (1, 0): (6.5, 7.0)}, {(0, 1): (7.0, 6.0), (2, 1): (8.0, 6.0)}]
    for estimator in ("pooled", "margins", "bt", "wins"):
        both, chain = harness.rank_many(tables, estimator=estimator)
        assert (both.ranks, both.topology, both.estimator) == ((0, 1), "given", estimator)
        assert chain.ranks[1] == 2
        assert [match.shown_first for match in chain.matches] == [(0,), (2,)]
    assert rank_many([], "pooled") == []
    assert rank_many(tables)[0].scores == pytest.approx(
        fit_pooled(
            [
                Comparisons.of(2, [0, 1], [1, 0], [7.5, 6.5], [6.0, 7.0]),
                Comparisons.of(3, [0, 2], [1, 1], [7.0, 8.0], [6.0, 6.0]),
            ],
            lent_prior(None),
        )[0].estimates,
        abs=1e-8,
    )


@pytest.mark.parametrize("estimator", ["pooled", "margins", "bt", "wins"])
@pytest.mark.parametrize("table", [{(0, 1): (6.0, 5.0), (2, 3): (6.0, 5.0)}, {(0, 5): (1.0, 2.0)}])
def test_a_table_whose_calls_do_not_connect_all_entrants_is_left_unranked(estimator: str, table: Any) -> None:
    apart, joined = harness.rank_many([table, {(0, 1): (6.0, 5.0), (1, 2): (6.0, 5.0)}], estimator)
    assert set(apart.ranks) == {None}
    assert joined.ranks == (0, 1, 2)


def test_tables_of_a_jury_name_the_juror_of_each_score_and_each_juror_is_learnt_by_itself() -> None:
    tables: list[ScoreTable] = [
        {(0, 1): {"b": (7.5, 6.0), "a": (6.0, 6.5)}, (1, 0): {"b": (6.5, 7.0)}, (1, 2): {"a": (5.0, 4.0)}},
        {(0, 1): {"a": (7.0, 6.0), "b": (3.0, 5.0)}, (2, 1): {"a": (8.0, 6.0), "b": (8.0, 8.0)}},
    ]
    calls = [
        Comparisons.of(3, [0, 0, 1, 1], [1, 1, 0, 2], [7.5, 6.0, 6.5, 5.0], [6.0, 6.5, 7.0, 4.0], juror=[1, 0, 1, 0]),
        Comparisons.of(3, [0, 0, 2, 2], [1] * 4, [7.0, 3.0, 8.0, 8.0], [6.0, 5.0, 6.0, 8.0], juror=[0, 1, 0, 1]),
    ]
    for ranked, fit in zip(rank_many(tables), fit_pooled(calls), strict=True):
        assert ranked.scores == pytest.approx(fit.estimates, abs=1e-8)
    first = rank_many(tables)[0].matches[0]
    assert (first.score_a, first.shown_first, first.jurors) == ((6.75 + 7) / 2, (0, 0, 1), (0, 1, 1))
    for estimator in ("margins", "bt", "wins"):
        assert None not in rank_many(tables, estimator)[1].ranks


@pytest.mark.parametrize("estimator", ["pooled", "margins", "bt", "wins"])
def test_equal_scores_share_one_rank_and_what_never_met_has_none(estimator: str) -> None:
    tied, apart = rank_many([{(0, 1): (5, 5), (2, 3): (5, 5)}, {(0, 1): (5, 4), (2, 3): (5, 5)}], estimator)
    assert (tied.ranks, tied.signal, tied.advantages) == ((1.5,) * 4, "none", (0.0,) * 4)
    assert apart.ranks == (None,) * 4


@pytest.mark.parametrize(
    ("tables", "estimator", "complaint"),
    [
        ([{}], "pooled", "table 0 is"),
        ([{(0, 1): (1, 2)}, [(0, 1)]], "pooled", "table 1 is"),
        ([{(0, 0): (1, 2)}], "pooled", "two different entrants"),
        ([{(0, 1): (1, math.nan)}], "pooled", "NaN"),
        ([{(0, 1): {"a": (1, 2)}}, {(0, 1): (1, 2)}], "pooled", r"table 1: the pair \(0, 1\) has \(1, 2\)"),
        ([{(0, 1): {}, (1, 2): {"a": (1, 2)}}], "pooled", r"table 0: the pair \(0, 1\) has \{\}"),
        ([{(0, 1): {"a": (1, math.inf)}}], "pooled", "table 0, juror 'a': .*infinities"),
        ([{(0, 1): {None: (1, 2)}}], "pooled", "give the scores of a juror at least, by name"),
        ([{(0, 1): (1, 2)}, {(0, 1): (1, "x")}], "pooled", "table 1: .*expected two numbers"),
        ([{(0, 1): (1, 1e308)}], "margins", "stretch scores to 0 to 10"),
        ([{(0, 1): {}}], "pooled", "give the scores"),
        ([{(0, 1): (1, 2)}], "tiers", "no estimator of tables as they stand 'tiers'"),
    ],
)
def test_a_table_that_cannot_be_ranked_is_refused_by_name(tables: Any, estimator: str, complaint: str) -> None:
    with pytest.raises(harness.UsageError, match=complaint):
        rank_many(tables, estimator)


def test_the_fit_of_a_judge_without_noise_comes_to_rest():
    n, rng = 16, np.random.default_rng(1)
    pairings = Cyclic(range(n), "both").pairings()
    first, second = np.array([order for pairing in pairings for order in pairing.orders]).T
    marks = [np.round(rng.normal(6, 1.5, n) / 0.1) * 0.1 for _ in range(32)]
    margins = [(of[first] - of[second]) / 2 for of in marks]
    calls = [Comparisons.of(n, first, second, np.clip(5 + m, 0, 10), np.clip(5 - m, 0, 10)) for m in margins]
    assert learnt_from(calls).converged


def test_a_judge_who_contradicts_nothing_is_within_what_can_be_computed_and_equal_entrants_share_a_rank():
    scores = [[9.4, 6.8, 6.8], [8.2, 8.2, 7.4], [6.8, 6.8, 6.8], [9.4, 8.0, 6.0]] * 3 + [[8.0, 8.0, 7.2]]
    tables = [{(i, j): (s[i], s[j]) for i in range(3) for j in range(3) if i != j} for s in scores]
    for marks, ranked in zip(scores, rank_many(tables), strict=True):
        assert len(set(marks)) == len(set(ranked.ranks))
        assert sorted(range(3), key=lambda i: (ranked.ranks[i], i)) == sorted(range(3), key=lambda i: (-marks[i], i))


def test_levels_that_speak_against_the_rollouts_count_for_nothing() -> None:
    rng, groups = np.random.default_rng(11), list[Comparisons]()
    first, second = np.array([(i, j) for i in range(4) for j in range(4) if i != j]).T
    for _ in range(60):
        quality = rng.standard_normal(4)
        margin = quality[first] - quality[second] + rng.standard_normal(len(first))
        level = 6 - (quality[first] + quality[second])  # who is in pairs of low marks is the better one
        groups.append(Comparisons.of(4, first, second, level + margin / 2, level - margin / 2))
    assert abs(learn_judge(pool_sums(groups)).parameters.level_share) < 1e-3
    for fit, calls in zip(fit_pooled(groups), groups, strict=True):
        margins = fit_margins(calls)
        assert fit.estimates.argmax() == margins.estimates.argmax()
