"""Fork points: where siblings part, and where a branch tells most of which step decided, within a budget."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from harness.ranking.credit import GroupMargins, group_credit
from harness.ranking.fork_points import ForkPoint, auto_points, parted_points
from harness.ranking.path_graph import path_graph

PATHS = [["asked", "searched" if at < 4 else "guessed", f"on {at}", f"so {at}"] for at in range(8)]
MEANS = np.array([1, 1.1, 0.9, 1.05, -1, -0.9, -1.1, -1.05])
SHARP = GroupMargins(MEANS, 0.02 * (np.eye(8) - 1 / 8))


def auto(budget: float, of: Sequence[int] | None = None, paths: Sequence[Sequence[str]] = PATHS) -> list[ForkPoint]:
    return auto_points(path_graph(paths), SHARP, SHARP.spread, budget, of)


@pytest.mark.parametrize("budget", [0, 0.9, 1, 5, 40])
@pytest.mark.parametrize("of", [None, [3], [3, 5]])
def test_branches_are_chosen_until_the_next_would_not_fit(budget: float, of: list[int] | None) -> None:
    points = auto(budget, of)
    assert 0 <= budget - sum(point.calls for point in points) < 1
    assert all(point.rollout in (of or range(8)) and point.calls == 4 - point.call for point in points)


def test_the_next_branch_does_not_depend_on_the_budget_left_for_others() -> None:
    assert auto(40)[: len(auto(20)) - 3] == auto(20)[:-3]


def test_a_second_look_at_one_state_tells_less_than_the_first() -> None:
    points = auto(60, [0])
    gains = [point.gain for point in points if point.call == points[0].call]
    assert len(gains) > 1
    assert gains == sorted(gains, reverse=True)


def test_a_call_whose_state_all_rollouts_left_by_one_way_is_not_forked_first() -> None:
    """What three calls in a row lead to, all rollouts alike, is known; where they part then is not."""
    straight = [["asked", "planned", "listed", *path[1:]] for path in PATHS]
    assert all(point.call >= 2 for point in auto(12, [0], straight))


def test_rollouts_part_where_more_than_one_way_leads_on() -> None:
    graph = path_graph(PATHS)
    assert [point[:3] for point in parted_points(graph)] == [(0, 0, 4.0), (0, 1, 3.0), (4, 1, 3.0)]
    assert [point[:3] for point in parted_points(graph, [5])] == [(5, 0, 4.0), (5, 1, 3.0)]
    assert parted_points(path_graph([["asked", 1], ["asked", 1]]), [0]) == [ForkPoint(0, 1, 1.0)]


def test_calls_taken_from_a_record_do_not_make_their_choices_look_probable() -> None:
    """Four branches of the one good rollout pass its first step, which is no more usual for it than before."""
    paths = [["asked", at > 0, f"on {at}"] for at in range(6)]
    forks = [["asked", False, f"fork {at}"] for at in range(4)]
    margins = GroupMargins(np.array([2.0, *[0.0] * 5, *[2.0] * 4]), 0.02 * np.eye(10))
    counted, known = (
        group_credit(path_graph([*paths, *forks], replayed), margins, 1.0).steps[0][0]
        for replayed in ([], [0] * 6 + [1] * 4)
    )
    assert known.value < counted.value - 0.2
    assert known.credit > counted.credit + 0.2


@pytest.mark.parametrize(
    ("times", "size", "variance", "fresh", "named"),
    [
        (2, 1.0, 0.02, None, "won"),
        (1, 0.6, 0.1, None, "won"),
        (1, 0.6, 0.1, 1.0, None),  # rollouts of their own: what one did once may be chance
    ],
)
def test_branches_that_end_alike_from_a_step_on_name_it(
    times: int, size: float, variance: float, fresh: float | None, named: str | None
) -> None:
    """Rollout 0 is good: so is what begins after its second call; what begins before ends in all ways."""
    rollouts = [["a", "b", "c", "d", "e"], *(["a", *(f"{at}/{place}" for place in range(4))] for at in range(7))]
    replayed = [0, 1, 1, 1, 2, 2, 2, 3] * times
    forks = [
        [*"abcde"[: calls + 1], *(f"fork {at}/{place}" for place in range(4 - calls))]
        for at, calls in enumerate(replayed)
    ]
    ends = np.array([2, 1, -1, 0.5, -0.5, 0.8, -0.8, 0, *(-0.7, 0.6, -0.6, 0, 2.05, 1.95, 2, 2) * times])
    n = len(ends)
    margins = GroupMargins(size * ends, variance * (np.eye(n) - 1 / n))
    graph = path_graph([*rollouts, *forks], [*[0] * 8, *replayed])
    graph = graph if fresh is None else replace(graph, fresh=fresh)
    assert [step.named for step in group_credit(graph, margins, 1.0).steps[0]] == [None, named, None, None, None]
