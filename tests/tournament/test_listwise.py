"""Groups ranked by a listwise judge: chunks, one scale, ties, failures."""

import random
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.archive.store import MemoryStore
from harness.core.rankings import GroupRanking, Scored, Unscored
from harness.core.records import Group, digest
from harness.judging.prompt import ListTask
from harness.judging.verdict_cache import CachedListJudge, ListJury, VerdictCache
from harness.tournament.group import Rules
from harness.tournament.listwise import in_chunks, on_one_scale, rank_list
from harness.transcripts.transcript import Transcript
from tests.builders import AT, a_failure, a_group, a_rollout, a_transcript


class ScriptedListJudge:
    """Scores by the answer; fails a list whose answers `fails` names."""

    rubric_label = "by-hand"

    def __init__(self, scores: Mapping[str, float], name: str = "m@host", fails: frozenset[str] = frozenset()) -> None:
        self._scores, self.identity, self._fails = scores, name, fails
        self.lists: list[list[str]] = []
        self.level = 0.0

    def key(self, about: ListTask, transcripts: Sequence[Transcript]) -> str:
        return digest([self.identity, about.task.query, [t.hash for t in transcripts]])

    async def __call__(self, about: ListTask, transcripts: Sequence[Transcript]) -> Scored | Unscored:
        answers = [t.answer for t in transcripts]
        self.lists.append(answers)
        number = len(self.lists)
        await anyio.lowlevel.checkpoint()
        known: dict[str, Any] = {
            "key": self.key(about, transcripts),
            "query": "q",
            "rubric": "r",
            "judge": self.identity,
            "transcripts": tuple(t.hash for t in transcripts),
            "started_at": AT,
            "duration_s": 0.0,
        }
        if self._fails & set(answers):
            return Unscored(**known, failure=a_failure("output"))
        scores = tuple(round(self._scores[a] + self.level * number, 6) for a in answers)
        return Scored(**known, scores=scores, explanations=tuple(f"why {a}" for a in answers))


def group(*answers: str) -> Group:
    return a_group(a_rollout(i, a) for i, a in enumerate(answers))


def a_list_jury(*judges: ScriptedListJudge, store: MemoryStore | None = None) -> ListJury:
    cache = VerdictCache(store or MemoryStore())
    return ListJury([CachedListJudge(judge, cache) for judge in judges])


def ranked(
    found: Group,
    *judges: ScriptedListJudge,
    seed: int = 0,
    budget: int = 400_000,
    store: MemoryStore | None = None,
    rules: Rules | None = None,
) -> GroupRanking:
    jury = a_list_jury(*judges, store=store)

    async def go() -> GroupRanking:
        return await rank_list(found, jury, rules or Rules(), random.Random(seed), budget)

    return anyio.run(go)


SCORES = {"a": 0.5, "b": 0.9, "c": 0.1, "d": 0.5}


@given(st.integers(0, 99))
def test_the_order_shown_is_drawn_and_undone(seed: int) -> None:
    judge = ScriptedListJudge(SCORES)
    found = ranked(group("a", "b", "c", "d"), judge, seed=seed)
    assert (found.topology, found.estimator, found.matches, found.status) == ("listwise", "ruler", (), "complete")
    assert [r.score for r in found.rollouts] == [0.5, 0.9, 0.1, 0.5]
    assert [r.rank for r in found.rollouts] == [1.5, 0, 3, 1.5]
    assert [r.explanation for r in found.rollouts] == ["why a", "why b", "why c", "why d"]
    assert sum(r.advantage or 0 for r in found.rollouts) == pytest.approx(0)
    assert sorted(judge.lists[0]) == list("abcd")


def test_seeds_show_other_orders_and_the_same_seed_the_same() -> None:
    judge = ScriptedListJudge(SCORES)
    for seed in (*range(8), *range(8)):
        ranked(group("a", "b", "c", "d"), judge, seed=seed)
    assert judge.lists[:8] == judge.lists[8:]
    assert len({tuple(shown) for shown in judge.lists}) > 3


