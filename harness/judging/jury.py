"""A jury: several judges asked the same thing, each with verdicts of its own, and how their scores become one."""

import statistics
from collections.abc import Awaitable, Callable, Iterable, Sequence
from fractions import Fraction
from functools import partial
from typing import Generic, Literal, TypeVar

import anyio

from harness.core.tracebacks import start_child
from harness.core.verdicts import Judged, PairScores, Scored, Unjudged, Unscored
from harness.judging.juror import Failed, Juror, Ledger, Material, Ok
from harness.judging.list_prompt import ListTask
from harness.judging.prompt import Task
from harness.transcripts.transcript import Transcript

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

    async def hear(self, ledger: Ledger[Ok, Failed], *material: *Material) -> tuple[Ok | Failed, ...]:
        """Return each member's verdict, in the members' order; all are asked at once."""
        return await all_at_once([partial(member.get, ledger, *material) for member in self._members])

    def at_hand(self, ledger: Ledger[Ok, Failed], *material: *Material) -> tuple[Ok | PairScores, ...] | None:
        """Return what `hear` would where every member's verdict is at hand, and None otherwise."""
        verdicts: list[Ok | PairScores] = []
        for member in self._members:
            if (verdict := member.at_hand(ledger, *material)) is None:
                return None
            verdicts.append(verdict)
        return tuple(verdicts)


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
