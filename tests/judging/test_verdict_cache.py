"""Verdicts are bought once."""

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from harness.archive.reader import RunReader
from harness.archive.store import MemoryStore, RunStore
from harness.core.errors import Refused
from harness.core.progress import Silent, Stage
from harness.core.rankings import AnyVerdict, Judged, Unjudged
from harness.endpoints.costs import Ceiling
from harness.judging.prompt import Task
from harness.judging.verdict_cache import CachedPairJudge, PairLedger, VerdictCache
from harness.transcripts.transcript import Transcript
from tests.archive.making import an_info
from tests.builders import ScriptedJudge, a_judged, a_transcript, an_unjudged

TASK = Task("q", "Why?")
ONE, TWO = a_transcript("one"), a_transcript("two")


def fair() -> ScriptedJudge:
    return ScriptedJudge(lambda _first, _second: (6.0, 5.0))


def failing(times: int) -> ScriptedJudge:
    left = iter([None] * times)
    return ScriptedJudge(lambda _first, _second: next(left, (6.0, 5.0)))


class Counting(Silent):
    """Keeps count of the work that was announced and the work that ended."""

    def __init__(self) -> None:
        self.expected = self.ended = 0

    def expect(self, stage: Stage, count: int) -> None:
        self.expected += count

    def done(self, stage: Stage, count: int = 1) -> None:
        self.ended += count


def buy(
    judge: CachedPairJudge, *ledgers: PairLedger, pair: tuple[Transcript, Transcript] = (ONE, TWO)
) -> list[Judged | Unjudged]:
    """Ask for the same verdict once a ledger, all at the same time."""
    found: list[Judged | Unjudged] = []

    async def one(ledger: PairLedger) -> None:
        found.append(await judge.get(ledger, TASK, pair[0], pair[1]))

    async def go() -> None:
        async with anyio.create_task_group() as group:
            for ledger in ledgers:
                group.start_soon(one, ledger)

    anyio.run(go)
    return found


@pytest.mark.parametrize("seed", range(5))
def test_identical_questions_at_the_same_time_are_one_call(seed: int) -> None:
    judge, store, ledger = ScriptedJudge(lambda _f, _s: (6.0, 5.0), random.Random(seed)), MemoryStore(), PairLedger()
    found = buy(CachedPairJudge(judge, VerdictCache(store)), *[ledger] * 9)
    assert len(judge.calls) == len(store.verdicts) == 1
    assert len(set(map(id, found))) == 1
    assert (len(ledger.bought), len(ledger.reused)) == (1, 0)


def test_of_groups_that_ask_at_the_same_time_one_pays_and_the_others_reuse() -> None:
    judge, ledgers = fair(), [PairLedger() for _ in range(4)]
    buy(CachedPairJudge(judge, VerdictCache(MemoryStore())), *ledgers)
    assert len(judge.calls) == 1
    assert sorted((len(p.bought), len(p.reused)) for p in ledgers) == [(0, 1)] * 3 + [(1, 0)]


