"""benchmarks/compare.py in small: what it holds the figures against, by a judge whose preferences are known."""

import sys

import pytest

from harness.comparison.side_results import shown
from tests.conftest import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))
from compare import NOISY, SHARP, Setting, comparisons, coverage, first_side_only, length_lover


def test_the_interval_of_a_against_a_holds_one_half_about_as_often_as_it_says():
    assert coverage(Setting(NOISY, 8, alike=5), 60) == pytest.approx(0.95, abs=0.05)
    assert coverage(Setting(NOISY, 40, alike=5), 20) >= 0.85


def test_a_better_agent_is_shown_and_a_worse_one():
    for lead, word in ((1.0, "better"), (-1.0, "worse")):
        assert [shown(result) for result in comparisons(Setting(SHARP, 60, lead=lead), 3, seed=0)] == [word] * 3


def test_a_judge_that_names_the_first_side_says_one_half_with_every_pair_flipped():
    result = first_side_only(100)
    assert result.win_rate == pytest.approx(0.5, abs=0.06)
    assert result.flips == result.both_orders == 200
    assert shown(result) is None


def test_a_judge_that_loves_length_is_found_out():
    raw, controlled, _ = length_lover(0.2, 4)
    assert raw > 0.56
    assert controlled == pytest.approx(0.5, abs=0.03)