def test_the_seven_fold_identical_group_costs_one_call_and_shares_one_score() -> None:
    judge = ScriptedListJudge(SCORES)
    found = ranked(group(*"bbbbbbb"), judge)
    assert judge.lists == [["b"]]
    assert (found.judged, found.signal) == (1, "none")
    assert {(r.score, r.rank, r.advantage) for r in found.rollouts} == {(0.9, 3.0, 0.0)}
    assert "all 7 trajectories are the same: scored once, on an absolute scale" in found.notes


def test_a_single_rollout_is_scored_and_carries_no_signal() -> None:
    found = ranked(group("b"), ScriptedListJudge(SCORES))
    assert [(r.score, r.rank, r.reward, r.advantage) for r in found.rollouts] == [(0.9, 0, 0, 0)]
    assert found.signal == "none"


def test_the_same_ranking_again_buys_nothing() -> None:
    store, judge = MemoryStore(), ScriptedListJudge(SCORES)
    first = ranked(group(*"abcd"), judge, store=store)
    again = ranked(group(*"abcd"), judge, store=store)
    assert (first.judged, first.reused, again.judged, again.reused) == (1, 0, 0, 1)
    assert again.rollouts == first.rollouts
    assert again.verdicts == first.verdicts == tuple(v.key for v in store.verdicts)


def test_a_failed_verdict_is_no_score_and_is_asked_for_again() -> None:
    store = MemoryStore()
    found = ranked(group(*"abcd"), ScriptedListJudge(SCORES, fails=frozenset("c")), store=store)
    assert found.status == "incomplete"
    assert found.failed_verdicts == tuple(v.key for v in store.verdicts)
    assert {(r.score, r.rank, r.reward) for r in found.rollouts} == {(None, None, None)}
    assert ranked(group(*"abcd"), ScriptedListJudge(SCORES), store=store).status == "complete"


def test_failed_rollouts_rank_last_by_cause_and_a_group_of_them_is_left_alone() -> None:
    mixed = a_group(
        [a_rollout(0, "a"), a_rollout(1, failed="max_turns"), a_rollout(2, failed="network"), a_rollout(3, "b")]
    )
    found = ranked(mixed, ScriptedListJudge(SCORES))
    assert [r.rank for r in found.rollouts] == [1, 2, None, 0]
    assert [r.score for r in found.rollouts] == [0.5, None, None, 0.9]
    none = ranked(a_group([a_rollout(0, failed="network")]), ScriptedListJudge(SCORES))
    assert none.notes == ("no rollout ended well: nothing to rank",)
    stop = a_group([a_rollout(0, failed="network"), a_rollout(1, "a")])
    assert ranked(stop, ScriptedListJudge(SCORES), rules=Rules(anchor_failed="stop")).rollouts[1].rank is None
    assert ranked(stop, ScriptedListJudge(SCORES)).rollouts[1].rank == 0


def test_rewards_may_be_the_scores_and_a_failed_rollout_gets_the_lowest_less_1() -> None:
    mixed = a_group([a_rollout(0, "a"), a_rollout(1, failed="max_turns"), a_rollout(2, "c"), a_rollout(3, "b")])
    found = ranked(mixed, ScriptedListJudge(SCORES), rules=Rules(reward="score"))
    assert found.reward_from == "score"
    assert [r.reward for r in found.rollouts] == [0.5, -0.9, 0.1, 0.9]
    advantages = [r.advantage or 0 for r in found.rollouts]
    assert sum(advantages) == pytest.approx(0)
    assert sum(a * a for a in advantages) / 4 == pytest.approx(1)


# ---- Several lists

ANSWERS = [letter * 2000 for letter in "abcdefg"]
LONG = {answer: (i + 1) / 10 for i, answer in enumerate(ANSWERS)}


@given(st.lists(st.text(max_size=60), min_size=1, max_size=9), st.integers(0, 200), st.integers(0, 9))
def test_chunks_hold_each_transcript_once_and_the_shared_one_everywhere(
    answers: list[str], room: int, seed: int
) -> None:
    transcripts = [a_transcript(a) for a in answers]
    shared = transcripts[0]
    chunks = in_chunks(transcripts, shared, room, random.Random(seed))
    shown = [t.hash for chunk in chunks for t in chunk]
    assert {shown.count(t.hash) for t in transcripts if t.hash != shared.hash} <= {1}
    assert shown.count(shared.hash) == len(chunks)
    assert set(shown) == {t.hash for t in transcripts}
    for chunk in chunks:
        assert len(chunk) <= 2 or sum(len(t.path) + len(t.answer) for t in chunk) <= room


