"""Verdicts are bought once: one call for concurrent identical keys, none for a key that a store holds.

A verdict is on disk before anyone can use it; only a call that is under way can be lost to a kill.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import anyio

from harness.archive.reader import FolderReader
from harness.archive.store import VerdictStore
from harness.core.clock import NO_DEADLINE, Deadline
from harness.core.errors import JudgeFailed, quoted
from harness.core.progress import Progress, Silent, StopSign
from harness.core.records import Failure
from harness.core.turns import JUDGING, my_turn, until
from harness.core.verdicts import Judged, PairJudgment, PairScores, Scored, Unjudged, Unscored
from harness.endpoints.costs import Ceiling
from harness.judging.batch_desk import BatchDesk
from harness.judging.judge_model import IN_BATCH, UNANSWERED, WITH_PROVIDER
from harness.judging.judges import NamedJudge, verdict_record
from harness.judging.jury import Failed, Juror, Ledger, Material, Ok
from harness.judging.prompt import ListTask, Task
from harness.transcripts.transcript import Transcript

FREE = Failure(kind="cancelled", type="NotBought", message="not bought: --free allows no purchase")
OVER = Failure(kind="cancelled", type="NotBought", message="not bought: --max-cost leaves no room")
DOWN = Failure(kind="cancelled", type="NotBought", message="not bought: the judge's endpoint gives no reply")
STOPPED = Failure(kind="cancelled", type="NotBought", message="not bought: the work was interrupted")
LATE = Failure(kind="cancelled", type="NotBought", message="not bought: the deadline was over")


@dataclass(frozen=True)
class VerdictCache:
    """Where verdicts are looked for before a judge is asked, where they are kept, and what may be bought."""

    store: VerdictStore
    progress: Progress = field(default_factory=Silent)
    reuse_sources: Sequence[FolderReader] = ()
    """Other runs and comparisons to look in."""
    ceiling: Ceiling = field(default_factory=Ceiling)
    free: bool = False
    """Buy nothing."""
    stop: StopSign = field(default_factory=StopSign)
    deadline: Deadline = NO_DEADLINE
    batches: BatchDesk | None = None
    """Where questions are left in place of being sent (--judge-batch)."""


_Ok_co = TypeVar("_Ok_co", bound=Judged | Scored, covariant=True)
_Failed_co = TypeVar("_Failed_co", bound=Unjudged | Unscored, covariant=True)


class _AnyJudge(NamedJudge, Protocol[_Ok_co, _Failed_co, *Material]):
    def key(self, *material: *Material) -> str: ...

    async def __call__(self, *material: *Material) -> _Ok_co | _Failed_co: ...


class CachedJudge(Juror[Ok, Failed, *Material]):
    """Gets verdicts of one kind from the store, else from other runs, else from a judge, and keeps them.

    A failed verdict is never reused. One that may not be bought comes back as failed: nothing is spent, nothing kept.
    """

    def __init__(self, judge: _AnyJudge[Ok, Failed, *Material], cache: VerdictCache) -> None:
        self._judge, self._cache = judge, cache
        self._in_flight = dict[str, anyio.Event]()

    @abstractmethod
    def _find(self, source: VerdictStore | FolderReader, key: str) -> Ok | None: ...

    @abstractmethod
    def _find_scores(self, key: str) -> Ok | PairScores | None:
        """Return what rankings take of the verdict that the store holds under `key`."""

    @abstractmethod
    def _not_bought(self, key: str, why: Failure, *material: *Material) -> Failed: ...

    async def get(self, ledger: Ledger[Ok, Failed], *material: *Material) -> Ok | Failed:
        """Return the verdict on the material; `ledger` notes whether it was bought or reused."""
        key, cache = self._judge.key(*material), self._cache
        while key in self._in_flight:
            await self._in_flight[key].wait()
        if key in ledger.bought:
            return ledger.bought[key]
        if kept := self._find(cache.store, key) or self._copy_reused(key):
            ledger.reused[key] = kept
            if kept.source:
                await cache.store.commit()  # a copy of another run's verdict may just have been written
            return kept
        done = self._in_flight[key] = anyio.Event()
        try:
            verdict: Ok | Failed | Failure = LATE
            with until(cache.deadline.at):
                paid = cache.batches is not None and cache.batches.is_paid(key)
                verdict = (None if paid else await self._why_not()) or await self._buy(*material, paid=paid)
            if isinstance(verdict, Failure):
                return self._not_bought(key, verdict, *material)
            ledger.bought[key] = verdict
        finally:
            del self._in_flight[key]
            done.set()
        return verdict

    def cached(self, ledger: Ledger[Ok, Failed], *material: *Material) -> Ok | PairScores | None:
        """Return what rankings take of the verdict if the store holds it; a fresh copy is not on disk yet."""
        key = self._judge.key(*material)
        busy = key in ledger.bought or key in self._in_flight  # one under way is in the store before it is on disk
        kept = None if busy else self._find_scores(key)
        if kept is None or kept.source:
            return None
        ledger.reused[key] = kept
        return kept

    async def _why_not(self) -> Failure | None:
        """Return why nothing may be bought now; None where money for a verdict is set aside."""
        if getattr(self._judge, "given_up", None):  # a judge of the user's own has no endpoint of ours
            return DOWN
        if self._cache.stop.asked:
            return STOPPED
        if self._cache.free:
            return FREE
        if anyio.current_time() >= self._cache.deadline.at:
            return LATE
        return None if await self._cache.ceiling.begin("judge") else OVER

    async def _buy(self, *material: *Material, paid: bool) -> Ok | Failed | Failure:
        """Ask the judge, keep what comes, or return why nothing was bought. What is `paid` has no money set aside."""
        cache, usd = self._cache, 0.0
        cache.progress.expect("judging", 1)
        try:
            await my_turn(JUDGING)
            verdict = await self._judge(*material)
            if not isinstance(verdict, Judged | Unjudged | Scored | Unscored):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise JudgeFailed(  # a judge of the caller's own
                    f"the judge {type(self._judge).__name__} returned {quoted(verdict)}: give a harness.Judged, or a "
                    "harness.Unjudged that says why there is no verdict"
                )
            if why := _why_unasked(verdict):
                usd = cache.ceiling.expected("judge") if why is IN_BATCH else 0.0
                return why
            if cache.batches and verdict.status == "failed":
                cache.batches.failed.add(verdict.key)
            usd = verdict.price_usd if verdict.usage.requests else 0.0
            cache.store.add_verdict(verdict)
            cache.progress.kept("judging", verdict.usage, verdict.price_usd, failed=verdict.status == "failed")
            await cache.store.commit()  # on disk before anything can use it
        finally:
            if not paid:
                cache.ceiling.end("judge", usd)
            cache.progress.done("judging")
        return verdict

    def _copy_reused(self, key: str) -> Ok | None:
        """Copy a verdict of another run, raw replies too, so that this run stays whole without that one."""
        store = self._cache.store
        for source in self._cache.reuse_sources:
            if kept := self._find(source, key):
                replies = tuple(store.put_blob(source.blobs.get(name)) for name in kept.raw_replies)
                copy = kept.model_copy(update={"source": kept.source or source.id, "raw_replies": replies})
                store.add_verdict(copy)
                return copy
        return None


def _why_unasked(verdict: Judged | Unjudged | Scored | Unscored) -> Failure | None:
    """Return why a verdict that failed was not asked for; None where it was, or came out."""
    if not isinstance(verdict, Unjudged | Unscored):
        return None
    if verdict.failure.type == "EndpointDown":
        return None if verdict.raw_replies else DOWN
    return next((why for why in (IN_BATCH, WITH_PROVIDER, UNANSWERED) if why.type == verdict.failure.type), None)


class CachedPairJudge(CachedJudge[Judged, Unjudged, Task, Transcript, Transcript]):
    """Gets verdicts on pairs."""

    def _find(self, source: VerdictStore | FolderReader, key: str) -> Judged | None:
        return source.verdict(key)

    def _find_scores(self, key: str) -> PairJudgment | None:
        return self._cache.store.pair_scores(key)

    def _not_bought(self, key: str, why: Failure, task: Task, first: Transcript, second: Transcript) -> Unjudged:
        return verdict_record(Unjudged, self._judge, key, task, (first, second), failure=why)


class CachedListJudge(CachedJudge[Scored, Unscored, ListTask, Sequence[Transcript]]):
    """Gets verdicts on lists."""

    def _find(self, source: VerdictStore | FolderReader, key: str) -> Scored | None:
        return source.scored(key)

    def _find_scores(self, key: str) -> Scored | None:
        return self._cache.store.scored(key)

    def _not_bought(self, key: str, why: Failure, about: ListTask, transcripts: Sequence[Transcript]) -> Unscored:
        return verdict_record(Unscored, self._judge, key, about.task, transcripts, failure=why)
