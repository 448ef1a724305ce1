"""benchmarks/compare.py in small: what it holds the figures against, by a judge whose preferences are known."""

import sys

import pytest

from tests.conftest import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))
from compare import NOISY, SHAPES, SHARP, Setting, coverage, first_side_only, found, length_lover, uneven


def test_the_interval_of_a_against_a_holds_one_half_about_as_often_as_it_says():
    assert coverage(Setting(NOISY, (5,) * 8), 200) == pytest.approx(0.95, abs=0.04)
    assert coverage(Setting(NOISY, (5,) * 40), 60) == pytest.approx(0.95, abs=0.06)


@pytest.mark.parametrize("shape", [*SHAPES][:4])
def test_clusters_that_differ_in_size_show_nothing_of_equal_agents_and_pass_no_gate_by_arithmetic(shape: str):
    said = uneven(NOISY, SHAPES[shape], 60, calibration=2000)
    assert min(said.compare, said.slice) >= 0.9
    assert said.at_margin <= 0.06
    assert said.forecast == pytest.approx(said.equal, abs=0.08)


def test_a_better_agent_is_found_about_as_often_as_the_power_says():
    share, stated, _ = found(SHARP, 0.65, 40, 60, calibration=4000)
    assert 0.5 < stated < 0.9
    assert share == pytest.approx(stated, abs=0.15)


def test_a_judge_that_names_the_first_side_says_one_half_with_every_pair_flipped():
    result = first_side_only(100)
    assert result.win_rate == pytest.approx(0.5, abs=0.06)
    assert result.flips == result.both_orders == 200
    assert result.shown is None


def test_a_judge_that_loves_length_is_found_out():
    raw, controlled, _ = length_lover(0.2, 4)
    assert raw > 0.56
    assert controlled == pytest.approx(0.5, abs=0.03)
