"""Queries on their way through the stages: as many as there are places for, and memory for what is not judged yet."""

import math
import sys
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

import anyio
import anyio.lowlevel

from harness.core.errors import PLACE_IN_LINE
from harness.core.records import Group, Rollout, Step
from harness.core.sync import start_child

_IN_LINE = 2
"""Queries that may wait for places: one more than the one whose rollouts are let in, so that no place stays empty."""
_BESIDE_TEXTS = 12_000
"""Bytes that a rollout's record, and its part of the tasks of a waiting group, take beside the texts."""
T = TypeVar("T")


async def for_each(items: Iterable[T], work: Callable[[T], Awaitable[None]], at_once: int) -> None:
    """Await `work(item)` for every item, at most `at_once` at a time; items are drawn as places come free."""
    places = anyio.Semaphore(at_once)

    async def one(item: T) -> None:
        try:
            await work(item)
        finally:
            places.release()

    async with anyio.create_task_group() as tasks:
        for item in items:
            await places.acquire()
            start_child(tasks, one, item)


@dataclass
class OpenGroups:
    """The groups being rolled out or judged; `most_bytes` of whole transcripts may wait for their judge."""

    most_bytes: float
    most_groups: float = math.inf
    _open: int = 0
    _in_line: int = 0
    _unjudged: int = 0
    _changed: anyio.Event = field(default_factory=anyio.Event)

    async def each(self, items: Iterable[T], work: "Callable[[OpenGroup, T], Awaitable[None]]") -> None:
        """Await `work` for every item, with its group; items are drawn, and begun, in order, as there is room."""

        async def one(number: int, item: T) -> None:
            PLACE_IN_LINE.set(number)
            group = OpenGroup(self)
            try:
                await work(group, item)
            finally:
                group.leave()

        async with anyio.create_task_group() as tasks:
            for number, item in enumerate(items):
                await anyio.lowlevel.checkpoint()  # where nothing is waited for, nothing else lets an interrupt in
                while self._open and (  # a group alone always has room
                    self._in_line >= _IN_LINE or self._unjudged >= self.most_bytes or self._open >= self.most_groups
                ):
                    await self._changed.wait()
                self.change(groups=1, in_line=1)
                start_child(tasks, one, number, item)

    def change(self, *, groups: int = 0, in_line: int = 0, unjudged: int = 0) -> None:
        """Note that there are more groups open, or in line, or more bytes of unjudged transcripts; or fewer."""
        self._open += groups
        self._in_line += in_line
        self._unjudged += unjudged
        self._changed.set()
        self._changed = anyio.Event()


class OpenGroup:
    """The group of one query, from its beginning until it is ranked."""

    def __init__(self, among: OpenGroups) -> None:
        self._among = among
        self._in_line = True
        self._bytes: dict[int, int] = {}

    def placed(self) -> None:
        """Note that the group waits for no place any more: a further query may begin."""
        if self._in_line:
            self._in_line = False
            self._among.change(in_line=-1)

    def holds(self, group: Group) -> None:
        """Note which rollouts the group has so far."""
        new = {r.index: rollout_bytes(r) for r in group.rollouts if r.index not in self._bytes}
        self._bytes |= new
        if new:
            self._among.change(unjudged=sum(new.values()))

    def leave(self) -> None:
        """End: the group is ranked, or nothing can be done for it."""
        self.placed()
        self._among.change(groups=-1, unjudged=-sum(self._bytes.values()))


def rollout_bytes(rollout: Rollout) -> int:
    """Return the bytes of memory that a rollout takes: the texts of its trajectory, and what is there of each."""
    trajectory = rollout.trajectory
    texts = sum(map(sys.getsizeof, (trajectory.query, trajectory.answer)))
    return _BESIDE_TEXTS + texts + sum(map(_step_bytes, trajectory.path))


def _step_bytes(step: Step) -> int:
    texts = (step.reasoning, step.tool_input, step.tool_output, step.error)
    return sum(map(sys.getsizeof, filter(None, texts))) + sum(map(_step_bytes, step.inner))
