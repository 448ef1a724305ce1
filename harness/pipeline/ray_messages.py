"""What the driver and the Ray workers tell one another, through one named actor. No key is in any of it."""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Any

from ray.exceptions import RayActorError

from harness.core.errors import OutOfQuota, Refused, UsageError
from harness.core.records import Query, Rollout
from harness.core.settings import Settings
from harness.endpoints.gate import GateLesson
from harness.endpoints.refused_settings import SettingLesson
from harness.rollouts.loading import LoadedAgent, load_agent


@dataclass(frozen=True)
class AgentPlace:
    """Where a worker finds the agent: by a word from a folder, or the agent itself where it has no file."""

    name: str
    word: str = ""
    here: Path | None = None
    """The folder from which the word is resolved; None: the worker's own."""
    itself: LoadedAgent | None = None

    def load(self) -> LoadedAgent:
        """Return the agent. Raises UsageError as `load_agent`."""
        if self.itself:
            return self.itself
        return replace(load_agent(self.word, self.here or Path.cwd()), name=self.name)


@dataclass(frozen=True)
class WorkerJob:
    """What a worker needs to know of a run."""

    run_id: str
    settings: Settings
    """The run's, with the address that the agent's models are at; no password is in the address."""
    agent: AgentPlace
    _: KW_ONLY
    instructions: str | None
    at_endpoint: bool
    """Whether the agent's models are at an endpoint, and not the agent's own or embedded."""
    has_key: bool
    """Whether the endpoint is asked with a key, which the worker's environment must hold then."""
    version: str


@dataclass(frozen=True)
class RolloutOrder:
    """A rollout that a worker is to make now."""

    number: int
    query: Query
    index: int
    leads: bool
    """Whether the other rollouts of the run wait for its first reply."""
    refused: tuple[SettingLesson, ...] = ()


@dataclass(frozen=True)
class MadeRollout:
    """What became of an order: a record and the texts that the record names, or why there is none."""

    rollout: Rollout | None = None
    texts: Mapping[str, str] | None = None
    """Large texts under their sha256, redacted."""
    refusal: str | None = None
    refused_by: str = ""

    @property
    def error(self) -> UsageError:
        """What ends the run in place of a record."""
        kind = {"Refused": Refused, "OutOfQuota": OutOfQuota}.get(self.refused_by, UsageError)
        return kind(self.refusal or "a Ray worker gave no rollout")


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
        """Keep the news of `source`, and wake who waits."""
        self._count += 1
        self._news.append((self._count, source, news))
        self._changed.set()
        self._changed = asyncio.Event()

    async def receive(self, listener: str, since: int, *, everything: bool) -> tuple[int, list[tuple[str, News]]]:
        """Return the latest number and other sources' news after `since`; waits for some, but not for ever."""
        try:
            async with asyncio.timeout(_LONGEST_WAIT_S):
                while not (
                    latest := [
                        (source, news)
                        for number, source, news in self._news
                        if number > since and source != listener and (everything or isinstance(news, Lesson))
                    ]
                ):
                    await self._changed.wait()
        except TimeoutError:
            latest = []
        return self._count, latest


class TrafficLine:
    """A worker's or the driver's line to the actor."""

    def __init__(self, traffic: Any, name: str, *, everything: bool = False) -> None:
        """Speak under `name`; listen to `everything`, or to what concerns all workers."""
        self._traffic, self._name, self._everything = traffic, name, everything

    def post(self, news: News) -> None:
        """Tell the others; any thread may, and nobody waits for it."""
        self._traffic.post.remote(self._name, news)

    async def listen(self, receive: Callable[[str, News], None]) -> None:
        """Have `receive` called with the source and the news, until this is cancelled."""
        since = 0
        latest: list[tuple[str, News]] = []
        while True:
            try:
                since, latest = await self._traffic.receive.remote(self._name, since, everything=self._everything)
            except RayActorError:  # it is started again elsewhere, and counts anew
                since, latest = 0, []
                await asyncio.sleep(_BEFORE_ASKING_AGAIN_S)
            for source, news in latest:
                receive(source, news)
