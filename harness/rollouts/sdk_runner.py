"""The SDK's runner while rollouts or replays are under way: every run that their tasks begin is taken over.

A run that begins in any other task goes to the runner that was there before, as if there were no rollout.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial, wraps
from types import coroutine
from typing import Any, Protocol, cast

from agents.mcp import MCPServer, MCPServerSse, MCPServerStdio, MCPServerStreamableHttp
from agents.run import AgentRunner, get_default_agent_runner, set_default_agent_runner

from harness.rollouts.lifecycle import ProcessGuard

_KINDS: tuple[type[MCPServer], ...] = (MCPServerStdio, MCPServerSse, MCPServerStreamableHttp)

NoteError = Callable[[BaseException | str], None]

_note: ContextVar[NoteError | None] = ContextVar("harness_mcp_errors", default=None)


@contextmanager
def mcp_errors(note: NoteError) -> Generator[None]:
    """In this task and those that it starts, tell `note` of each call that an MCP server refuses or fails."""
    token = _note.set(note)
    try:
        with _GUARD_of_mcp_errors.in_use():
            yield
    finally:
        _note.reset(token)


def _noting(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    async def call_tool(self: MCPServer, *args: Any, **kwargs: Any) -> Any:
        note = _note.get()
        if note is None:
            return await original(self, *args, **kwargs)
        try:
            result = await original(self, *args, **kwargs)
        except Exception as exc:
            note(exc)
            raise
        if getattr(result, "is_error", False) or getattr(result, "isError", False):
            texts = [str(part.text) for part in result.content if getattr(part, "text", None)]
            note(f"the MCP server says that the call failed: {' '.join(texts)}"[:1000])
        return result

    return call_tool


def _install_of_mcp_errors() -> Callable[[], None]:
    before = [(kind, kind.__dict__.get("call_tool")) for kind in _KINDS]
    for kind, _ in before:
        setattr(kind, "call_tool", _noting(kind.call_tool))  # noqa: B010 - an assignment would need the method's type

    def undo() -> None:
        for kind, method in before:
            if method is None:
                delattr(kind, "call_tool")  # the method was inherited
            else:
                setattr(kind, "call_tool", method)  # noqa: B010

    return undo


_GUARD_of_mcp_errors = ProcessGuard(_install_of_mcp_errors)


Options = dict[str, Any]
"""The keyword arguments of a run."""


@dataclass(frozen=True)
class TakenRun:
    """A run as it is to be made: the agent, the options, and what is to be closed after it."""

    agent: Any
    options: Options
    close: Callable[[], Awaitable[None]] | None = None


class Takeover(Protocol):
    """What takes over the runs of a rollout or a replay."""

    through_usual_runner: bool
    """Whether the runs go through a runner of the user's own, where one is set."""

    def take(self, agent: Any, given_input: Any, options: Options) -> TakenRun:
        """Return how a run is to be made. May raise to refuse the run."""
        ...


_takeover: ContextVar[Takeover | None] = ContextVar("harness_takeover", default=None)
_PLAIN = AgentRunner()


class TakingRunner(AgentRunner):
    """Makes the runs of rollouts and replays as they want them, and passes all others on."""

    def __init__(self, usual: AgentRunner) -> None:
        """Pass on to `usual`."""
        super().__init__()
        self.usual = usual

    async def run(self, starting_agent: Any, input: Any, **options: Any) -> Any:  # noqa: A002 - the SDK's name
        """Run an agent."""
        takeover = _takeover.get()
        if takeover is None:
            return await self.usual.run(starting_agent, input, **options)
        taken = takeover.take(starting_agent, input, options)
        try:
            return await _tasks_begun(self._made(takeover, taken, input))
        finally:
            if taken.close:
                await taken.close()

    def run_sync(self, starting_agent: Any, input: Any, **options: Any) -> Any:  # noqa: A002 - the SDK's name
        """Run an agent outside of any event loop."""
        if _takeover.get() is None:
            return self.usual.run_sync(starting_agent, input, **options)
        with _loop_of_this_thread():
            return super().run_sync(starting_agent, input, **options)  # which calls `run`

    def run_streamed(self, starting_agent: Any, input: Any, **options: Any) -> Any:  # noqa: A002 - the SDK's name
        """Run an agent and stream its events."""
        takeover = _takeover.get()
        if takeover is None:
            return self.usual.run_streamed(starting_agent, input, **options)
        taken = takeover.take(starting_agent, input, options)
        result = self._runner(takeover).run_streamed(taken.agent, input, **taken.options)
        if taken.close and result.run_loop_task:
            _after(result.run_loop_task, taken.close)
        return result

    async def _made(self, takeover: Takeover, taken: TakenRun, given_input: Any) -> Any:
        return await self._runner(takeover).run(taken.agent, given_input, **taken.options)

    def _runner(self, takeover: Takeover) -> AgentRunner:
        return self.usual if takeover.through_usual_runner else _PLAIN


@contextmanager
def runs_taken_over(takeover: Takeover) -> Generator[None]:
    """In this task, and in the tasks and threads that the task starts, let `takeover` say how agents run."""
    token = _takeover.set(takeover)
    try:
        with _GUARD.in_use():
            yield
    finally:
        _takeover.reset(token)


def runner_kept() -> AbstractContextManager[None]:
    """Keep our runner in its place, so that a thread that outlives its rollout meets it too."""
    return _GUARD.in_use()


@contextmanager
def _loop_of_this_thread() -> Generator[None]:
    """Set an event loop in a thread that has none, and close it after: the SDK's `run_sync` would leave it open."""
    try:
        asyncio.get_event_loop()
    except RuntimeError:
        with asyncio.Runner() as runner:
            runner.get_loop()  # sets it
            yield
    else:
        yield


@coroutine
def _tasks_begun(run: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """Do a run; each task that the run waits for begins before a cancellation reaches the task.

    The SDK hands a coroutine of its own to a task. A task that is cancelled before its first step never awaits that
    coroutine, and Python warns of it, at whatever line the interpreter happens to be.
    """
    step = partial(run.send, None)
    while True:
        try:
            awaited: object = step()
        except StopIteration as end:
            return end.value
        try:
            if isinstance(awaited, asyncio.Task):
                yield from _one_turn(cast("asyncio.Task[object]", awaited))
            step = partial(run.send, (yield awaited))
        except BaseException as exc:  # noqa: BLE001 - the run decides what becomes of it
            step = partial(run.throw, exc)


def _one_turn(task: asyncio.Task[object]) -> Generator[None]:
    """Let a task have a turn of the loop. A cancellation that comes meanwhile is passed on to the task after that."""
    try:
        yield
    except asyncio.CancelledError:
        task.cancel()


def _after(task: asyncio.Task[Any], close: Callable[[], Awaitable[None]]) -> None:
    async def closing() -> None:
        await close()

    closings: list[asyncio.Task[None]] = []  # the callback holds them: the loop itself keeps no hold on a task
    task.add_done_callback(lambda _: closings.append(asyncio.ensure_future(closing())))


def _renew() -> None:
    """Put our runner before the one that is there."""
    usual = get_default_agent_runner()
    if not isinstance(usual, TakingRunner):
        set_default_agent_runner(TakingRunner(usual))


def _install() -> Callable[[], None]:
    _renew()

    def undo() -> None:
        present = get_default_agent_runner()
        if isinstance(present, TakingRunner):  # else somebody has set another meanwhile
            set_default_agent_runner(present.usual)

    return undo


_GUARD = ProcessGuard(_install, _renew)
