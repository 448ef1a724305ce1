"""What a run tells the workers that make its rollouts elsewhere, on Ray or in processes of this machine, and they tell.

No key is in any of it.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

from harness.core.errors import HarnessError, OutOfQuota, Refused, UsageError
from harness.core.progress import Progress, Silent
from harness.core.records import Query, Rollout
from harness.endpoints.gate import GateLesson, Gates
from harness.endpoints.refused_settings import SettingLesson
from harness.rollouts.checkpoints import Attempted
from harness.rollouts.loading import LoadedAgent, load_agent
from harness.rollouts.maker import BegunRollout, FirstCall
from harness.rollouts.run_context import RunContext


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
class RolloutOrder:
    """A rollout that a worker is to make now."""

    number: int
    query: Query
    index: int
    leads: bool
    """Whether the other rollouts of the run wait for its first reply."""
    refused: tuple[SettingLesson, ...] = ()
    answered: bool = False
    """Whether the endpoint has answered in this run."""
    before: Attempted | None = None
    """What an attempt before has had, to go on from."""


@dataclass(frozen=True)
class MadeRollout:
    """What became of an order: a record and the texts that the record names, or why there is none."""

    rollout: Rollout | None = None
    texts: Mapping[str, str] | None = None
    """Large texts under their sha256, redacted."""
    refusal: str | None = None
    refused_by: str = ""
    goes_on: bool = False
    """Whether the worker's process takes a further order."""

    @classmethod
    def refused(cls, error: HarnessError) -> "MadeRollout":
        """Return that an error ends the run in place of a record."""
        return cls(refusal=str(error), refused_by=type(error).__name__)

    @property
    def error(self) -> Exception:
        """What ends the run in place of a record."""
        kind = {"Refused": Refused, "OutOfQuota": OutOfQuota, "RuntimeError": RuntimeError}.get(
            self.refused_by, UsageError
        )
        return kind(self.refusal or "a worker gave no rollout")

    def keep(self, run_context: RunContext, begun: BegunRollout) -> None:
        """Write what came: the texts first, because the record names them. Raises what ends the run instead."""
        if self.rollout is None:
            raise self.error
        store = run_context.store
        for text in (self.texts or {}).values():
            store.put_blob(text, as_is=True)
        begun.done[begun.index] = rollout = store.add_rollout(self.rollout)
        failed = rollout.status == "failed"
        run_context.progress.kept("rollouts", rollout.usage, rollout.price_usd, failed=failed)


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
Post = Callable[[News], None]
"""Tells the run; any thread may, and nobody waits for it."""


class PassedOn(Silent):
    """Passes on to the run what only the worker sees. The run counts rollouts by itself."""

    def __init__(self, post: Post) -> None:
        self._post = post

    def retried(self) -> None:
        """A call to a model failed and is made again."""
        self._post(RetriedCall())

    def waiting(self, place: str, calls: int) -> None:
        """So many of the worker's calls now wait for the endpoint `place`."""
        self._post(WaitingCalls(place, calls))

    def note(self, text: str) -> None:
        """Something that the user should read while the work goes on."""
        self._post(WorkerNote(text))


class AnsweredFirst(FirstCall):
    """The first call of a rollout in a worker: the run hears of its reply."""

    def __init__(self, post: Callable[[Any], None], order: RolloutOrder) -> None:
        super().__init__()
        self._post, self._order = post, order

    def reply(self) -> None:
        """A reply came in."""
        if self._order.leads and not self.answered:
            self._post(FirstReply(self._order.number))
        super().reply()


@dataclass
class Relay:
    """Takes in what workers tell, and shows each note of theirs once."""

    progress: Progress
    gates: Gates
    who: str
    """What the workers are called."""
    leading: dict[int, FirstCall] = field(default_factory=dict[int, FirstCall])
    refused: tuple[SettingLesson, ...] = ()
    """What models have refused in any worker: a rollout that begins later does not ask again."""
    _numbers: "count[int]" = field(default_factory=count)
    _noted: set[str] = field(default_factory=set[str])
    _waiting: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])

    def order(self, begun: BegunRollout) -> RolloutOrder:
        """Return the order of a rollout that begins."""
        number = next(self._numbers)
        if begun.leads:
            self.leading[number] = begun.first_call
        return RolloutOrder(number, begun.query, begun.index, begun.leads, self.refused)

    def receive(self, source: str, news: News) -> None:
        """Take in what a worker tells."""
        match news:
            case GateLesson():
                self.gates.learn(news)
            case SettingLesson():
                self.refused = tuple(dict.fromkeys((*self.refused, news)))
            case WorkerNote(text):
                if text not in self._noted:
                    self._noted.add(text)
                    self.progress.note(text)
            case RetriedCall():
                self.progress.retried()
            case WaitingCalls(place, calls):
                self._waiting[source, place] = calls
                everywhere = sum(n for (_, of_place), n in self._waiting.items() if of_place == place)
                self.progress.waiting(f"{place} ({self.who})", everywhere)
            case FirstReply(order):
                if first_call := self.leading.get(order):
                    first_call.reply()
