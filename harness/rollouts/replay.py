"""Driving an agent's code again on the replies that one of its rollouts recorded, and comparing as it goes.

Every request is held against the recorded ones; the first that fits none ends the replay. A reply is found by what
was asked, not by its number: nested agents that run side by side may ask in another order than they did.
"""

import copy
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import anyio
from agents import FunctionTool, Model, ModelResponse, ModelSettings, RunConfig, Runner, Tool
from agents.run import AgentRunner, get_default_agent_runner, set_default_agent_runner
from agents.tool import ToolOriginType, get_function_tool_origin

from harness.core.errors import UsageError
from harness.core.records import Failure, Query, Record, Rollout, Step
from harness.endpoints import EndpointState, completed
from harness.rollouts.attempt import Outcome, outcome_of
from harness.rollouts.environment import AgentEnv
from harness.rollouts.failures import failure_from
from harness.rollouts.lifecycle import Scene, set_up
from harness.rollouts.loading import LoadedAgent
from harness.rollouts.mcp_stubs import without_servers
from harness.rollouts.models import request_of
from harness.rollouts.raw import RawCall
from harness.rollouts.recorder import Recorder
from harness.rollouts.reply_items import split_think
from harness.rollouts.request_diff import Divergence, Redact, diff, first_change, items, likeness, plain, shared

_GUARDRAIL_S, _OTHERS_S = 5.0, 2.0
_ENDS_BY_ITSELF = frozenset({"max_turns", "output", "guardrail", "refusal", "tool", "approval"})
"""Failures that the agent's code and the replies bring about again; all others come from outside of both."""


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


class Diverged(Exception):
    """Ends the run; the recording knows what diverged."""


class EndOfRecording(Exception):
    """The recording ends here because the rollout did."""


