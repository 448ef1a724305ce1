"""Credit: what steps are worth adds up, follows the margins, and is as wide as what is known of it."""

from collections.abc import Hashable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.ranking.credit import GroupMargins, StepCredit, group_credit, mean_spread
from harness.ranking.path_graph import path_graph

Paths = Sequence[Sequence[Hashable]]
SHARP = 0.02


def credits_of(paths: Paths, means: Sequence[float], variance: float = SHARP) -> list[list[StepCredit]]:
    n = len(paths)
    margins = GroupMargins(np.array(means), variance * (np.eye(n) - 1 / n))
    return group_credit(path_graph(paths), margins, margins.spread).steps


@st.composite
def some_paths(draw: st.DrawFn) -> Paths:
    """Paths of any lengths in which states recur, also in another order, in a circle, or in no two rollouts."""
    states = st.integers(0, draw(st.integers(0, 6)))
    return draw(st.lists(st.lists(states, min_size=1, max_size=6), min_size=2, max_size=6))


@given(some_paths(), st.lists(st.floats(-3, 3), min_size=6, max_size=6), st.sampled_from([0.0, SHARP, 2.0]))
def test_credits_add_up_from_the_value_of_the_start_to_the_margin_where_that_is_certain(
    paths: Paths, means: list[float], variance: float
) -> None:
    for mean, path, steps in zip(means, paths, credits_of(paths, means[: len(paths)], variance), strict=False):
        assert len(steps) == len(path)
        if not variance:
            assert steps[0].value + sum(step.credit for step in steps) == pytest.approx(mean, abs=1e-5)
        assert all(step.interval[0] <= step.credit <= step.interval[1] for step in steps)
        ends = [step.value + step.credit for step in steps]
        assert ends[:-1] == pytest.approx([step.value for step in steps[1:]], abs=1e-6)


@given(some_paths(), st.floats(-9, 9))
def test_credits_do_not_depend_on_the_level_of_the_margins(paths: Paths, level: float) -> None:
    means = np.linspace(-1, 1, len(paths))
    for moved, steps in zip(credits_of(paths, [*(means + level)]), credits_of(paths, [*means]), strict=True):
        assert [step.credit for step in moved] == pytest.approx([step.credit for step in steps], abs=1e-6)


CLEAR = [["asked", "searched" if at < 4 else "guessed", f"on {at}"] for at in range(8)]
GOOD_OR_BAD = [1, 1.1, 0.9, 1.05, -1, -0.9, -1.1, -1.05]


def test_the_step_at_which_good_and_bad_rollouts_part_has_the_credit() -> None:
    credits_now = credits_of(CLEAR, GOOD_OR_BAD)
    for steps, side in zip(credits_now, [1] * 4 + [-1] * 4, strict=True):
        first, *others = steps
        low, high = sorted(side * bound for bound in first.interval)
        assert 0.7 < side * first.credit < 1.3
        assert 0 < low < 1 < high
        assert all(abs(step.credit) < 0.2 for step in others)
    assert [step.shared for step in credits_now[0]] == [7, 3, 0]


def test_where_only_the_ends_differ_the_first_step_is_named() -> None:
    paths = [path[:2] for path in CLEAR * 2]
    credits_now = credits_of(paths, GOOD_OR_BAD * 2)
    assert [[step.named for step in steps] for steps in credits_now[3:5]] == [["won", None], ["lost", None]]


def test_a_step_that_nobody_shares_has_a_wide_interval_and_is_never_named() -> None:
    paths = [[0, *(f"{at}/{place}" for place in range(4))] for at in range(8)]
    for steps in credits_of(paths, [6, *[0] * 7]):
        for step in steps[1:]:
            assert step.shared == 0
            assert step.interval[0] < 0 < step.interval[1]
            assert step.named is None


def test_rollouts_through_one_state_are_not_drawn_to_the_mean_one_by_one() -> None:
    """Thirty branches of a state ended at 1, for a judge that is half sure: together they say that it is worth 1."""
    paths = [["asked", at] for at in range(8)] + [["asked", 0, f"branch {at}"] for at in range(30)]
    quality = [1.0, *[-1 / 7] * 7, *[1.0] * 30]
    seen = 0.5 * np.array(quality)
    margins = GroupMargins(seen - seen.mean(), 0.5 * 0.2 * (np.eye(38) - 1 / 38))
    steps = group_credit(path_graph(paths, [0] * 8 + [2] * 30), margins, 0.2).steps[0]
    assert 0.9 < steps[0].credit < 1.3


def test_a_step_that_all_take_changes_hardly_anything() -> None:
    paths = [["asked", "searched", "read", at % 2] for at in range(8)]
    for steps in credits_of(paths, [(-1) ** at for at in range(8)]):
        assert max(abs(step.credit) for step in steps[:2]) < 0.1 < 0.5 < abs(steps[2].credit)


def test_long_and_short_rollouts_of_equal_worth_get_equal_credit() -> None:
    """Half of the rollouts stop after two calls, half go on for six more, and are as good."""
    paths = [["asked", "read", *([] if at % 2 else [f"{at}/{more}" for more in range(6)])] for at in range(8)]
    for steps in credits_of(paths, [0.1, -0.1, -0.1, 0.1, 0.05, -0.05, -0.05, 0.05]):
        total = sum(step.credit for step in steps)
        assert abs(total) < 0.15
        assert all(step.interval[0] < 0 < step.interval[1] for step in steps)


def test_where_the_judge_knows_less_less_is_known_of_steps() -> None:
    both = [credits_of(CLEAR, GOOD_OR_BAD, variance) for variance in (SHARP, 1.0)]
    widths = [[step.interval[1] - step.interval[0] for steps in group for step in steps] for group in both]
    assert np.mean(widths[1]) > 1.2 * np.mean(widths[0])


@pytest.mark.parametrize("means", [[0] * 4, [1e-9, 0, 0, 0], [1e9, 0, -1e9, 3]])
def test_margins_of_any_size_give_numbers(means: list[float]) -> None:
    for steps in credits_of([[0, at] for at in range(4)], means, 0.0):
        assert all(np.isfinite([step.credit, *step.interval]).all() for step in steps)


def test_a_path_without_a_state_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one state"):
        path_graph([[1], []])


def test_the_spread_is_that_of_the_rollouts_and_of_what_is_not_known() -> None:
    certain = GroupMargins(np.array([1.0, -1.0]), np.zeros((2, 2)))
    unsure = GroupMargins(np.zeros(2), np.eye(2))
    assert (certain.spread, unsure.spread, mean_spread([certain, unsure]), mean_spread([])) == (2, 1, 1.5, 0)
