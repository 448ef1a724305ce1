"""benchmarks/improve.py, small: the planted best is found within the ceiling, and what is no better is not accepted."""

import sys

import numpy as np
import pytest

from tests.conftest import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))
from improve import BEST, LOVED, LOVES, accepted, planted, refused_by_length, rivals_budget, search
from simulated_gate import NOISY


@pytest.mark.nightly
def test_the_planted_best_is_found_with_half_of_the_rollouts_of_a_selection_by_marks():
    found = [search(planted(rng := np.random.default_rng([run, 0])), rng) for run in range(6)]
    assert [each.best for each in found] == [BEST] * 6
    budget = rivals_budget(NOISY, 6, sizes=(20, 40))
    assert budget is None or 2 * np.mean([each.rollouts for each in found]) < budget[0]


def test_the_planted_best_is_found():
    assert search(planted(rng := np.random.default_rng(0)), rng).best == BEST


@pytest.mark.parametrize("ceiling", [0, 1, 3, 100])
def test_no_search_costs_more_than_its_ceiling(ceiling: int):
    found = search(planted(rng := np.random.default_rng(1)), rng, ceiling)
    assert ceiling - 3 <= found.cost <= ceiling


def test_a_gate_refuses_what_only_the_training_judge_loves():
    rng = np.random.default_rng(0)
    assert sum(accepted(LOVED, rng) for _ in range(20)) >= 10
    assert sum(accepted(0.0, rng) for _ in range(20)) <= 2


def test_a_gate_refuses_what_wins_by_length_and_seldom_what_is_better_with_answers_hardly_longer():
    rng = np.random.default_rng(0)
    by_length = [refused_by_length(2.0, 30, rng, **LOVES[run % len(LOVES)]) for run in range(24)]
    better = [refused_by_length(1.3, 30, rng, better=1.2) for _ in range(12)]
    assert sum(each is False for each in by_length) <= 2
    assert sum(each is False for each in better) >= 8
