"""The gates of a run for model calls that a process of a rollout makes: each call asks, goes, and tells how it ended.

The process that judges and writes keeps the gates, so that all rollouts go by one pace, one breaker and one patience.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Never, Self, TypeVar

import anyio
import httpx2
import openai

from harness.core.progress import Progress
from harness.core.records import FailureKind
from harness.core.sync import forget_frames
from harness.endpoints.address import Endpoint
from harness.endpoints.breaker import EndpointDown, stays
from harness.endpoints.gate import Gate, Gates, Patience, gate_name
from harness.endpoints.retries import NO_LIMIT, TimeLimit

_Reply = TypeVar("_Reply")
_NO_REQUEST = httpx2.Request("POST", "http://endpoint.invalid")
_HEADERS = "x-ratelimit-"


@dataclass(frozen=True)
class Trouble:
    """An error of a model call, as gates read it; of one that they pass over only that there was one."""

    kind: type[openai.OpenAIError] | None = None
    words: tuple[Any, ...] = ()
    members: Mapping[str, Any] = field(default_factory=dict[str, Any])
    cause: str = ""

    @classmethod
    def of(cls, error: Exception) -> Self:
        """Describe an error."""
        kind = type(error)
        if not isinstance(error, openai.OpenAIError) or kind.__module__.partition(".")[0] not in {"openai", "harness"}:
            return cls()
        root: BaseException = error
        while root.__cause__:
            root = root.__cause__
        return cls(type(error), error.args, vars(error), str(root))

    def error(self) -> Exception:
        """Return the error."""
        if self.kind is None:
            return RuntimeError("a model call failed in the process of a rollout")
        error = self.kind.__new__(self.kind)
        error.args = self.words
        vars(error).update(self.members)
        error.__cause__ = RuntimeError(self.cause)
        return error


@dataclass(frozen=True)
class CallWaits:
    """A call asks for its turn at the gate of this name."""

    call: int
    gate: str
    model: str | None


@dataclass(frozen=True)
class CallEnded:
    """A call that was let go has a reply, or met trouble."""

    call: int
    trouble: Trouble | None = None


@dataclass(frozen=True)
class CallLeft:
    """Nobody waits for a call any more; `late` says that the rollout's time was over."""

    call: int
    late: bool


@dataclass(frozen=True)
class ReplyHeaders:
    """What the headers of a reply say of the endpoint's limits."""

    gate: str
    headers: Mapping[str, str]


@dataclass(frozen=True)
class CallGoes:
    """It is the call's turn."""

    call: int


@dataclass(frozen=True)
class CallOver:
    """The call is not made any more: for the trouble that it met, or for what is said here."""

    call: int
    timed_out: bool = False
    down: tuple[str, FailureKind] | None = None


Teller = Callable[[object], None]
"""Tells the other end of the line. Any thread may speak, and nobody waits."""


class _ClockElsewhere(TimeLimit):
    """The clock of a rollout in another process, which stops it there."""

    def __init__(self) -> None:
        super().__init__(float("inf"))
        self.late = False

    @property
    def passed(self) -> bool:
        return self.late

    @contextmanager
    def stopped(self) -> Generator[None]:
        yield


@dataclass
class _CallElsewhere:
    """A call that another process makes, at its gate here."""

    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    clock: _ClockElsewhere = field(default_factory=_ClockElsewhere)
    ended: asyncio.Future[Exception | None] | None = None


class CallsElsewhere:
    """The calls of one process, at the run's gates."""

    def __init__(self, gates: Mapping[str, Gate], tell: Teller, tasks: anyio.abc.TaskGroup) -> None:
        """Let calls go through `gates`, by name; `tasks` is where they wait."""
        self._gates, self._tell, self._tasks = gates, tell, tasks
        self._calls: dict[int, _CallElsewhere] = {}

    def __len__(self) -> int:
        """Return how many wait for their turn, or for their reply."""
        return len(self._calls)

    def receive(self, news: CallWaits | CallEnded | CallLeft | ReplyHeaders) -> None:
        """Take in what the process tells."""
        match news:
            case CallWaits(call, gate, model):
                self._calls[call] = _CallElsewhere()
                self._tasks.start_soon(self._attend, call, self._gates[gate], model)
            case CallEnded(call, trouble):
                waiting = self._calls.get(call)
                if waiting and waiting.ended and not waiting.ended.done():
                    waiting.ended.set_result(trouble and trouble.error())
            case CallLeft(call, late):
                if left := self._calls.get(call):
                    left.clock.late = late
                    left.scope.cancel()
            case ReplyHeaders(gate, headers):
                self._gates[gate].note_headers(headers)

    async def _attend(self, number: int, gate: Gate, model: str | None) -> None:
        call, theirs = self._calls[number], list[Exception]()

        async def attempt() -> None:
            call.ended = asyncio.get_running_loop().create_future()
            self._tell(CallGoes(number))
            if error := await call.ended:
                theirs.append(error)
                raise error

        try:
            with call.scope:
                await gate.send(attempt, call.clock, model=model)
        except EndpointDown as exc:
            self._tell(CallOver(number, down=(str(exc), exc.kind)))
        except Exception as exc:  # noqa: BLE001 - the call raises its own error in its process
            self._tell(CallOver(number, timed_out=isinstance(exc, openai.APITimeoutError) and exc not in theirs))
            forget_frames(exc)
        finally:
            del self._calls[number]


