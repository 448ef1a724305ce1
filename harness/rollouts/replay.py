"""Driving an agent's code again on the replies that one of its rollouts recorded, and comparing as it goes.

Every request is held against the recorded ones; the first that fits none ends the replay. A reply is found by what
was asked, not by its number: nested agents that run side by side may ask in another order than they did.
"""

import copy
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from typing import Any

import anyio
from agents import ModelSettings, RunConfig, Runner
from agents.mcp import MCPServer, MCPServerSse, MCPServerStdio, MCPServerStreamableHttp
from mcp.types import Tool

from harness.core.errors import UsageError
from harness.core.records import Failure, Query, Record, Rollout
from harness.endpoints.gate import Gate
from harness.endpoints.refused_settings import RefusedSettings
from harness.endpoints.state import EndpointState
from harness.rollouts.attempt import AgentOutcome, outcome_of
from harness.rollouts.environment import AgentEnv
from harness.rollouts.failures import failure_from
from harness.rollouts.lifecycle import ProcessGuard, RolloutScope, set_up
from harness.rollouts.loading import LoadedAgent
from harness.rollouts.nested import as_config
from harness.rollouts.raw import RawCall
from harness.rollouts.recorder import Recorder
from harness.rollouts.recording import Recording
from harness.rollouts.replay_model import ReplayModel
from harness.rollouts.reply_items import split_think
from harness.rollouts.request_diff import Divergence, Scrub, diff
from harness.rollouts.sdk_runner import Options, TakenRun, runs_taken_over

_KINDS: Sequence[type[MCPServer]] = (MCPServerStdio, MCPServerSse, MCPServerStreamableHttp)

Method = Callable[..., Awaitable[Any]]


class RecordedServers:
    """The tools that each MCP server listed in a recorded rollout, as the rollout's requests describe them."""

    def __init__(self, listed: Mapping[str, Sequence[str]], requests: Sequence[Mapping[str, Any]]) -> None:
        """`listed` is tool names by server; descriptions and schemas stand in the `requests`."""
        self._listed = listed
        self._described = {str(tool["name"]): tool for request in requests for tool in request["tools"]}

    def tools_of(self, server: str) -> list[Tool]:
        """Return the tools of a server by its name, without those that no request describes."""
        described = ((name, self._description(name)) for name in self._listed.get(server, ()))
        return [_tool(name, description) for name, description in described if description]

    def _description(self, name: str) -> Mapping[str, Any] | None:
        """Return a tool as a request has it: under its name, or with its server's name before it."""
        prefixed = (tool for full_name, tool in self._described.items() if full_name.endswith(f"_{name}"))
        return self._described.get(name) or next(prefixed, None)


_servers: ContextVar[RecordedServers | None] = ContextVar("harness_recorded_servers", default=None)


@contextmanager
def without_servers(servers: RecordedServers) -> Generator[None]:
    """In this task and those that it starts, let the SDK's MCP servers connect to nothing and list what was recorded.

    An agent's own code may make and connect its servers before the agent is seen, so it is the SDK's methods that look
    whether their task is a replay's; in all other tasks they do what they always do.
    """
    token = _servers.set(servers)
    try:
        with _GUARD.in_use():
            yield
    finally:
        _servers.reset(token)


async def _connect_nothing(_: MCPServer, *__: Any, **___: Any) -> None:
    """Neither connect nor clean up."""


async def _list_recorded(server: MCPServer, *_: Any, **__: Any) -> list[Tool]:
    servers = _servers.get()
    return servers.tools_of(server.name) if servers else []


_STUBS: Mapping[str, Method] = {
    "connect": _connect_nothing,
    "cleanup": _connect_nothing,
    "list_tools": _list_recorded,
}


def _install() -> Callable[[], None]:
    """Let the servers' methods look for a replay around them; return what takes that away."""
    before = [(kind, name, kind.__dict__.get(name)) for kind in _KINDS for name in _STUBS]
    for kind, name, _ in before:
        setattr(kind, name, _only_in_replays(getattr(kind, name), _STUBS[name]))

    def undo() -> None:
        for kind, name, method in before:
            if method is None:
                delattr(kind, name)  # the method was inherited
            else:
                setattr(kind, name, method)

    return undo


def _only_in_replays(original: Method, stub: Method) -> Method:
    @wraps(original)
    async def method(self: MCPServer, *args: Any, **kwargs: Any) -> Any:
        return await (original if _servers.get() is None else stub)(self, *args, **kwargs)

    return method


_GUARD = ProcessGuard(_install)


def _tool(name: str, description: Mapping[str, Any]) -> Tool:
    return Tool.model_validate(
        {"name": name, "description": description.get("description"), "inputSchema": description.get("schema") or {}}
    )


@dataclass
class ReplayRuns:
    """Lets the runs of one replay ask its recording, by way of the SDK's own runner."""

    recording: Recording
    through_usual_runner: bool = False

    def take(self, agent: Any, given_input: Any, options: Options) -> TakenRun:
        """Return a run on the recording. Raises Diverged for a run whose calls were not recorded."""
        del given_input
        theirs = as_config(options)
        live = self.recording.live_tools and not self.recording.drives_nested
        if isinstance(theirs.model, ReplayModel) or live:
            return TakenRun(agent, options)
        if not self.recording.drives_nested:
            detail = (
                f"the agent's own code runs agent {agent.name!r} (in a guardrail?): not all such calls are recorded, "
                "and a replay asks no model"
            )
            raise self.recording.diverge(Divergence(what="more calls", agent=agent.name, detail=detail))
        return TakenRun(agent, options | {"run_config": _on(self.recording, theirs)})


