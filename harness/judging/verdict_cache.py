"""Verdicts are bought once: one call for identical keys; and a jury, several judges asked the same, with its ledger.

A verdict is on disk before anyone can use it; only a call that is under way can be lost to a kill.
"""

import statistics
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Any, Generic, Literal, Protocol, TypeVar, TypeVarTuple

import anyio

from harness.archive.reader import FolderReader
from harness.archive.store import VerdictStore
from harness.core.cost import Cost, total_cost
from harness.core.errors import JudgeFailed, quoted
from harness.core.progress import NO_DEADLINE, Deadline, Progress, Silent, StopSign
from harness.core.rankings import Judged, PairJudgment, PairScores, Scored, Unjudged, Unscored
from harness.core.records import Failure, Usage
from harness.core.sync import start_child
from harness.core.turns import JUDGING, my_turn, until
from harness.endpoints.costs import Ceiling
from harness.judging.batch_desk import BatchDesk
from harness.judging.judge_model import IN_BATCH, UNANSWERED, WITH_PROVIDER
from harness.judging.judges import NamedJudge, verdict_record
from harness.judging.prompt import ListTask, Task
from harness.transcripts.transcript import Transcript

Ok = TypeVar("Ok", bound=Judged | Scored)
Failed = TypeVar("Failed", bound=Unjudged | Unscored)
Material = TypeVarTuple("Material")
"""What a judge judges: for pairs (task, first, second), for lists (task, transcripts)."""


@dataclass
class Ledger(Generic[Ok, Failed]):
    """The verdicts that a ranking took, by key: those bought now, and those that were there before."""

    bought: dict[str, Ok | Failed] = field(default_factory=dict[str, Ok | Failed])
    reused: dict[str, Ok | PairScores] = field(default_factory=dict[str, Ok | PairScores])

    @property
    def judged(self) -> int:
        """How many verdicts were bought and did not fail."""
        return sum(verdict.status == "ok" for verdict in self.bought.values())

    @property
    def usage(self) -> Usage:
        """The tokens of what was bought, failed verdicts included."""
        return sum((verdict.usage for verdict in self.bought.values()), Usage())

    @property
    def prices(self) -> dict[str, Any]:
        """The price of what was bought, by the names that a ranking has for it."""
        bought = (verdict for verdict in self.bought.values() if verdict.usage.requests)
        return total_cost([verdict.cost for verdict in bought]).named("judge_usd")


PairLedger = Ledger[Judged, Unjudged]
ListLedger = Ledger[Scored, Unscored]


class Juror(ABC, Generic[Ok, Failed, *Material]):
    """One judge of a jury."""

    @abstractmethod
    async def get(self, ledger: Ledger[Ok, Failed], *material: *Material) -> Ok | Failed:
        """Return the verdict on the material, and note it in `ledger`."""

    @abstractmethod
    def cached(self, ledger: Ledger[Ok, Failed], *material: *Material) -> Ok | Failed | PairScores | None:
        """Return what rankings take of the verdict, noted in `ledger`, if that needs no waiting; None otherwise."""


PairJuror = Juror[Judged, Unjudged, Task, Transcript, Transcript]

Averaging = Literal["mean", "median"]
Number = TypeVar("Number", Fraction, float)
JobResult = TypeVar("JobResult")


class Jury(Generic[Ok, Failed, *Material]):
    """One judge or more. A judge that fails fails only its own verdict."""

    def __init__(
        self,
        members: Sequence[Juror[Ok, Failed, *Material]],
        averaging: Averaging = "mean",
        before: "Jury[Ok, Failed, *Material] | None" = None,
    ) -> None:
        """Seat `members`, in the order in which their verdicts are returned.

        `before` is the same jury while its agents are not asked, where they are asked only of what the models leave.
        """
        self._members = tuple(members)
        self.averaging: Averaging = averaging
        self.before = before

    def __len__(self) -> int:
        return len(self._members)

    @property
    def asked(self) -> frozenset[int]:
        """The seats of those who are asked."""
        return frozenset(seat for seat, member in enumerate(self._members) if not isinstance(member, NotAsked))

    async def verdicts(self, ledger: Ledger[Ok, Failed], *material: *Material) -> tuple[Ok | Failed, ...]:
        """Return each member's verdict, in the members' order; all are asked at once."""
        return await all_at_once([partial(member.get, ledger, *material) for member in self._members])

    def cached(self, ledger: Ledger[Ok, Failed], *material: *Material) -> tuple[Ok | Failed | PairScores, ...] | None:
        """Return what `verdicts` would where no member's verdict needs any waiting, and None otherwise."""
        found: list[Ok | Failed | PairScores] = []
        for member in self._members:
            if (verdict := member.cached(ledger, *material)) is None:
                return None
            found.append(verdict)
        return tuple(found)


