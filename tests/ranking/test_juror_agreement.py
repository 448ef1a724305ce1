"""Agreement of jurors."""

import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from harness.core.rankings import Agreement, Match
from harness.ranking.judge_stats.agreement import agreement, match_margins, mean_agreement, spearman, winner_kappa
from tests.builders import a_judged

margins = st.integers(-3, 3).map(float)
pairs = st.lists(st.tuples(margins, margins), min_size=1, max_size=12)


def test_kappa_is_cohen_s_own_example_of_agreement_beyond_chance() -> None:
    a = [1.0] * 25 + [-1.0] * 25  # 20 yes-yes, 5 yes-no, 10 no-yes, 15 no-no
    b = [1.0] * 20 + [-1.0] * 5 + [1.0] * 10 + [-1.0] * 15
    assert winner_kappa(a, b) == pytest.approx(0.4)


@given(pairs)
def test_kappa_is_1_for_the_same_winners_and_the_same_whoever_is_named_first(found: list[tuple[float, float]]) -> None:
    a, b = [x for x, _ in found], [y for _, y in found]
    assert winner_kappa(a, a) in {None, 1.0}
    assert winner_kappa(a, b) == pytest.approx(winner_kappa(b, a))


@given(pairs)
def test_spearman_is_scipys(found: list[tuple[float, float]]) -> None:
    a, b = [x for x, _ in found], [y for _, y in found]
    if len(set(a)) < 2 or len(set(b)) < 2:
        assert spearman(a, b) is None
    else:
        assert spearman(a, b) == pytest.approx(float(scipy.stats.spearmanr(a, b)[0]))  # pyright: ignore[reportArgumentType]


def test_without_items_or_variation_there_is_no_figure() -> None:
    assert (winner_kappa([], []), spearman([], [])) == (None, None)
    assert winner_kappa([1.0, 2.0], [3.0, 1.0]) is None


def test_only_items_that_both_judged_count_and_each_two_jurors_are_compared() -> None:
    found = agreement({"x": {1: 1.0, 2: -1.0}, "y": {2: -2.0, 3: 1.0}, "z": {}})
    assert [(a.jurors, a.items) for a in found] == [(("x", "y"), 1), (("x", "z"), 0), (("y", "z"), 0)]


def test_a_match_is_one_item_a_juror_with_the_mean_margin_of_its_orders() -> None:
    verdicts = {
        "x1": a_judged("x1", 8, 5, judge="x"),
        "y1": a_judged("y1", 5, 5, judge="y"),
        "x2": a_judged("x2", 6, 7, judge="x"),
        "y2": a_judged("y2", 7, 6, judge="y"),
    }
    match = Match(
        round=0,
        a=3,
        b=0,
        verdicts=("x1", "y1", "x2", "y2"),
        shown_first=(3, 3, 0, 0),
        scores=((8, 5), (5, 5), (6, 7), (7, 6)),
        score_a=0,
        score_b=0,
        winner=None,
        flipped=False,
        inconsistent=False,
    )
    again = match.model_copy(update={"repeated": True})
    assert match_margins([match, again], verdicts.get) == {"x": {("", 3, 0): 2.0}, "y": {("", 3, 0): -0.5}}


def test_over_many_groups_each_counts_by_its_items_where_it_has_a_figure() -> None:
    jurors = ("x", "y")
    found = [
        Agreement(jurors=jurors, items=3, kappa=1.0, spearman=None),
        Agreement(jurors=jurors, items=1, kappa=0.0, spearman=None),
        Agreement(jurors=jurors, items=9, kappa=None, spearman=None),
    ]
    assert mean_agreement(found) == (Agreement(jurors=jurors, items=13, kappa=0.75, spearman=None),)
