"""What workers and driver tell one another while rollouts are made, through one named actor.

A wait after a 429 that one worker was told of holds for all of them, and for the judge's calls to the same endpoint.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ray.exceptions import RayActorError

from harness.endpoints.gate import GateLesson
from harness.endpoints.refused_settings import SettingLesson

_LONGEST_WAIT_S = 20.0
_MOST_KEPT = 10_000
_BEFORE_ASKING_AGAIN_S = 1.0


@dataclass(frozen=True)
class WorkerNote:
    """Something that the user should read while the work goes on."""

    text: str


@dataclass(frozen=True)
class RetriedCall:
    """A call to a model failed and is made again."""


@dataclass(frozen=True)
class WaitingCalls:
    """So many calls of the source now wait for an endpoint."""

    place: str
    calls: int


@dataclass(frozen=True)
class FirstReply:
    """The first reply to the rollout with this order's number is in."""

    order: int


Lesson = GateLesson | SettingLesson
"""What all workers go by."""
News = Lesson | WorkerNote | RetriedCall | WaitingCalls | FirstReply


class Traffic:
    """The actor: keeps the latest news, and hands them to whoever waits for them."""

    def __init__(self) -> None:
        """Begin without news."""
        self._news: deque[tuple[int, str, News]] = deque(maxlen=_MOST_KEPT)
        self._count = 0
        self._changed = asyncio.Event()

    async def post(self, source: str, news: News) -> None:
        """Keep what `source` tells, and wake who waits."""
        self._count += 1
        self._news.append((self._count, source, news))
        self._changed.set()
        self._changed = asyncio.Event()

    async def hear(self, listener: str, since: int, *, everything: bool) -> tuple[int, list[tuple[str, News]]]:
        """Return the number of the latest news, and those after number `since` that others told.

        Waits for some, but not for ever. Unless `everything` is wanted, only what concerns all workers counts.
        """
        try:
            async with asyncio.timeout(_LONGEST_WAIT_S):
                while not (news := self._after(since, listener, everything=everything)):
                    await self._changed.wait()
        except TimeoutError:
            news = []
        return self._count, news

    def _after(self, since: int, listener: str, *, everything: bool) -> list[tuple[str, News]]:
        return [
            (source, news)
            for number, source, news in self._news
            if number > since and source != listener and (everything or isinstance(news, Lesson))
        ]


class TrafficLine:
    """A worker's or the driver's line to the actor."""

    def __init__(self, traffic: Any, name: str, *, everything: bool = False) -> None:
        """Speak under `name`; listen to `everything`, or to what concerns all workers."""
        self._traffic, self._name, self._everything = traffic, name, everything

    def post(self, news: News) -> None:
        """Tell the others; any thread may, and nobody waits for it."""
        self._traffic.post.remote(self._name, news)

    async def listen(self, hear: Callable[[str, News], None]) -> None:
        """Have `hear` called with the source and the news, until this is cancelled."""
        since = 0
        latest: list[tuple[str, News]] = []
        while True:
            try:
                since, latest = await self._traffic.hear.remote(self._name, since, everything=self._everything)
            except RayActorError:  # it is started again elsewhere, and counts anew
                since, latest = 0, []
                await asyncio.sleep(_BEFORE_ASKING_AGAIN_S)
            for source, news in latest:
                hear(source, news)