@dataclass
class _CallHere:
    """A call of this process that asked for its turn, in whatever event loop."""

    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    told: asyncio.Queue[CallGoes | CallOver] = field(default_factory=asyncio.Queue[CallGoes | CallOver])
    scope: anyio.CancelScope | None = None

    def receive(self, news: CallGoes | CallOver) -> None:
        self.told.put_nowait(news)
        if self.scope and isinstance(news, CallOver):
            self.scope.cancel()


class GatesElsewhere(Gates):
    """The gates of a run, seen from the process of one rollout."""

    def __init__(self, progress: Progress, tell: Teller) -> None:
        super().__init__(progress)
        self.tell, self.calls, self.numbers = tell, dict[int, _CallHere](), count()
        self._made = dict[str, GateElsewhere]()

    def of(self, endpoint: Endpoint | None, patience: Patience, rng: Any, tier: str = "") -> Gate:
        """Return what stands for the gate of an endpoint here."""
        del rng, tier
        name = gate_name(endpoint)
        if name not in self._made:
            self._made[name] = GateElsewhere(name, patience, self._progress, self)
        return self._made[name]

    def receive(self, news: CallGoes | CallOver) -> None:
        """Take in what the run tells of a call, in the loop of the process."""
        if call := self.calls.get(news.call):
            if call.loop is asyncio.get_running_loop():
                call.receive(news)
            elif not call.loop.is_closed():
                call.loop.call_soon_threadsafe(call.receive, news)


class GateElsewhere(Gate):
    """Stands for a gate of the run in the process of one rollout."""

    def __init__(self, name: str, patience: Patience, progress: Progress, gates: GatesElsewhere) -> None:
        super().__init__(name, patience, random.Random(0), progress)
        self._gates = gates
        self.answered = False
        """Whether any call of the run has had a reply that could be used."""

        def tell_headers(headers: Mapping[str, str]) -> None:
            if said := {name: value for name, value in headers.items() if name.startswith(_HEADERS)}:
                gates.tell(ReplyHeaders(name, said))

        self.note_headers = tell_headers

    @property
    def has_answered(self) -> bool:
        """Whether any call of the run has had a reply that could be used."""
        return self.answered

    async def send(
        self,
        call: Callable[[], Awaitable[_Reply]],
        clock: TimeLimit = NO_LIMIT,
        leaves: Callable[[], bool] = stays,
        *,
        model: str | None = None,
        who: Any = "agent",
    ) -> _Reply:
        """Make a call as `Gate.send` does, once the run's gate lets it go, and as often as that says."""
        del leaves, who  # there is no other server, and no judge here
        number, here, error = next(self._gates.numbers), _CallHere(), None
        self._gates.calls[number] = here
        try:
            self._gates.tell(CallWaits(number, self.name, model))
            while True:
                with clock.stopped():
                    news = await here.told.get()
                if isinstance(news, CallOver):
                    _raise(news, error)
                with anyio.CancelScope() as here.scope:
                    try:
                        reply = await call()
                    except Exception as exc:  # noqa: BLE001 - the gate decides
                        error = exc
                        self._gates.tell(CallEnded(number, Trouble.of(exc)))
                    else:
                        self.answered = True
                        self._gates.tell(CallEnded(number))
                        return reply
                here.scope = None
        except anyio.get_cancelled_exc_class():
            self._gates.tell(CallLeft(number, late=clock.passed))
            raise
        finally:
            del self._gates.calls[number]


def _raise(over: CallOver, error: Exception | None) -> Never:
    if over.down:
        raise EndpointDown(*over.down)
    if over.timed_out or error is None:
        raise openai.APITimeoutError(_NO_REQUEST)
    raise error
