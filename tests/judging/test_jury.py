"""Juries: every juror's verdict is its own, and one that fails fails only itself."""

import random
from collections.abc import Callable
from typing import Literal

import anyio
import pytest

from harness.archive.store import MemoryStore
from harness.core.rankings import GroupRanking, Judged, Unjudged
from harness.judging.prompt import Task
from harness.judging.verdict_cache import average
from harness.tournament.group import Rules
from harness.tournament.pairwise import rank_group
from harness.transcripts.transcript import Transcript
from tests.builders import Script, ScriptedJudge, a_group, a_rollout, an_unjudged, by_strength
from tests.judging.scripted import a_jury

STRENGTH = {str(i): float(9 - 2 * i) for i in range(4)}


class Juror(ScriptedJudge):
    """A scripted judge with a name, which is in its keys."""

    def __init__(self, name: str, script: Script) -> None:
        super().__init__(script)
        self.identity = name

    def key(self, task: Task, first: Transcript, second: Transcript) -> str:
        return f"{self.identity}:{super().key(task, first, second)}"

    async def __call__(self, task: Task, first: Transcript, second: Transcript) -> Judged | Unjudged:
        found = await super().__call__(task, first, second)
        return found.model_copy(update={"judge": self.identity})


def ranked(
    *jurors: Juror, n: int = 4, averaging: Literal["mean", "median"] = "mean", store: MemoryStore | None = None
) -> GroupRanking:
    jury = a_jury(*jurors, store=store, averaging=averaging)

    async def go() -> GroupRanking:
        return await rank_group(a_group(a_rollout(i) for i in range(n)), jury, Rules(), random.Random(0))

    return anyio.run(go)


def fair(name: str, shift: float = 0.0) -> Juror:
    return Juror(name, lambda a, b: (STRENGTH[a] - shift, STRENGTH[b] - shift))


def failing(name: str, when: Callable[[str, str], bool] = lambda _a, _b: True) -> Juror:
    return Juror(name, lambda a, b: None if when(a, b) else (STRENGTH[a], STRENGTH[b]))


def test_each_juror_gives_a_verdict_of_its_own_and_the_match_lists_them_all() -> None:
    store, x, y = MemoryStore(), fair("x"), fair("y", 1.0)
    ranking = ranked(x, y, store=store)
    assert x.calls == y.calls
    assert len(store.verdicts) == ranking.judged == 2 * len(x.calls)
    for match in (m for m in ranking.matches if not m.repeated):
        assert [k[0] for k in match.verdicts] == ["x", "y", "x", "y"]
        assert match.jurors == (0, 1, 0, 1)
        assert match.shown_first[0] == match.shown_first[1] != match.shown_first[2] == match.shown_first[3]
        assert match.score_a == STRENGTH[str(match.a)] - 0.5
        assert not match.flipped
    assert [r.rank for r in ranking.rollouts] == [0, 1, 2, 3]
    assert [(a.jurors, a.kappa or 1.0, a.spearman) for a in ranking.agreement] == [(("x", "y"), 1.0, pytest.approx(1))]


def test_jurors_who_disagree_are_averaged_and_their_disagreement_is_told() -> None:
    contrary = Juror("y", lambda a, b: (0.4 * STRENGTH[b], 0.4 * STRENGTH[a]))
    ranking = ranked(fair("x"), contrary)
    assert [r.rank for r in ranking.rollouts] == [0, 1, 2, 3]
    (found,) = ranking.agreement
    assert (found.kappa or 0) <= 0
    assert found.spearman == pytest.approx(-1)
    assert not any(m.flipped for m in ranking.matches)  # two jurors at odds are no flip of the orders