PairJury = Jury[Judged, Unjudged, Task, Transcript, Transcript]
ListJury = Jury[Scored, Unscored, ListTask, Sequence[Transcript]]


async def all_at_once(jobs: Iterable[Callable[[], Awaitable[JobResult]]]) -> tuple[JobResult, ...]:
    """Do all jobs at the same time and return their results in the order of the jobs."""
    if len(waiting := list(jobs)) == 1:
        return (await waiting[0](),)
    results: dict[int, JobResult] = {}

    async def run(number: int, job: Callable[[], Awaitable[JobResult]]) -> None:
        results[number] = await job()

    async with anyio.create_task_group() as tasks:
        for number, job in enumerate(waiting):
            start_child(tasks, run, number, job)
    return tuple(results[number] for number in sorted(results))


def average(scores: Sequence[Number], averaging: Averaging) -> Number:
    """Return the mean or the median (of an even number: the mean of the middle two). At least one score."""
    if len(scores) == 1:  # nearly always, and statistics.mean is slow
        return scores[0]
    return statistics.median(scores) if averaging == "median" else statistics.mean(scores)


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
    def not_bought(self, why: Failure, *material: *Material) -> Failed:
        """Return that nothing was bought."""

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
                return self.not_bought(verdict, *material)
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
        cache, cost = self._cache, Cost()
        cache.progress.expect("judging", 1)
        try:
            await my_turn(JUDGING)
            cache.store.expect_verdict()
            verdict = await self._judge(*material)
            if not isinstance(verdict, Judged | Unjudged | Scored | Unscored):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise JudgeFailed(  # a judge of the caller's own
                    f"the judge {type(self._judge).__name__} returned {quoted(verdict)}: give a harness.Judged, or a "
                    "harness.Unjudged that says why there is no verdict"
                )
            if why := _why_unasked(verdict):
                cost = Cost(cache.ceiling.expected("judge")) if why is IN_BATCH else cost
                return why
            if cache.batches and verdict.status == "failed":
                cache.batches.failed.add(verdict.key)
            cost = verdict.cost if verdict.usage.requests else cost
            cache.store.add_verdict(verdict)
            cache.progress.kept("judging", verdict.usage, verdict.price_usd, failed=verdict.status == "failed")
            await cache.store.commit()  # on disk before anything can use it
        finally:
            if not paid:
                cache.ceiling.end("judge", cost)
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

    def not_bought(self, why: Failure, task: Task, first: Transcript, second: Transcript) -> Unjudged:
        """Return that nothing was bought."""
        key = self._judge.key(task, first, second)
        return verdict_record(Unjudged, self._judge, key, task, (first, second), failure=why)


class CachedListJudge(CachedJudge[Scored, Unscored, ListTask, Sequence[Transcript]]):
    """Gets verdicts on lists."""

    def _find(self, source: VerdictStore | FolderReader, key: str) -> Scored | None:
        return source.scored(key)

    def _find_scores(self, key: str) -> Scored | None:
        return self._cache.store.scored(key)

    def not_bought(self, why: Failure, about: ListTask, transcripts: Sequence[Transcript]) -> Unscored:
        """Return that nothing was bought."""
        key = self._judge.key(about, transcripts)
        return verdict_record(Unscored, self._judge, key, about.task, transcripts, failure=why)


NOT_NEEDED = Failure(kind="cancelled", type="NotNeeded", message="not asked: the models are sure")


class NotAsked(PairJuror):
    """A juror whom nobody asks yet: an agent while the models judge."""

    def __init__(self, agent: CachedPairJudge) -> None:
        """Take the place of `agent`."""
        self._agent = agent

    async def get(self, ledger: PairLedger, task: Task, first: Transcript, second: Transcript) -> Unjudged:
        """Return that no verdict is needed."""
        return self.cached(ledger, task, first, second)

    def cached(self, ledger: PairLedger, task: Task, first: Transcript, second: Transcript) -> Unjudged:
        """Return the same."""
        del ledger
        return self._agent.not_bought(NOT_NEEDED, task, first, second)