@contextmanager
def recorded_runs_only(recording: Recording) -> Generator[None]:
    """In this task and those that it starts, let agents run on `recording` only."""
    with runs_taken_over(ReplayRuns(recording)):
        yield


def _on(recording: Recording, theirs: RunConfig) -> RunConfig:
    config = copy.copy(theirs)
    config.model, config.tracing_disabled = ReplayModel(recording), True
    return config


_UNRECORDED = (
    "some nested model calls have no recorded reply (they ran on models of their own, or failed): "
    "the outputs of agents used as tools were taken as recorded"
)


class Replayed(Record):
    """How the replay of one rollout came out: identical if `divergence` is None."""

    query: str
    index: int
    calls: int
    """Recorded model calls."""
    replayed: int
    """How many of them were asked for again, up to the end or the divergence."""
    divergence: Divergence | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class RecordedRollout:
    """What a replay starts from: a query, its archived rollout, and the rollout's raw model calls."""

    query: Query
    rollout: Rollout
    calls: Sequence[RawCall]


@dataclass(frozen=True)
class ReplayOptions:
    """How to replay. Recorded tool outputs stand in for the tools, unless `live_tools`."""

    max_turns: int
    timeout_s: float
    scrub: Scrub
    """Takes out of today's texts what the archive does not keep."""
    live_tools: bool = False


async def replay_rollout(
    loaded: LoadedAgent, env: AgentEnv, recorded: RecordedRollout, options: ReplayOptions
) -> Replayed:
    """Run the agent once more on a rollout's recorded replies and return whether all was as recorded.

    Raises UsageError if the agent cannot be made.
    """
    query, rollout = recorded.query, recorded.rollout
    unrecorded = any(c.raw is None and c.error is None for c in rollout.calls) or _lost_nested(rollout)
    recording = Recording(
        rollout, recorded.calls, options.scrub, drives_nested=not unrecorded, live_tools=options.live_tools
    )
    outcome = await _run(loaded, env, query, recording, options)
    return Replayed(
        query=query.id,
        index=rollout.index,
        calls=len(recorded.calls),
        replayed=len(recording.used),
        divergence=_first_divergence(recording, outcome),
        notes=tuple(_notes(recording, unrecorded=unrecorded)),
    )


def _notes(recording: Recording, *, unrecorded: bool) -> Iterator[str]:
    if unrecorded:
        yield _UNRECORDED
    if recording.skipped:
        calls = "model call was" if recording.skipped == 1 else "model calls were"
        yield f"{recording.skipped} {calls} made inside tools whose outputs were taken as recorded"


def _lost_nested(rollout: Rollout) -> bool:
    """Whether a nested call failed for good: no retry came of it, and the rollout did not end with it."""
    lost = sum(c.error is not None for c in rollout.calls) - rollout.retries
    return lost > (rollout.failure is not None)


async def _run(
    loaded: LoadedAgent, env: AgentEnv, query: Query, recording: Recording, options: ReplayOptions
) -> AgentOutcome:
    """Drive the agent to its end, or to that of the recording."""
    scope, rollout, timeout_s = RolloutScope(), recording.rollout, options.timeout_s
    settings = ModelSettings(temperature=rollout.requested.temperature, top_p=rollout.requested.top_p)
    config = RunConfig(model=ReplayModel(recording), tracing_disabled=True, model_settings=settings)
    with anyio.move_on_after(timeout_s):
        try:
            async with AsyncExitStack() as around:
                around.enter_context(recorded_runs_only(recording))
                if rollout.mcp_tools and not options.live_tools:
                    servers = RecordedServers(rollout.mcp_tools, [c.request for c in recording.calls])
                    around.enter_context(without_servers(servers))
                agent = await around.enter_async_context(set_up(loaded, env, query, scope, lambda _: {}))
                result = await Runner.run(
                    agent, query.agent_input(), context=scope.context, max_turns=options.max_turns, run_config=config
                )
                return outcome_of(result)
        except UsageError:
            raise
        except Exception as exc:  # noqa: BLE001 - however it ended is compared with how the rollout did
            return AgentOutcome(
                failure=failure_from(exc, Recorder(state=EndpointState(Gate.impatient(), RefusedSettings()))), error=exc
            )
    message = f"not done after {timeout_s:g} s"
    return AgentOutcome(failure=Failure(kind="timeout", type="TimeoutError", message=message))


def _first_divergence(recording: Recording, outcome: AgentOutcome) -> Divergence | None:
    """Return the first divergence: in a request, else in how many there were, else in how the run ended."""
    if recording.divergence:
        return recording.divergence
    recorded, now = recording.rollout.failure, outcome.failure
    if recorded and now and recorded.kind == now.kind == "guardrail":
        return None  # a guardrail runs beside the model call, and either may be the quicker
    if missing := recording.missing():
        ending = f"; now it ended in {_ending(now)}" if now else ""
        return missing.model_copy(update={"detail": missing.detail + ending})
    if recording.ended or (recorded and recorded.kind == (now.kind if now else "")):
        return None
    if (recorded or now) and not (recording.ends_outside and now is None):
        return Divergence(what="ended otherwise", detail=f"recorded: {_ending(recorded)}; now: {_ending(now)}")
    return None if recorded else _answer_divergence(recording, outcome)


def _answer_divergence(recording: Recording, outcome: AgentOutcome) -> Divergence | None:
    reasoning, rest = split_think(outcome.answer)
    now = recording.scrub(rest if reasoning else outcome.answer)
    before = recording.scrub(recording.rollout.trajectory.answer)
    return None if now == before else Divergence(what="answer changed", diff=diff(before, now))


def _ending(failure: Failure | None) -> str:
    return f"{failure.kind} ({failure.type}: {failure.message})" if failure else "with an answer"
