"""A jury: several judges asked the same thing, each with verdicts of its own; and the ledger of what was bought."""

import statistics
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Generic, Literal, TypeVar, TypeVarTuple

import anyio

from harness.core.records import Usage
from harness.core.rounded import sum_if_known
from harness.core.tracebacks import start_child
from harness.core.verdicts import Judged, PairScores, Scored, Unjudged, Unscored
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
    def price_usd(self) -> float | None:
        """The price of what was bought; None where a part of the price is unknown."""
        return sum_if_known(verdict.price_usd for verdict in self.bought.values() if verdict.usage.requests)


PairLedger = Ledger[Judged, Unjudged]
ListLedger = Ledger[Scored, Unscored]


class Juror(ABC, Generic[Ok, Failed, *Material]):
    """One judge of a jury."""

    @abstractmethod
    async def get(self, ledger: Ledger[Ok, Failed], *material: *Material) -> Ok | Failed:
        """Return the verdict on the material, and note it in `ledger`."""

    @abstractmethod
    def cached(self, ledger: Ledger[Ok, Failed], *material: *Material) -> Ok | PairScores | None:
        """Return what rankings take of the verdict, noted in `ledger`, if that needs no waiting; None otherwise."""


PairJuror = Juror[Judged, Unjudged, Task, Transcript, Transcript]

Averaging = Literal["mean", "median"]
Number = TypeVar("Number", Fraction, float)
JobResult = TypeVar("JobResult")


class Jury(Generic[Ok, Failed, *Material]):
    """One judge or more. A judge that fails fails only its own verdict."""

    def __init__(self, members: Sequence[Juror[Ok, Failed, *Material]], averaging: Averaging = "mean") -> None:
        """Seat `members`, in the order in which their verdicts are returned."""
        self._members = tuple(members)
        self.averaging: Averaging = averaging

    def __len__(self) -> int:
        return len(self._members)

    async def verdicts(self, ledger: Ledger[Ok, Failed], *material: *Material) -> tuple[Ok | Failed, ...]:
        """Return each member's verdict, in the members' order; all are asked at once."""
        return await all_at_once([partial(member.get, ledger, *material) for member in self._members])

    def cached(self, ledger: Ledger[Ok, Failed], *material: *Material) -> tuple[Ok | PairScores, ...] | None:
        """Return what `verdicts` would where no member's verdict needs any waiting, and None otherwise."""
        found: list[Ok | PairScores] = []
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
