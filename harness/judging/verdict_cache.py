"""Verdicts are bought once: one call for concurrent identical keys, none for a key that a store holds.

A verdict is on disk before anyone can use it: between the reply's arrival and its record nothing is awaited, so only a
call that is under way can be lost to a kill.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar, cast

import anyio

from harness.archive import RunReader, Store
from harness.core.progress import Progress, Silent
from harness.core.records import Failure
from harness.core.verdicts import AnyVerdict, Judged, Scored, Unjudged, Unscored
from harness.endpoints import Ceiling
from harness.judging.judge import Judge
from harness.judging.list_prompt import ListTask
from harness.judging.prompt import Task
from harness.judging.ruler import ListJudge
from harness.transcripts import Transcript

FREE = Failure(kind="cancelled", type="NotBought", message="not bought: --free allows no purchase")
OVER = Failure(kind="cancelled", type="NotBought", message="not bought: --max-cost is reached")
_NEVER = datetime.fromtimestamp(0, UTC)

Good = TypeVar("Good", Judged, Scored)
Bad = TypeVar("Bad", Unjudged, Unscored)


@dataclass
class Purse:
    """What was bought and what was there before, by key."""

    bought: dict[str, AnyVerdict] = field(default_factory=dict[str, AnyVerdict])
    reused: dict[str, Judged | Scored] = field(default_factory=dict[str, Judged | Scored])


@dataclass(frozen=True)
class _Till(Generic[Good, Bad]):
    """Gets verdicts of one sort from the store where it has them, else from other runs, else from a judge.

    It keeps what it gets. A failed verdict is kept too, never reused. One that may not be bought is neither: it comes
    back as failed, with nothing spent and nothing kept.
    """

    find: Callable[[Store | RunReader, str], Good | None]
    store: Store
    progress: Progress
    lenders: Sequence[RunReader]
    ceiling: Ceiling
    free: bool
    in_flight: dict[str, anyio.Event] = field(default_factory=dict[str, anyio.Event])

    async def get(
        self, key: str, purse: Purse, ask: Callable[[], Awaitable[Good | Bad]], unbought: Callable[[Failure], Bad]
    ) -> Good | Bad:
        while key in self.in_flight:
            await self.in_flight[key].wait()
        if key in purse.bought:
            return cast("Good | Bad", purse.bought[key])
        if known := self.find(self.store, key) or self._borrow(key):
            purse.reused[key] = known
            if known.source:
                await self.store.commit()  # a copy of another run's verdict may just have been written
            return known
        done = self.in_flight[key] = anyio.Event()
        try:
            if self.free or not await self.ceiling.begin("judge"):
                return unbought(FREE if self.free else OVER)
            verdict = await self._buy(ask)
            purse.bought[key] = verdict
        finally:
            del self.in_flight[key]
            done.set()
        return verdict

    def at_hand(self, key: str, purse: Purse) -> Good | None:
        """Return what the store holds and nobody has to wait for: a fresh copy of another run's is not on disk yet."""
        busy = key in purse.bought or key in self.in_flight  # one under way is in the store before it is on disk
        known = None if busy else self.find(self.store, key)
        if known is None or known.source:
            return None
        purse.reused[key] = known
        return known

    async def _buy(self, ask: Callable[[], Awaitable[Good | Bad]]) -> Good | Bad:
        usd: float | None = 0.0
        self.progress.expect("judging", 1)
        try:
            verdict = await ask()
            usd = verdict.price_usd if verdict.usage.requests else 0.0
            self.store.add_verdict(verdict)
            await self.store.commit()  # on disk before anything can use it
        finally:
            self.ceiling.end("judge", usd)
            self.progress.done("judging")
        return verdict

    def _borrow(self, key: str) -> Good | None:
        """Copy a verdict of another run, raw replies too, so that this run stays whole without that one."""
        for lender in self.lenders:
            if known := self.find(lender, key):
                replies = tuple(self.store.put_blob(lender.blobs.get(name)) for name in known.raw_replies)
                copy = known.model_copy(update={"source": known.source or lender.info.id, "raw_replies": replies})
                self.store.add_verdict(copy)
                return copy
        return None


class Buyer:
    """Gets verdicts on pairs from the store where it has them, else from other runs, else from the judge."""

    def __init__(
        self,
        judge: Judge,
        store: Store,
        progress: Progress | None = None,
        *,
        lenders: Sequence[RunReader] = (),
        ceiling: Ceiling | None = None,
        free: bool = False,
    ) -> None:
        """Buy from `judge` into `store`, within `ceiling`; `free`: buy nothing. `lenders` are other runs to look in."""
        self._judge = judge
        self._till = _Till[Judged, Unjudged](
            lambda at, key: at.verdict(key), store, progress or Silent(), lenders, ceiling or Ceiling(), free
        )

    async def get(self, task: Task, first: Transcript, second: Transcript, purse: Purse) -> Judged | Unjudged:
        """Return the verdict on a pair; `purse` is told what it cost."""
        key = self._judge.key(task, first, second)

        def unbought(why: Failure) -> Unjudged:
            said = _unspent(self._judge, key, task, why) | {"first": first.hash, "second": second.hash}
            return Unjudged.model_validate(said)

        return await self._till.get(key, purse, lambda: self._judge(task, first, second), unbought)

    def at_hand(self, task: Task, first: Transcript, second: Transcript, purse: Purse) -> Judged | None:
        """Return the verdict on a pair if the store holds it: nothing is waited for then, and none of `get` is due."""
        return self._till.at_hand(self._judge.key(task, first, second), purse)


class ListBuyer:
    """Does for a listwise judge what Buyer does for one of pairs."""

    def __init__(
        self,
        judge: ListJudge,
        store: Store,
        progress: Progress | None = None,
        *,
        lenders: Sequence[RunReader] = (),
        ceiling: Ceiling | None = None,
        free: bool = False,
    ) -> None:
        """Buy from `judge` into `store`, within `ceiling`; `free`: buy nothing. `lenders` are other runs to look in."""
        self._judge = judge
        self._till = _Till[Scored, Unscored](
            lambda at, key: at.scored(key), store, progress or Silent(), lenders, ceiling or Ceiling(), free
        )

    async def get(self, about: ListTask, transcripts: Sequence[Transcript], purse: Purse) -> Scored | Unscored:
        """Return the verdict on a list in this order; `purse` is told what it cost."""
        key = self._judge.key(about, transcripts)

        def unbought(why: Failure) -> Unscored:
            said = _unspent(self._judge, key, about.task, why) | {"transcripts": tuple(t.hash for t in transcripts)}
            return Unscored.model_validate(said)

        return await self._till.get(key, purse, lambda: self._judge(about, transcripts), unbought)


def _unspent(judge: Judge | ListJudge, key: str, task: Task, why: Failure) -> dict[str, Any]:
    return {
        "key": key,
        "query": task.query_id,
        "repeat": task.repeat,
        "rubric": judge.rubric_label,
        "judge": judge.identity,
        "failure": why,
        "started_at": _NEVER,
        "duration_s": 0.0,
    }