@dataclass
class Recording:
    """A rollout's recorded calls, of which each answers one request. `divergence` is the first, and final."""

    rollout: Rollout
    calls: Sequence[RawCall]
    redact: Redact
    drives_nested: bool
    live_tools: bool
    divergence: Divergence | None = None
    ended: bool = False
    """The rollout was cut off here; nothing is known of what would have come."""
    used: set[int] = field(default_factory=set[int])
    _all_used: anyio.Event = field(default_factory=anyio.Event)

    def __post_init__(self) -> None:
        """Redact the requests as those of now will be: what was recorded under fewer patterns must not differ."""
        self._requests = [plain(c.request, self.redact) for c in self.calls]
        self._agents = {c.raw: c.agent for c in self.rollout.calls if c.raw is not None}

    async def answer(self, request: dict[str, Any]) -> int:
        """Return which recorded call a request is. Raises Diverged, EndOfRecording."""
        if self.divergence:
            raise Diverged
        if self.ended:
            raise EndOfRecording
        now = plain(request, self.redact)
        left = [i for i in range(len(self.calls)) if i not in self.used]
        same = next((i for i in left if self._requests[i] == now), None)
        if same is not None:
            self.used.add(same)
            if len(self.used) == len(self.calls):
                self._all_used.set()
            return same
        if not left:
            if self.ends_outside:
                raise self.end()
            if self.rollout.failure and self.rollout.failure.kind == "guardrail":
                await anyio.sleep(_GUARDRAIL_S)  # it had no reply before the guardrail beside it tripped
            raise self.diverge(
                Divergence(
                    what="more calls",
                    call=len(self.calls) + 1,
                    diff=diff(None, items(now)[-1:]),
                    detail=f"the recording ends after {len(self.calls)} model calls",
                )
            )
        raise self.diverge(self._nearest(left, now))

    async def output(self, call: int, call_id: str, name: str) -> Any:
        """Return what a tool call of recorded reply `call` gave, as a tool would. Raises as the tool did."""
        told = self._told(call, call_id)
        if told is not None:
            return _as_returned(told)
        step = _find(self.rollout.trajectory.path, lambda s: s.call_id == call_id and s.tool_name == name)
        if step and step[1].tool_output is not None:
            return step[1].tool_output
        if step and step[1].error:
            if self.rollout.failure and self.rollout.failure.kind != "tool":
                return step[1].error  # it went to the model as a message, and no model call followed
            raise RuntimeError(step[1].error)
        if self.rollout.failure is None:
            unknown = "the recording holds no output of this call"
            raise self.diverge(Divergence(what="tool output changed", call=call + 1, tool=name, detail=unknown))
        with anyio.move_on_after(_OTHERS_S):
            await self._all_used.wait()  # calls beside this one may still have come to their end
        raise self.end()

    def end(self) -> EndOfRecording:
        """Note that the recording goes no further, and return what to raise."""
        self.ended = True
        return EndOfRecording()

    def diverge(self, divergence: Divergence) -> Diverged:
        """Keep the first divergence, and return what to raise."""
        self.divergence = self.divergence or divergence
        return Diverged()

    @property
    def ends_outside(self) -> bool:
        """Whether the rollout was ended by something that is neither the agent's code nor a reply."""
        failure = self.rollout.failure
        return failure is not None and failure.kind not in _ENDS_BY_ITSELF

    def missing(self) -> Divergence | None:
        """Return the divergence of a run that ended although there were more recorded calls."""
        left = [i for i in range(len(self.calls)) if i not in self.used]
        if not left:
            return None
        return Divergence(
            what="fewer calls",
            call=left[0] + 1,
            agent=self._agents.get(left[0]),
            step=self._step_before(left[0]),
            detail=f"{len(left)} of {len(self.calls)} recorded model calls were not made",
            diff=diff(items(self._requests[left[0]])[-1:], None),
        )

    def _nearest(self, left: Sequence[int], now: dict[str, Any]) -> Divergence:
        nearest = max(left, key=lambda i: (*likeness(self._requests[i], now), -i))
        change = first_change(self._requests[nearest], now)
        step = self._step_before(nearest)
        if change.what == "tool output changed":
            found = _find(
                self.rollout.trajectory.path, lambda s: s.call_id == change.detail and s.tool_name == change.tool
            )
            step = found[0] if found else step
        return change.model_copy(update={"call": nearest + 1, "step": step, "agent": self._agents.get(nearest)})

    def _step_before(self, call: int) -> str | None:
        """Return the first step that recorded reply `call` brought about; None for one that only answers."""
        for item in self.calls[call].reply.output:
            call_id, name = getattr(item, "call_id", None), getattr(item, "name", None)
            found = _find(self.rollout.trajectory.path, lambda s: s.call_id == call_id and s.tool_name == name)  # noqa: B023 - used at once
            if call_id and found:
                return found[0]
        return None

    def _told(self, call: int, call_id: str) -> Any:
        """Return a call's output from the request that went on from `call`, or None.

        Offline call ids repeat from one nested run to the next, so the same id elsewhere may be another call.
        """
        before = items(self.calls[call].request)
        for later in self.calls[call + 1 :]:
            after = items(later.request)
            if shared(before, after) == len(before):
                for item in after[len(before) :]:
                    if _answers(item, call_id):
                        return cast("dict[str, Any]", item)["output"]
        return None


