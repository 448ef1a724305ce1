"""`--judge-when tied`: a verifiable reward ranks, and a judge is asked only where it leaves rollouts level."""

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.rankings import GroupRanking
from harness.ranking.rewards import split_by_reward
from harness.tournament.group import Rules
from harness.tournament.pairwise import rank_group
from tests.builders import ScriptedJudge, a_group, a_rollout, by_strength
from tests.judging.scripted import a_jury

TIED = Rules(judge_when="tied", one_of_many=True)
ALWAYS = replace(TIED, judge_when="always")


def rank(
    verified: Sequence[float | None], rules: Rules = TIED, *, failing: Sequence[int] = ()
) -> tuple[GroupRanking, ScriptedJudge]:
    judge = ScriptedJudge(by_strength({str(i): i / 10 for i in range(40)}))
    rollouts = [a_rollout(i).model_copy(update={"verified": v}) for i, v in enumerate(verified)]
    rollouts += [a_rollout(len(verified) + i, failed="max_turns") for i in range(len(failing))]
    found = anyio.run(lambda: rank_group(a_group(rollouts), a_jury(judge), rules, random.Random(0)))
    return found, judge


def test_rewards_that_all_differ_rank_without_a_judge_call():
    found, judge = rank([0.2, 0.9, 0.5])
    assert [r.rank for r in found.rollouts] == [2, 0, 1]
    assert (len(judge.calls), found.judged, found.signal, found.status) == (0, 0, "ok", "complete")
    assert [r.verified for r in found.rollouts] == [0.2, 0.9, 0.5]
    assert "3 classes; nothing was judged" in found.notes[0]


def test_only_rollouts_that_the_reward_leaves_level_meet_before_the_judge():
    found, judge = rank([1.0, 0.0, 1.0, 0.0, 1.0])
    assert all((m.a % 2) == (m.b % 2) for m in found.matches)
    assert judge.calls
    ranks = [r.rank or 0.0 for r in found.rollouts]
    assert max(ranks[0], ranks[2], ranks[4]) < min(ranks[1], ranks[3])
    assert sorted(ranks) == [0, 1, 2, 3, 4]
    assert "2 classes; judged within 2" in found.notes[0]


@pytest.mark.parametrize("verified", [[1.0] * 4, [None] * 4, [1.0, None, 0.0, 1.0]])
def test_a_group_that_the_reward_leaves_wholly_tied_or_unknown_goes_to_the_tournament(verified: list[float | None]):
    found, judge = rank(verified)
    always, _ = rank(verified, ALWAYS)
    assert found == always
    assert judge.calls


def test_always_judges_whatever_the_rewards():
    found, judge = rank([0.2, 0.9, 0.5], ALWAYS)
    assert judge.calls
    assert found.rollouts[1].verified == 0.9


def test_with_no_tournament_rewards_rank_where_they_all_differ_and_ties_wait_for_a_judge():
    none = replace(TIED, topology="none")
    found, judge = rank([1.0, 0.0, 0.5], none)
    assert ([r.rank for r in found.rollouts], found.status) == ([0, 2, 1], "complete")
    waiting, _ = rank([1.0, 0.0, 1.0], none)
    assert ({r.rank for r in waiting.rollouts}, waiting.status) == ({None}, "incomplete")
    assert not judge.calls


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=2, max_size=9), st.integers(0, 2))
def test_a_better_reward_always_ranks_higher_and_the_failed_last(verified: list[float], failed: int):
    found, _ = rank(verified, failing=range(failed))
    ranks = [r.rank if r.rank is not None else -1.0 for r in found.rollouts]
    for i, x in enumerate(verified):
        assert all(ranks[i] < ranks[j] for j, y in enumerate(verified) if x > y)
        assert all(ranks[i] < r for r in ranks[len(verified) :]) or not failed
    assert sum(r.advantage or 0.0 for r in found.rollouts) == pytest.approx(0, abs=1e-9)
    assert sum(ranks) == len(ranks) * (len(ranks) - 1) / 2


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=1, max_size=9))
def test_classes_are_the_rewards_in_falling_order(verified: list[float]):
    found = split_by_reward(dict(enumerate(verified)))
    assert sorted(e for c in found for e in c) == list(range(len(verified)))
    assert [v for v, _ in groupby(verified[e] for c in found for e in c)] == sorted(set(verified), reverse=True)


def test_a_group_that_is_not_ranked_for_failed_verdicts_has_no_signal_and_nobody_is_the_best_for_certain():
    strength = by_strength({str(i): i / 10 for i in range(40)})
    judge = ScriptedJudge(lambda a, b: None if "0" in (a, b) else strength(a, b))
    rollouts = [a_rollout(i).model_copy(update={"verified": float(i < 2)}) for i in range(4)]
    waiting = anyio.run(lambda: rank_group(a_group(rollouts), a_jury(judge), TIED, random.Random(0)))
    assert (waiting.status, waiting.signal, {r.rank for r in waiting.rollouts}) == ("incomplete", "none", {None})
    of_best = {r.p_best is None for r in waiting.rollouts[:2]}
    assert {r.p_best is None for r in waiting.rollouts[2:]} == of_best