def test_the_median_of_three_is_deaf_to_one_that_is_far_off() -> None:
    wild = Juror("z", lambda a, b: (0.0, 10.0) if a < b else (10.0, 0.0))
    jurors = (fair("x"), fair("y"), wild)
    assert {m.score_a for m in ranked(*jurors, averaging="median").matches} <= set(STRENGTH.values())
    assert not {m.score_a for m in ranked(*jurors).matches} <= set(STRENGTH.values())
    assert (average([1.0, 2.0, 9.0], "median"), average([1.0, 2.0, 9.0], "mean")) == (2.0, 4.0)


def test_a_juror_that_always_fails_leaves_the_ranking_to_the_others() -> None:
    store = MemoryStore()
    ranking = ranked(fair("x"), failing("y"), store=store)
    alone = ranked(fair("x"))
    assert (ranking.status, ranking.failed_verdicts) == ("complete", ())
    assert ranking.rollouts == alone.rollouts
    assert [m.verdicts for m in ranking.matches] == [m.verdicts for m in alone.matches]
    bad = [v.key for v in store.verdicts if not isinstance(v, Judged)]
    assert ranking.absent_verdicts == tuple(sorted(bad))
    assert f"{len(bad)} verdicts of juror y failed: the other jurors' stand" in ranking.notes


def test_half_a_pair_of_a_juror_s_counts_for_nothing() -> None:
    biased = Juror("y", lambda a, b: (10.0, 0.0) if a < b else None)
    found = ranked(fair("x"), biased).matches
    assert {m.jurors for m in found} == {(0, 0)}, "the match says who is left"
    assert [m.model_copy(update={"jurors": ()}) for m in found] == list(ranked(fair("x")).matches)


def test_all_jurors_failing_leaves_the_match_open_and_the_group_incomplete() -> None:
    def meets(a: str, b: str) -> bool:
        return {a, b} == {"0", "3"}

    ranking = ranked(failing("x", meets), failing("y", meets))
    assert ranking.status == "incomplete"
    assert {k[0] for k in ranking.failed_verdicts} == {"x", "y"}
    assert not any({m.a, m.b} == {0, 3} for m in ranking.matches)
    assert all(r.rank is None for r in ranking.rollouts)


def test_what_the_jurors_said_is_not_bought_again() -> None:
    store = MemoryStore()
    first = ranked(fair("x"), fair("y"), store=store)
    again = ranked(fair("x"), fair("y"), fair("z"), store=store)
    assert (again.judged, again.reused) == (first.judged // 2, first.judged)


def test_one_judge_is_a_jury_of_one() -> None:
    judge = ScriptedJudge(by_strength(STRENGTH))
    group = a_group(a_rollout(i) for i in range(4))

    async def go() -> GroupRanking:
        return await rank_group(group, a_jury(judge), Rules(), random.Random(0))

    found = anyio.run(go)
    assert found.agreement == ()
    assert all(len(m.verdicts) == 2 for m in found.matches)
    assert not any("jurors" in m.model_dump() for m in found.matches)


def test_jurors_and_repeats_multiply_and_a_juror_lacking_one_repeat_is_left_out_of_the_match() -> None:
    class Repeating(Juror):
        def key(self, task: Task, first: Transcript, second: Transcript) -> str:
            return f"{super().key(task, first, second)}:{task.repeat}"

        async def __call__(self, task: Task, first: Transcript, second: Transcript) -> Judged | Unjudged:
            found = await super().__call__(task, first, second)
            lost = self.identity == "y" and task.repeat == 1 and isinstance(found, Judged)
            return an_unjudged(found.key) if lost else found

    def counted(*names: str) -> list[int]:
        jury = a_jury(*(Repeating(name, lambda a, b: (STRENGTH[a], STRENGTH[b])) for name in names))
        found = anyio.run(
            lambda: rank_group(a_group(a_rollout(i) for i in range(3)), jury, Rules(repeats=2), random.Random(0))
        )
        assert found.status == "complete"
        return [len(m.verdicts) for m in found.matches if not m.repeated]

    assert set(counted("x", "z")) == {8}  # two orders, two repeats, two jurors
    assert set(counted("x", "y")) == {4}
