"""Verdicts are bought once: one call for concurrent identical keys, none for a key that a store holds.

A verdict is on disk before anyone can use it: between the reply's arrival and its record nothing is awaited, so only a
call that is under way can be lost to a kill.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol, TypeVar

import anyio

from harness.archive.reader import FolderReader
from harness.archive.store import VerdictStore
from harness.core.deadline import NO_DEADLINE, Deadline
from harness.core.errors import JudgeFailed, quoted
from harness.core.progress import Progress, Silent, StopSign
from harness.core.records import Failure
from harness.core.turns import JUDGING, my_turn, until
from harness.core.verdicts import Judged, PairJudgment, PairScores, Scored, Unjudged, Unscored
from harness.endpoints.costs import Ceiling
from harness.judging.batches.desk import BatchDesk
from harness.judging.judge import IN_BATCH, UNANSWERED, WITH_PROVIDER, Judge
from harness.judging.juror import Failed, Juror, Ledger, Material, Ok
from harness.judging.list_prompt import ListTask
from harness.judging.prompt import Task
from harness.judging.ruler import ListJudge
from harness.transcripts.transcript import Transcript

FREE = Failure(kind="cancelled", type="NotBought", message="not bought: --free allows no purchase")
OVER = Failure(kind="cancelled", type="NotBought", message="not bought: --max-cost leaves no room")
DOWN = Failure(kind="cancelled", type="NotBought", message="not bought: the judge's endpoint gives no reply")
STOPPED = Failure(kind="cancelled", type="NotBought", message="not bought: the work was interrupted")
LATE = Failure(kind="cancelled", type="NotBought", message="not bought: the deadline was over")
_NEVER = datetime.fromtimestamp(0, UTC)


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


class _AnyJudge(Protocol[_Ok_co, _Failed_co, *Material]):
    @property
    def identity(self) -> str: ...

    @property
    def rubric_label(self) -> str: ...

    def key(self, *material: *Material) -> str: ...

    async def __call__(self, *material: *Material) -> _Ok_co | _Failed_co: ...


class CachedJudge(Juror[Ok, Failed, *Material]):
    """Gets verdicts of one kind from the store where it has them, else from other runs, else from a judge.

    What it gets is kept. A failed verdict is kept too, and never reused. A verdict that may not be bought comes back
    as failed, with nothing spent and nothing kept.
    """

    def __init__(self, judge: _AnyJudge[Ok, Failed, *Material], cache: VerdictCache) -> None:
        self._judge, self._cache = judge, cache
        self._in_flight = dict[str, anyio.Event]()

    @abstractmethod
    def _find(self, source: VerdictStore | FolderReader, key: str) -> Ok | None:
        """Return the verdict that `source` holds under `key`."""

    @abstractmethod
    def _at_hand(self, key: str) -> Ok | PairScores | None:
        """Return what rankings take of the verdict that the store holds under `key`."""

    @abstractmethod
    def _not_bought(self, key: str, why: Failure, *material: *Material) -> Failed:
        """Return a failed verdict that cost nothing."""

    async def get(self, ledger: Ledger[Ok, Failed], *material: *Material) -> Ok | Failed:
        """Return the verdict on the material; `ledger` notes whether it was bought or reused."""
        key, cache = self._judge.key(*material), self._cache
        while key in self._in_flight:
            await self._in_flight[key].wait()
        if key in ledger.bought:
            return ledger.bought[key]
        if kept := self._find(cache.store, key) or self._borrow(key):
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

    def at_hand(self, ledger: Ledger[Ok, Failed], *material: *Material) -> Ok | PairScores | None:
        """Return what rankings take of the verdict if the store holds it: nothing is waited for, and no `get` is due.

        A fresh copy of another run's verdict is not on disk yet, so it is not at hand.
        """
        key = self._judge.key(*material)
        busy = key in ledger.bought or key in self._in_flight  # one under way is in the store before it is on disk
        kept = None if busy else self._at_hand(key)
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
        """Ask the judge, and keep what comes; return why nothing was bought, where nothing was.

        What is `paid` already, to a batch, has no money set aside for it.
        """
        cache, usd = self._cache, 0.0
        cache.progress.expect("judging", 1)
        try:
            await my_turn(JUDGING)
            verdict = _checked(await self._judge(*material), self._judge)
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

    def _borrow(self, key: str) -> Ok | None:
        """Copy a verdict of another run, raw replies too, so that this run stays whole without that one."""
        store = self._cache.store
        for lender in self._cache.reuse_sources:
            if kept := self._find(lender, key):
                replies = tuple(store.put_blob(lender.blobs.get(name)) for name in kept.raw_replies)
                copy = kept.model_copy(update={"source": kept.source or lender.id, "raw_replies": replies})
                store.add_verdict(copy)
                return copy
        return None


def _checked(verdict: Ok | Failed, judge: object) -> Ok | Failed:
    """Return what a judge gave, which may be the caller's own. Raises JudgeFailed for what is no verdict."""
    if isinstance(verdict, Judged | Unjudged | Scored | Unscored):  # pyright: ignore[reportUnnecessaryIsInstance]
        return verdict
    raise JudgeFailed(
        f"the judge {type(judge).__name__} returned {quoted(verdict)}: give a harness.Judged, or a harness.Unjudged "
        "that says why there is no verdict"
    )


def _why_unasked(verdict: Judged | Unjudged | Scored | Unscored) -> Failure | None:
    """Return why a verdict that failed was not asked for; None where it was, or came out."""
    if not isinstance(verdict, Unjudged | Unscored):
        return None
    if verdict.failure.type == "EndpointDown":
        return None if verdict.raw_replies else DOWN
    by_batch = {failure.type: failure for failure in (IN_BATCH, WITH_PROVIDER, UNANSWERED)}
    return by_batch.get(verdict.failure.type)


class CachedPairJudge(CachedJudge[Judged, Unjudged, Task, Transcript, Transcript]):
    """Gets verdicts on pairs."""

    def __init__(self, judge: Judge, cache: VerdictCache) -> None:
        super().__init__(judge, cache)

    def _find(self, source: VerdictStore | FolderReader, key: str) -> Judged | None:
        return source.verdict(key)

    def _at_hand(self, key: str) -> PairJudgment | None:
        return self._cache.store.pair_scores(key)

    def _not_bought(self, key: str, why: Failure, task: Task, first: Transcript, second: Transcript) -> Unjudged:
        return Unjudged(
            key=key,
            query=task.query_id,
            repeat=task.repeat,
            first=first.hash,
            second=second.hash,
            rubric=self._judge.rubric_label,
            judge=self._judge.identity,
            failure=why,
            started_at=_NEVER,
            duration_s=0.0,
        )


class CachedListJudge(CachedJudge[Scored, Unscored, ListTask, Sequence[Transcript]]):
    """Gets verdicts on lists."""

    def __init__(self, judge: ListJudge, cache: VerdictCache) -> None:
        super().__init__(judge, cache)

    def _find(self, source: VerdictStore | FolderReader, key: str) -> Scored | None:
        return source.scored(key)

    def _at_hand(self, key: str) -> Scored | None:
        return self._cache.store.scored(key)

    def _not_bought(self, key: str, why: Failure, about: ListTask, transcripts: Sequence[Transcript]) -> Unscored:
        return Unscored(
            key=key,
            query=about.task.query_id,
            repeat=about.task.repeat,
            transcripts=tuple(transcript.hash for transcript in transcripts),
            rubric=self._judge.rubric_label,
            judge=self._judge.identity,
            failure=why,
            started_at=_NEVER,
            duration_s=0.0,
        )