class SlowDisk(MemoryStore):
    """A store whose `commit` ends when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.writing, self.written = anyio.Event(), anyio.Event()

    async def commit(self) -> None:
        self.writing.set()
        await self.written.wait()


@pytest.mark.anyio
async def test_a_verdict_that_is_not_on_disk_yet_is_not_at_hand() -> None:
    store, ledger, other = SlowDisk(), PairLedger(), PairLedger()
    cached = CachedPairJudge(fair(), VerdictCache(store))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(cached.get, ledger, TASK, ONE, TWO)
        await store.writing.wait()
        assert cached.cached(ledger, TASK, ONE, TWO) is None
        assert cached.cached(other, TASK, ONE, TWO) is None
        store.written.set()
    assert (len(ledger.bought), len(ledger.reused)) == (1, 0)
    assert cached.cached(ledger, TASK, ONE, TWO) is None  # it was bought here: `get` returns it
    assert cached.cached(other, TASK, ONE, TWO) is not None
    assert len(other.reused) == 1


def test_the_other_order_is_another_question() -> None:
    judge, ledger = fair(), PairLedger()
    cached = CachedPairJudge(judge, VerdictCache(MemoryStore()))
    buy(cached, ledger)
    buy(cached, ledger, pair=(TWO, ONE))
    assert judge.calls == [("one", "two"), ("two", "one")]


def test_a_verdict_in_the_store_is_never_bought_again() -> None:
    judge, store, ledger = fair(), MemoryStore(), PairLedger()
    store.add_verdict(known := a_judged(judge.key(TASK, ONE, TWO), 3.0, 9.0))
    assert buy(CachedPairJudge(judge, VerdictCache(store)), ledger) == [known]
    assert (judge.calls, list(ledger.bought), list(ledger.reused)) == ([], [], [known.key])
    assert buy(CachedPairJudge(judge, VerdictCache(store)), PairLedger()) == [known]


def test_a_failed_verdict_is_kept_and_asked_for_again_by_a_new_buyer() -> None:
    judge, store = failing(1), MemoryStore()
    assert [v.status for v in buy(CachedPairJudge(judge, VerdictCache(store)), PairLedger())] == ["failed"]
    assert [v.status for v in buy(CachedPairJudge(judge, VerdictCache(store)), PairLedger())] == ["ok"]
    assert [v.status for v in store.verdicts] == ["failed", "ok"]
    assert len(judge.calls) == 2


def test_a_failed_verdict_is_asked_for_once_a_ranking_however_often_it_is_wanted() -> None:
    judge, ledger = failing(9), PairLedger()
    cached = CachedPairJudge(judge, VerdictCache(MemoryStore()))
    assert [v.status for v in buy(cached, *[ledger] * 5)] == ["failed"] * 5
    assert [v.status for v in buy(cached, ledger)] == ["failed"]
    assert len(judge.calls) == 1


def test_a_verdict_is_stored_before_anyone_gets_it() -> None:
    class Watched(MemoryStore):
        def add_verdict(self, verdict: AnyVerdict) -> None:
            assert not ledger.bought
            super().add_verdict(verdict)

    ledger = PairLedger()
    buy(CachedPairJudge(fair(), VerdictCache(Watched())), *[ledger] * 3)
    assert ledger.bought


def test_a_judge_that_raises_bars_no_one_from_asking_again() -> None:
    class Refusing(ScriptedJudge):
        async def __call__(self, task: Task, first: Transcript, second: Transcript) -> Judged | Unjudged:
            if not self.calls:
                self.calls.append(("refused", ""))
                await anyio.lowlevel.checkpoint()
                raise Refused("wrong key")
            return await super().__call__(task, first, second)

    judge, progress = Refusing(lambda _f, _s: (6.0, 5.0)), Counting()
    cached = CachedPairJudge(judge, VerdictCache(MemoryStore(), progress))

    async def one(outcomes: list[str]) -> None:
        try:
            outcomes.append((await cached.get(PairLedger(), TASK, ONE, TWO)).status)
        except Refused:
            outcomes.append("refused")

    async def go() -> list[str]:
        outcomes: list[str] = []
        async with anyio.create_task_group() as group:
            group.start_soon(one, outcomes)
            group.start_soon(one, outcomes)
        return outcomes

    assert anyio.run(go) == ["refused", "ok"]
    assert progress.expected == progress.ended == 2


def test_only_what_is_bought_is_announced_as_work() -> None:
    progress, ledger = Counting(), PairLedger()
    cached = CachedPairJudge(fair(), VerdictCache(MemoryStore(), progress))
    buy(cached, *[ledger] * 4)
    buy(cached, ledger)
    assert progress.expected == progress.ended == 1


# ---- Verdicts of other runs


def lent(tmp_path: Path, *verdicts: Judged | Unjudged, name: str = "run-1", reply: str = "the reply") -> RunReader:
    with RunStore.create(tmp_path / name, an_info(id=name)) as store:
        store.put_blob(reply)
        for verdict in verdicts:
            store.add_verdict(verdict)
    OPENED.append(RunReader(tmp_path / name / name))
    return OPENED[-1]


OPENED: list[RunReader] = []


@pytest.fixture(autouse=True)
def lenders_are_closed() -> Iterator[None]:
    yield
    while OPENED:
        OPENED.pop().close()


def test_a_verdict_of_another_run_is_copied_with_its_reply_and_its_source_and_counts_as_reused(tmp_path: Path) -> None:
    judge, store, ledger = fair(), MemoryStore(), PairLedger()
    reply = MemoryStore().put_blob("the reply")
    known = a_judged(judge.key(TASK, ONE, TWO), 3.0, 9.0, raw_replies=(reply,), price_usd=0.5)
    (found,) = buy(CachedPairJudge(judge, VerdictCache(store, reuse_sources=[lent(tmp_path, known)])), ledger)
    assert found == known.model_copy(update={"source": "run-1"})
    assert (judge.calls, ledger.bought, list(ledger.reused)) == ([], {}, [known.key])
    assert (store.verdicts, store.blobs) == ([found], {reply: "the reply"})


def test_a_verdict_lent_on_keeps_the_run_that_it_was_bought_in(tmp_path: Path) -> None:
    judge, store = fair(), MemoryStore()
    known = a_judged(judge.key(TASK, ONE, TWO), source="run-0")
    buy(CachedPairJudge(judge, VerdictCache(store, reuse_sources=[lent(tmp_path, known)])), PairLedger())
    assert [v.source for v in store.verdicts] == ["run-0"]


def test_what_another_run_failed_to_get_is_bought(tmp_path: Path) -> None:
    judge, store = fair(), MemoryStore()
    failed = an_unjudged(judge.key(TASK, ONE, TWO))
    buy(CachedPairJudge(judge, VerdictCache(store, reuse_sources=[lent(tmp_path, failed)])), PairLedger())
    assert [(v.status, v.source) for v in store.verdicts] == [("ok", None)]


# ---- Repeats, and no purchase at all


def test_each_repeat_is_a_purchase_of_its_own_and_is_bought_once() -> None:
    class Repeating(ScriptedJudge):
        def key(self, task: Task, first: Transcript, second: Transcript) -> str:
            return f"{super().key(task, first, second)}/{task.repeat}"

    judge, ledger = Repeating(lambda _f, _s: (6.0, 5.0)), PairLedger()
    cached = CachedPairJudge(judge, VerdictCache(MemoryStore()))

    async def go() -> None:
        for repeat in (0, 1, 2, 1, 0):
            await cached.get(ledger, replace(TASK, repeat=repeat), ONE, TWO)

    anyio.run(go)
    assert len(judge.calls) == len(ledger.bought) == 3


@pytest.mark.parametrize(
    ("limits", "why"), [({"free": True}, "--free"), ({"ceiling": Ceiling(0.0)}, "--max-cost")], ids=["free", "ceiling"]
)
def test_what_may_not_be_bought_comes_back_as_failed_and_is_not_kept(limits: dict[str, Any], why: str) -> None:
    judge, store, ledger = fair(), MemoryStore(), PairLedger()
    (found,) = buy(CachedPairJudge(judge, VerdictCache(store, **limits)), ledger)
    assert isinstance(found, Unjudged)
    assert why in found.failure.message
    assert (judge.calls, store.verdicts, ledger.bought) == ([], [], {})
    store.add_verdict(a_judged(judge.key(TASK, ONE, TWO)))
    assert [v.status for v in buy(CachedPairJudge(judge, VerdictCache(store, **limits)), ledger)] == ["ok"]


def test_a_ceiling_hears_what_each_verdict_cost() -> None:
    class Dear(ScriptedJudge):
        async def __call__(self, task: Task, first: Transcript, second: Transcript) -> Judged | Unjudged:
            return (await super().__call__(task, first, second)).model_copy(update={"price_usd": 0.25})

    ceiling = Ceiling(1.0)
    buy(CachedPairJudge(Dear(lambda _f, _s: (6.0, 5.0)), VerdictCache(MemoryStore(), ceiling=ceiling)), PairLedger())
    assert ceiling.spent == 0.25