def test_a_group_over_the_budget_is_judged_in_lists_that_share_the_anchor_on_one_scale() -> None:
    judge = ScriptedListJudge(LONG)
    judge.level = 0.05  # every list is marked more kindly than the one before
    found = ranked(group(*ANSWERS), judge, budget=4_000 + 6_500)
    assert len(judge.lists) == found.judged == len(found.verdicts) == 3
    assert all(ANSWERS[0] in shown for shown in judge.lists)
    assert [r.rank for r in found.rollouts] == [6, 5, 4, 3, 2, 1, 0]
    gaps = [round(r.score - (found.rollouts[0].score or 0), 6) for r in found.rollouts if r.score is not None]
    assert gaps == [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
    assert any("judged in 3 lists that share one trajectory" in note for note in found.notes)


def test_one_scale_is_the_shift_to_the_shared_one_s_mean() -> None:
    f = Fraction
    lists = [{"s": f("0.4"), "x": f("0.9")}, {"s": f("0.8"), "y": f("0.9")}]
    assert on_one_scale(lists, "s") == {"s": f("0.6"), "x": f("1.1"), "y": f("0.7")}


def test_what_the_shift_takes_out_of_0_to_1_is_shown_clipped_and_ranked_before_that() -> None:
    class Moody(ScriptedListJudge):
        async def __call__(self, about: ListTask, transcripts: Sequence[Transcript]) -> Scored | Unscored:
            found = await super().__call__(about, transcripts)
            assert isinstance(found, Scored)
            kind = ANSWERS[1] in [t.answer for t in transcripts]  # beside it the anchor does worse
            scores = [
                0.2 if t.answer == ANSWERS[0] and kind else s for t, s in zip(transcripts, found.scores, strict=True)
            ]
            return found.model_copy(update={"scores": tuple(scores)})

    scores = {ANSWERS[0]: 0.6, ANSWERS[1]: 1.0, ANSWERS[2]: 1.0, ANSWERS[3]: 0.9}
    found = ranked(group(*ANSWERS[:4]), Moody(scores), budget=4_000 + 4_500)
    assert [r.score for r in found.rollouts] == pytest.approx([7 / 15, 1.0, 13 / 15, 23 / 30])
    assert [r.rank for r in found.rollouts] == [3, 0, 1, 2]
    assert any("1 shifted scores lay outside" in note for note in found.notes)


def test_one_list_without_a_verdict_leaves_the_group_unranked_and_the_rest_kept() -> None:
    store = MemoryStore()
    found = ranked(
        group(*ANSWERS), ScriptedListJudge(LONG, fails=frozenset({ANSWERS[3]})), budget=4_000 + 6_500, store=store
    )
    assert (found.status, len(found.failed_verdicts)) == ("incomplete", 1)
    assert all(r.rank is None and r.score is None for r in found.rollouts)
    mended = ranked(group(*ANSWERS), ScriptedListJudge(LONG), budget=4_000 + 6_500, store=store)
    assert (mended.status, mended.judged, mended.reused) == ("complete", 1, 2)


# ---- Juries


def test_listwise_jurors_are_averaged_and_one_that_fails_leaves_it_to_the_others() -> None:
    x, y = ScriptedListJudge(SCORES, "x"), ScriptedListJudge({k: v / 2 for k, v in SCORES.items()}, "y")
    found = ranked(group(*"abcd"), x, y)
    assert [r.score for r in found.rollouts] == [0.375, 0.675, 0.075, 0.375]
    assert [(a.jurors, a.items, a.kappa, a.spearman) for a in found.agreement] == [
        (("x", "y"), 6, 1.0, pytest.approx(1))
    ]
    assert found.rollouts[0].explanation == "x: why a\ny: why a"
    broken = ScriptedListJudge(SCORES, "y", fails=frozenset("a"))
    left = ranked(group(*"abcd"), x, broken)
    assert (left.status, [r.score for r in left.rollouts]) == ("complete", [0.5, 0.9, 0.1, 0.5])
    assert len(left.absent_verdicts) == 1
    assert "1 verdict of juror y failed: the other jurors' stand" in left.notes
