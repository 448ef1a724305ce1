"""Times of two sides are compared where both were run at the same time."""

from datetime import timedelta

import numpy as np
import pytest

from harness.comparison.conclusions import run_together
from harness.comparison.intervals import later_below
from harness.core.comparisons import Interval
from harness.report.summary.comparison import result_figures
from tests.builders import AT
from tests.comparison.test_conclusions import a_query, a_rollout
from tests.comparisons_by_hand import a_result

LATER_BY = "+1.25 s [\N{MINUS SIGN}0.50, +3.00]"
LATER = "of B, less that of A; both were run at the same time"


@pytest.mark.parametrize(("alike", "shown"), [(0.0, 0.4), (0.8, 0.6)])
def test_a_difference_of_two_sides_times_has_an_interval_that_holds_it_and_is_short_where_queries_are_alike(
    alike: float, shown: float
):
    rng, held, found = np.random.default_rng(6), 0, 0
    for _ in range(200):
        of_query, own = rng.normal(size=(30, 1)), rng.normal(size=(2, 30, 3))
        values = np.exp(np.sqrt(alike) * of_query + np.sqrt(1 - alike) * own) * [[[1.0]], [[1.5]]]
        first, second = ({f"q{i}": row.tolist() for i, row in enumerate(side)} for side in values)
        interval = later_below(first, second, 0.5)
        assert interval
        held += interval.low <= 0.5 <= interval.high
        found += interval.low > 0
    assert held >= 0.93 * 200
    assert found >= shown * 200
    assert later_below({}, {"q": [1.0] * 90}, 0.5) is None


@pytest.mark.parametrize(
    ("starts", "together"),
    [
        (([0, 10, 20], [5, 15, 25]), True),
        (([0, 10, 20], [0, 10, 20]), True),
        (([0, 10, 20], [30, 40, 50]), False),
        (([0, 10, 5000, 5010], [2, 12, 5002, 5012]), True),  # killed, and gone on with later
        (([0, 10, 5000, 5010], [2000, 2010, 2020, 2030]), False),
        (([0, 10], [None, None]), None),
    ],
)
def test_sides_ran_together_where_half_of_each_began_while_the_other_ran(
    starts: tuple[list[int | None], list[int | None]], together: bool | None
):
    rollouts = [
        tuple(
            a_rollout(i, duration_s=3, started_at=None if s is None else AT + timedelta(seconds=s))
            for i, s in enumerate(side)
        )
        for side in starts
    ]
    assert run_together([a_query(0, rollouts=tuple(rollouts))], (0, 1)) is together


def test_of_sides_that_did_not_run_together_people_read_that_their_times_cannot_be_compared():
    seconds = Interval(value=1.25, low=-0.5, high=3.0)
    for facts, said in (
        ({"run_together": False}, {"time": ("\N{EN DASH}", "not comparable: A and B were not run at the same time")}),
        (
            {"run_together": True, "slower_p95": seconds},
            {"95 % end within": (LATER_BY, LATER)},
        ),
        ({}, {}),
    ):
        figures = {f.label: (f.value, f.meaning) for f in result_figures(a_result((), (0, 1), **facts))}
        assert {label: figures[label] for label in figures if label == "time" or "end" in label} == said