class ReplayModel(Model):
    """Answers each request with the recorded reply to it, and takes the place of the tools that the request offers."""

    def __init__(self, recording: Recording) -> None:
        """Answer from `recording`."""
        self._recording = recording

    async def get_response(
        self,
        system_instructions: str | None,
        input: Any,  # noqa: A002 - the SDK's name
        model_settings: ModelSettings,
        tools: list[Tool],
        output_schema: Any,
        handoffs: Any,
        tracing: Any,
        **more: Any,
    ) -> ModelResponse:
        """Return the recorded reply. Raises Diverged, EndOfRecording."""
        del model_settings, tracing, more
        request = request_of(system_instructions, input, tools, output_schema, handoffs)
        call = await self._recording.answer(request)
        # The SDK runs the tools of the very list that it offers, whoever's agent it is: also those of agents inside
        # handoff() and as_tool(), which nothing else can reach.
        tools[:] = [self._stub(tool, call) for tool in tools]
        return copy.deepcopy(self._recording.calls[call].reply)

    async def stream_response(self, *args: Any, **more: Any) -> AsyncIterator[Any]:
        """Stream the recorded reply, as one event. Raises as `get_response` does."""
        yield completed(await self.get_response(*args, **more))

    def _stub(self, tool: Tool, call: int) -> Tool:
        if not isinstance(tool, FunctionTool):
            return tool
        if self._recording.drives_nested if _is_agent(tool) else self._recording.live_tools:
            return tool

        async def invoke(context: Any, arguments: str) -> Any:
            del arguments  # they come from the recorded reply
            return await self._recording.output(call, context.tool_call_id, tool.name)

        stub = copy.copy(tool)
        stub.on_invoke_tool = invoke
        return stub


class _Watched(AgentRunner):
    """The SDK's runner, which lets no run of the agent's own code past the recording: it would ask a model."""

    def __init__(self, recording: Recording) -> None:
        super().__init__()
        self._recording = recording

    async def run(self, starting_agent: Any, input: Any, **more: Any) -> Any:  # noqa: A002 - the SDK's name
        """Run, on the recording only."""
        self._check(starting_agent, more.get("run_config"))
        return await super().run(starting_agent, input, **more)

    def run_streamed(self, starting_agent: Any, input: Any, **more: Any) -> Any:  # noqa: A002 - the SDK's name
        """Run, on the recording only."""
        self._check(starting_agent, more.get("run_config"))
        return super().run_streamed(starting_agent, input, **more)

    def _check(self, agent: Any, config: Any) -> None:
        if not isinstance(getattr(config, "model", None), ReplayModel):
            told = (
                f"the agent's own code runs agent {agent.name!r} (in a guardrail?): such calls are not recorded, "
                "and a replay asks no model"
            )
            raise self._recording.diverge(Divergence(what="more calls", agent=agent.name, detail=told))


@contextmanager
def _watched(recording: Recording) -> Generator[None]:
    before = get_default_agent_runner()
    set_default_agent_runner(_Watched(recording))
    try:
        yield
    finally:
        set_default_agent_runner(before)


async def replay_rollout(
    loaded: LoadedAgent,
    env: AgentEnv,
    query: Query,
    rollout: Rollout,
    calls: Sequence[RawCall],
    *,
    live_tools: bool,
    max_turns: int,
    timeout_s: float,
    redact: Redact,
) -> Replayed:
    """Run the agent once more on a rollout's recorded replies and return whether all was as recorded.

    Recorded tool outputs stand in for the tools, unless `live_tools`. Raises UsageError if the agent cannot be made.
    """
    unrecorded = any(c.raw is None and c.error is None for c in rollout.calls) or _lost_nested(rollout)
    recording = Recording(rollout, calls, redact, drives_nested=not unrecorded, live_tools=live_tools)
    outcome = await _run(loaded, env, query, recording, max_turns, timeout_s)
    divergence = _compared(recording, outcome)
    return Replayed(
        query=query.id,
        index=rollout.index,
        calls=len(calls),
        replayed=len(recording.used),
        divergence=divergence,
        notes=(_UNRECORDED,) if unrecorded else (),
    )


def _lost_nested(rollout: Rollout) -> bool:
    """Whether a nested call failed for good: no retry came of it, and the rollout did not end with it."""
    lost = sum(c.error is not None for c in rollout.calls) - rollout.retries
    return lost > (rollout.failure is not None)


