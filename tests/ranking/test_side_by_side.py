"""Rankings side by side: pairs that are right and Kendall's tau by counting, and which judge is chosen."""

from itertools import combinations
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats  # pyright: ignore[reportMissingTypeStubs]

from harness.ranking.judge_stats.agreement import count_right, preferences
from harness.ranking.judge_stats.side_by_side import JudgedQuery, choose, judging_figures, rank_agreements
from harness.ranking.judge_stats.tally import JudgeCall, Tally, tally

scipy_stats = cast("Any", stats)
values = st.integers(0, 4).map(float)
two_columns = st.lists(st.tuples(values, values), min_size=2, max_size=8)


def a_query(ranks: list[float], right: tuple[float, int] | None = None, usd: float | None = 0.1, **changes: Any):
    plain: dict[str, Any] = {
        "ranks": dict(enumerate(ranks)),
        "tally": Tally(),
        "calls": 4,
        "usd": usd,
        "right": {} if right is None else {"labels": right},
    }
    return JudgedQuery(**plain | changes)


@given(two_columns)
def test_pairs_right_are_those_counted_one_by_one_and_scipys_somers_d(columns: list[tuple[float, float]]):
    truth, ranks = ({i: row[side] for i, row in enumerate(columns)} for side in (0, 1))
    right, of = count_right(preferences(truth), ranks)
    told_apart = [(i, j) for i, j in combinations(truth, 2) if truth[i] != truth[j]]
    concordant = sum((truth[i] - truth[j]) * (ranks[j] - ranks[i]) > 0 for i, j in told_apart)
    level = sum(ranks[i] == ranks[j] for i, j in told_apart)
    assert (right, of) == (concordant + level / 2, len(told_apart))
    if of and len(set(ranks.values())) > 1:
        d = scipy_stats.somersd([truth[i] for i in truth], [-ranks[i] for i in truth]).statistic
        assert 2 * right / of - 1 == pytest.approx(d)


def test_a_preference_about_a_rollout_without_a_rank_does_not_count():
    assert count_right([(0, 1), (0, 2)], {0: 0, 1: 1}) == (1, 1)


@given(st.lists(two_columns, min_size=1, max_size=5))
def test_rankings_agree_as_far_as_the_mean_of_kendalls_tau(groups: list[list[tuple[float, float]]]):
    ours, theirs = (
        {str(q): a_query([row[side] for row in group]) for q, group in enumerate(groups)} for side in (0, 1)
    )
    (agreement,) = rank_agreements([ours, theirs])
    taus = [scipy_stats.kendalltau(*zip(*group, strict=True)).statistic for group in groups]
    taus = [tau for tau in taus if tau == tau]
    assert (agreement.tau is None) == (not taus)
    if agreement.tau:
        assert agreement.tau.value == pytest.approx(sum(taus) / len(taus))
        assert agreement.tau.queries == len(taus)
    assert agreement.same_best
    assert agreement.same_best.queries == len(groups)


def test_rankings_without_a_query_in_common_have_no_agreement():
    (agreement,) = rank_agreements([{"a": a_query([0, 1])}, {"b": a_query([0, 1])}])
    assert (agreement.tau, agreement.same_best) == (None, None)


def test_the_cheapest_judge_within_two_points_is_chosen_on_the_queries_that_all_ranked():
    best = {str(q): a_query([0, 1], (50, 50), 1.0) for q in range(4)}
    near = {str(q): a_query([0, 1], (49.2, 50), 0.1) for q in range(4)}
    poor = {str(q): a_query([1, 0], (47, 50), 0.01) for q in range(4)} | {"elsewhere": a_query([0, 1], (50, 50))}
    choice = choose({0: best, 1: near, 2: poor}, "labels")
    assert choice
    assert (choice.best, choice.cheapest) == (0, 1)
    assert choice.right[2].queries == 4
    assert choice.difference
    assert choice.difference.value == pytest.approx(-0.016)
    unpriced = {name: a_query([0, 1], (49.2, 50), None) for name in near}
    choice = choose({0: best, 1: unpriced}, "labels")
    assert choice
    assert (choice.best, choice.cheapest, choice.difference) == (0, None, None)
    assert choose({0: best, 2: {"elsewhere": poor["elsewhere"]}}, "labels") is None
    assert choose({0: best, 1: near}, "reward") is None


def test_of_two_judges_that_are_equally_good_none_is_the_best_and_the_cheaper_one_is_named():
    dear, cheap = ({str(q): a_query([0, 1], (4, 5), usd) for q in range(9)} for usd in (0.2, 0.1))
    choice = choose({0: dear, 1: cheap}, "labels")
    assert choice
    assert (choice.first, choice.best, choice.cheapest) == (1, None, 1)


@pytest.mark.parametrize("right", [[3], [3, 1, 2, 3, 2], [1, 1, 1, 2, 1, 1]], ids=["one query", "holds 50 %", "below"])
def test_a_judge_that_is_not_shown_to_be_right_in_more_than_half_is_not_the_best(right: list[int]):
    ours, theirs = ({str(q): a_query([0, 1], (r - less, 4)) for q, r in enumerate(right)} for less in (0, 1))
    choice = choose({0: ours, 1: theirs}, "labels")
    assert choice
    assert (choice.first, choice.best, choice.cheapest) == (0, None, None)


@pytest.mark.few(1)
@pytest.mark.parametrize("queries", [20, 50])
def test_a_cheaper_judge_that_is_6_points_worse_is_seldom_named(queries: int):
    rng, named = np.random.default_rng(0), 0
    for _ in range(400):
        hits = rng.binomial(10, [[0.8], [0.74]], (2, queries))
        best, worse = (
            {str(q): a_query([0, 1], (int(h), 10), usd) for q, h in enumerate(row)}
            for row, usd in zip(hits, (1.0, 0.1), strict=True)
        )
        choice = choose({0: best, 1: worse}, "labels")
        named += choice is not None and choice.cheapest == 1 != choice.first
    assert named <= 0.03 * 400


def test_figures_are_those_of_the_tallies_and_a_query_counts_as_one_in_means():
    calls = [JudgeCall("x", "y", 6, 5), JudgeCall("y", "x", 6, 5), JudgeCall("x", "y", 7, 5, repeat=1)]
    asked_again = a_query([0, 1], (1, 2), tally=tally(calls), calls=3)
    figures = judging_figures({"a": asked_again, "b": a_query([0, 1], (9, 9), tally=tally(calls[:2]), calls=2)})
    assert figures.right["labels"].value == 0.75
    assert figures.flips
    assert (figures.flips.value, figures.flips.queries) == (1, 2)
    assert figures.self_noise
    assert figures.self_noise.value == pytest.approx(0.5**0.5)
    assert figures.calls
    assert figures.calls.value == 2.5
    assert figures.usd
    assert judging_figures({"a": a_query([0, 1], usd=None)}).usd is None
