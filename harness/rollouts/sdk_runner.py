"""The SDK's runner and MCP servers within rollouts and replays: every run that their tasks begin is taken over.

A run that begins in any other task goes to the runner that was there before, as if there were no rollout.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from types import coroutine
from typing import Any, Protocol, cast

from agents.mcp import MCPServer, MCPServerSse, MCPServerStdio, MCPServerStreamableHttp
from agents.run import AgentRunner, get_default_agent_runner, set_default_agent_runner
from mcp.types import Tool

from harness.rollouts.agent_code import AgentRaised, contained, tasks_contained
from harness.rollouts.lifecycle import ProcessGuard, guard_methods, set_within
from harness.rollouts.prompt_parts import in_place_of

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

    def on_raised(self, raised: AgentRaised) -> None:
        """Note that the agent's code raised what would have ended the process."""
        ...


_takeover: ContextVar[Takeover | None] = ContextVar("harness_takeover", default=None)
_PLAIN = AgentRunner()


class TakingRunner(AgentRunner):
    """Makes the runs of rollouts and replays as they want them, and passes all others on."""

    def __init__(self, usual: AgentRunner) -> None:
        super().__init__()
        self.usual = usual

    async def run(self, starting_agent: Any, input: Any, **options: Any) -> Any:  # noqa: A002 - the SDK's name
        """Run an agent."""
        takeover = _takeover.get()
        if takeover is None:
            return await self.usual.run(starting_agent, input, **options)
        taken = takeover.take(in_place_of(starting_agent), input, options)

        run = self._runner(takeover).run(taken.agent, input, **taken.options)
        try:
            return await _tasks_begun(contained(run, takeover.on_raised))
        finally:
            if taken.close:
                await taken.close()

    def run_sync(self, starting_agent: Any, input: Any, **options: Any) -> Any:  # noqa: A002 - the SDK's name
        """Run an agent outside of any event loop."""
        if _takeover.get() is None:
            return self.usual.run_sync(starting_agent, input, **options)
        with ExitStack() as around:  # the SDK's `run_sync` would leave open the loop that it makes in a thread
            try:
                asyncio.get_event_loop()
            except RuntimeError:
                around.enter_context(asyncio.Runner()).get_loop()  # sets it
            return super().run_sync(starting_agent, input, **options)  # which calls `run`

    def run_streamed(self, starting_agent: Any, input: Any, **options: Any) -> Any:  # noqa: A002 - the SDK's name
        """Run an agent and stream its events."""
        takeover = _takeover.get()
        if takeover is None:
            return self.usual.run_streamed(starting_agent, input, **options)
        taken = takeover.take(in_place_of(starting_agent), input, options)
        result = self._runner(takeover).run_streamed(taken.agent, input, **taken.options)
        if (close := taken.close) and result.run_loop_task:

            async def closing() -> None:
                await close()

            closings: list[asyncio.Task[None]] = []  # the callback holds them: the loop itself keeps no hold on a task
            result.run_loop_task.add_done_callback(lambda _: closings.append(asyncio.ensure_future(closing())))
        return result

    def _runner(self, takeover: Takeover) -> AgentRunner:
        return self.usual if takeover.through_usual_runner else _PLAIN


@contextmanager
def runs_taken_over(takeover: Takeover) -> Generator[None]:
    """In this task, and in the tasks and threads that the task starts, let `takeover` say how agents run."""
    with set_within(_takeover, takeover), RUNNER_GUARD.in_use(), tasks_contained(takeover.on_raised):
        yield


@coroutine
def _tasks_begun(run: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """Do a run; each task that the run waits for begins before a cancellation reaches the task.

    The SDK hands a coroutine of its own to a task. A task that is cancelled before its first step never awaits that
    coroutine, and Python warns of it, at whatever line the interpreter happens to be.
    """
    step: Callable[[Any], Any] = run.send
    given: Any = None
    while True:
        try:
            awaited: object = step(given)
        except StopIteration as end:
            return end.value
        try:
            if isinstance(awaited, asyncio.Task):
                task = cast("asyncio.Task[object]", awaited)
                try:
                    yield  # a turn of the loop for the task; a cancellation meanwhile reaches the task after that
                except asyncio.CancelledError:
                    task.cancel()
            step, given = run.send, (yield awaited)
        except BaseException as exc:  # noqa: BLE001 - the run decides what becomes of it
            step, given = run.throw, exc


def _renew() -> None:
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


RUNNER_GUARD = ProcessGuard(_install, _renew)
"""Keeps our runner in its place: a thread that outlives its rollout meets it too."""


Method = Callable[..., Awaitable[Any]]
NoteError = Callable[[BaseException | str], None]

_KINDS: Sequence[type[MCPServer]] = (MCPServerStdio, MCPServerSse, MCPServerStreamableHttp)


_note: ContextVar[NoteError | None] = ContextVar("harness_mcp_errors", default=None)


@contextmanager
def mcp_errors(note: NoteError) -> Generator[None]:
    """In this task and those that it starts, call `note` for each call that an MCP server refuses or fails."""
    with set_within(_note, note), _CALLS_GUARD.in_use():
        yield


def _noting(original: Method) -> Method:
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


_CALLS_GUARD = guard_methods(lambda: [(kind, "call_tool", _noting) for kind in _KINDS])


class RecordedServers:
    """The tools that each MCP server listed in a recorded rollout, as the rollout's requests describe them."""

    def __init__(self, listed: Mapping[str, Sequence[str]], requests: Sequence[Mapping[str, Any]]) -> None:
        """`listed` is tool names by server; descriptions and schemas stand in the `requests`."""
        self._listed = listed
        self._described = {str(tool["name"]): tool for request in requests for tool in request["tools"]}

    def list_tools(self, server: str) -> list[Tool]:
        """Return the tools of a server by its name, without those that no request describes."""
        tools: list[Tool] = []
        for name in self._listed.get(server, ()):  # a request may have the server's name before it
            prefixed = (tool for full_name, tool in self._described.items() if full_name.endswith(f"_{name}"))
            if tool := self._described.get(name) or next(prefixed, None):
                described: Any = {"description": tool.get("description"), "inputSchema": tool.get("schema") or {}}
                tools.append(Tool.model_validate({"name": name, **described}))
        return tools


_servers: ContextVar[RecordedServers | None] = ContextVar("harness_recorded_servers", default=None)


@contextmanager
def without_servers(servers: RecordedServers) -> Generator[None]:
    """In this task and those that it starts, let MCP servers connect to nothing and list what was recorded."""
    with set_within(_servers, servers), _REPLAY_GUARD.in_use():
        yield


def _replayed(original: Method) -> Method:
    @wraps(original)
    async def method(self: MCPServer, *args: Any, **kwargs: Any) -> Any:
        servers = _servers.get()
        if servers is None:
            return await original(self, *args, **kwargs)
        return servers.list_tools(self.name) if original.__name__ == "list_tools" else None

    return method


_REPLAYED = "connect", "cleanup", "list_tools"
_REPLAY_GUARD = guard_methods(lambda: [(kind, name, _replayed) for kind in _KINDS for name in _REPLAYED])
