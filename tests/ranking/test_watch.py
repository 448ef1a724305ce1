"""A judge under watch: the alarm at a planted exploit, its silence in clean trainings, and what is told beside it."""

import random
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.rankings import GroupRanking, Ranked
from harness.ranking.judge_stats.agreement import Share
from harness.ranking.judge_stats.watch import WatchedGroup, mean_marks, watch_figures
from tests.conftest import ROOT
from tests.ranking.test_conclusions import a_match

sys.path.insert(0, str(ROOT / "benchmarks"))
from judge_watch import alarmed_at, clean, exploited


@pytest.mark.parametrize("seeds", [range(2), pytest.param(range(20), marks=pytest.mark.nightly)])
def test_a_planted_exploit_raises_the_alarm_within_ten_steps(seeds: range):
    assert max(alarmed_at(list(exploited(random.Random(seed)))) or 99 for seed in seeds) <= 10


@pytest.mark.parametrize("seeds", [range(2), pytest.param(range(200), marks=pytest.mark.nightly)])
def test_clean_trainings_raise_it_in_five_per_cent_at_most(seeds: range):
    alarms = [alarmed_at(list(clean(random.Random(seed), seed))) is not None for seed in seeds]
    assert sum(alarms) <= len(seeds) / 20


def test_agreement_leans_flips_and_gains_are_told_with_their_intervals():
    groups = [WatchedGroup(s, (s, s + 1), (s, s + 1 - 2 * (s == 0)), (10, 20), Share(1, 2)) for s in range(10)]
    figures = watch_figures(groups)
    told = figures.as_dict()
    assert (figures.agreement, figures.flips) == (Share(9, 10), Share(10, 20))
    assert (figures.length_lean, figures.second_length_lean) == (Share(10, 10), Share(9, 10))
    assert told["judge_watch/agreement_low"] < told["judge_watch/agreement"] < told["judge_watch/agreement_high"]
    assert told["judge_watch/gain"] == pytest.approx(18)  # nine marks, in spreads of a half
    assert told["judge_watch/alarm"] == 0


@given(st.lists(st.tuples(st.integers(0, 3), st.lists(st.floats(0, 10), min_size=2, max_size=4)), max_size=12))
def test_any_marks_give_figures_and_one_judge_alone_no_alarm(marks: list[tuple[int, list[float]]]):
    groups = [WatchedGroup(step, tuple(each), tuple(each), (1,) * len(each)) for step, each in marks]
    figures = watch_figures(groups)
    assert not figures.alarm
    assert figures.agreement.value in {None, 1.0}
    assert watch_figures(groups, alarmed=True).alarm


def test_a_mark_is_the_mean_over_a_rollouts_matches_else_its_score_in_a_list():
    plain: dict[str, Any] = {"query": "q", "topology": "cyclic", "estimator": "margins", "status": "complete"}
    ranking = GroupRanking(signal="ok", **plain)
    matches = (a_match(0, 1, (6, 4)), a_match(0, 2, (8, 2)))
    assert mean_marks(ranking.model_copy(update={"matches": matches})) == {0: 7, 1: 4, 2: 2}
    rows = (Ranked(index=0, score=0.5), Ranked(index=1))
    assert mean_marks(ranking.model_copy(update={"rollouts": rows})) == {0: 0.5}
