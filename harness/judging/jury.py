"""A jury: several judges asked the same thing, each with verdicts of its own, and how their scores become one."""

import statistics
from collections.abc import Awaitable, Callable, Iterable, Sequence
from fractions import Fraction
from functools import partial
from typing import Literal, TypeVar

import anyio

from harness.core.verdicts import Judged, Scored, Unjudged, Unscored
from harness.judging.list_prompt import ListTask
from harness.judging.prompt import Task
from harness.judging.verdict_cache import Buyer, ListBuyer, Purse
from harness.transcripts import Transcript

Averaging = Literal["mean", "median"]
Number = TypeVar("Number", Fraction, float)
Said = TypeVar("Said")


class Jury:
    """One judge or more, asked about pairs. A judge that fails fails only its own verdict."""

    def __init__(self, members: Sequence[Buyer], averaging: Averaging = "mean") -> None:
        """Seat `members`, in the order in which their verdicts are told."""
        self._members = tuple(members)
        self.averaging: Averaging = averaging

    async def hear(
        self, task: Task, first: Transcript, second: Transcript, purse: Purse
    ) -> tuple[Judged | Unjudged, ...]:
        """Return each member's verdict, in the members' order; all are asked at once."""
        return await _all_of(partial(member.get, task, first, second, purse) for member in self._members)

    def at_hand(self, task: Task, first: Transcript, second: Transcript, purse: Purse) -> tuple[Judged, ...] | None:
        """Return what `hear` would where the store holds every member's verdict, and None otherwise."""
        found: list[Judged] = []
        for member in self._members:
            if (verdict := member.at_hand(task, first, second, purse)) is None:
                return None
            found.append(verdict)
        return tuple(found)


class ListJury:
    """One listwise judge or more. A judge that fails fails only its own verdict."""

    def __init__(self, members: Sequence[ListBuyer], averaging: Averaging = "mean") -> None:
        """Seat `members`, in the order in which their verdicts are told."""
        self._members = tuple(members)
        self.averaging: Averaging = averaging

    async def hear(
        self, about: ListTask, transcripts: Sequence[Transcript], purse: Purse
    ) -> tuple[Scored | Unscored, ...]:
        """Return each member's verdict on a list in this order, in the members' order; all are asked at once."""
        return await _all_of(partial(member.get, about, transcripts, purse) for member in self._members)


async def _all_of(asks: Iterable[Callable[[], Awaitable[Said]]]) -> tuple[Said, ...]:
    """Do all at once and return the results in the order given."""
    if len(waiting := list(asks)) == 1:
        return (await waiting[0](),)
    found: dict[int, Said] = {}

    async def one(number: int, ask: Callable[[], Awaitable[Said]]) -> None:
        found[number] = await ask()

    async with anyio.create_task_group() as asked:
        for number, ask in enumerate(waiting):
            asked.start_soon(one, number, ask)
    return tuple(found[number] for number in sorted(found))


def average(scores: Sequence[Number], averaging: Averaging) -> Number:
    """Return the mean or the median (of an even number: the mean of the middle two). At least one score."""
    if len(scores) == 1:  # nearly always, and statistics.mean is slow
        return scores[0]
    return statistics.median(scores) if averaging == "median" else statistics.mean(scores)