async def _run(
    loaded: LoadedAgent, env: AgentEnv, query: Query, recording: Recording, max_turns: int, timeout_s: float
) -> Outcome:
    """Drive the agent to its end, or to that of the recording."""
    scene, rollout = Scene(), recording.rollout
    settings = ModelSettings(temperature=rollout.requested.temperature, top_p=rollout.requested.top_p)
    config = RunConfig(model=ReplayModel(recording), tracing_disabled=True, model_settings=settings)
    with anyio.move_on_after(timeout_s):
        try:
            async with AsyncExitStack() as around:
                if not recording.live_tools:
                    around.enter_context(_watched(recording))
                    around.enter_context(without_servers(rollout.mcp_tools, [c.request for c in recording.calls]))
                agent = await around.enter_async_context(set_up(loaded, env, query, scene, lambda _: {}))
                result = await Runner.run(
                    agent, query.agent_input(), context=scene.context, max_turns=max_turns, run_config=config
                )
                return outcome_of(result)
        except UsageError:
            raise
        except Exception as exc:  # noqa: BLE001 - however it ended is compared with how the rollout did
            unused = Recorder(on_reply=_nothing, state=EndpointState(_nothing))
            return Outcome(failure=failure_from(exc, unused), error=exc)
    return Outcome(failure=Failure(kind="timeout", type="TimeoutError", message=f"not done after {timeout_s:g} s"))


def _compared(recording: Recording, outcome: Outcome) -> Divergence | None:
    """Return the first divergence: in a request, else in how many there were, else in how the run ended."""
    if recording.divergence:
        return recording.divergence
    recorded, now = recording.rollout.failure, outcome.failure
    if recorded and now and recorded.kind == now.kind == "guardrail":
        return None  # a guardrail runs beside the model call, and either may be the quicker
    if missing := recording.missing():
        told = f"; now it ended in {_ending(now)}" if now else ""
        return missing.model_copy(update={"detail": missing.detail + told})
    if recording.ended or (recorded and recorded.kind == (now.kind if now else "")):
        return None
    if (recorded or now) and not (recording.ends_outside and now is None):
        return Divergence(what="ended otherwise", detail=f"recorded: {_ending(recorded)}; now: {_ending(now)}")
    return None if recorded else _answers_compared(recording, outcome)


def _answers_compared(recording: Recording, outcome: Outcome) -> Divergence | None:
    lifted, rest = split_think(outcome.answer)
    now = recording.redact(rest if lifted else outcome.answer)
    before = recording.redact(recording.rollout.trajectory.answer)
    return None if now == before else Divergence(what="answer changed", diff=diff(before, now))


def _ending(failure: Failure | None) -> str:
    return f"{failure.kind} ({failure.type}: {failure.message})" if failure else "with an answer"


def _answers(item: Any, call_id: str) -> bool:
    told = cast("dict[str, Any]", item) if isinstance(item, dict) else {}
    return told.get("type") == "function_call_output" and told.get("call_id") == call_id


def _as_returned(output: Any) -> Any:
    """Return what a tool has to return for the SDK to make `output` of it: a list of parts has types of its own."""
    if not isinstance(output, list):
        return output
    parts = cast("list[dict[str, Any]]", output)
    return [{**p, "type": str(p.get("type", "")).removeprefix("input_")} for p in parts]


def _find(path: Sequence[Step], fits: Callable[[Step], bool], within: str = "") -> tuple[str, Step] | None:
    """Return the first step that fits, with its number; those inside a step come after it."""
    for number, step in enumerate(path, 1):
        at = f"{within}{number}"
        if fits(step):
            return at, step
        if inner := _find(step.inner, fits, f"{at}."):
            return inner
    return None


def _is_agent(tool: FunctionTool) -> bool:
    origin = get_function_tool_origin(tool)
    return origin is not None and origin.type is ToolOriginType.AGENT_AS_TOOL


def _nothing(*_: object) -> None:
    """Nobody listens."""
