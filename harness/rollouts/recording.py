"""A rollout's recorded model calls, and the model that answers a replay from them."""

import copy
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import agents
import anyio
from agents.editor import ApplyPatchResult
from agents.tool import ValidToolOutputPydanticModelsTypeAdapter

from harness.core.errors import counted, option
from harness.core.records import Rollout, Step
from harness.endpoints.usage import completed
from harness.rollouts import model_request
from harness.rollouts.approval_gate import Decision, approvals, gated
from harness.rollouts.graph import is_agent
from harness.rollouts.model_request import Divergence
from harness.rollouts.raw import RawCall

_GUARDRAIL_S, _OTHERS_S = 5.0, 2.0
_ENDS_BY_ITSELF = frozenset({"max_turns", "output", "guardrail", "refusal", "tool", "approval", "agent_code"})
"""Failures that the agent's code and the replies bring about again; all others come from outside of both."""
_NOT_SENT, _TRIPPED = UnicodeEncodeError.__name__, agents.ToolOutputGuardrailTripwireTriggered.__name__
_FIXED: Sequence[model_request.What] = ("prompt changed", "tool schema changed", "handoffs changed")


class Diverged(Exception):
    """Ends the run; the recording knows what diverged."""


class EndOfRecording(Exception):
    """The recording ends here because the rollout did."""


@dataclass
class Recording:
    """A rollout's recorded calls, of which each answers one request. `divergence` is the first, and final."""

    rollout: Rollout
    calls: Sequence[RawCall]
    scrub: model_request.Scrub
    drives_nested: bool
    live_tools: bool
    divergence: Divergence | None = None
    ended: bool = False
    """The rollout was cut off here; nothing is known of what would have come."""
    used: set[int] = field(default_factory=set[int])
    skipped: int = 0
    """How many of the used calls were made during tool calls whose outputs were taken as recorded."""
    stubbed: bool = False
    """The output of some tool was taken as recorded."""
    _all_used: anyio.Event = field(default_factory=anyio.Event)

    def __post_init__(self) -> None:
        """Scrub the requests as those of now will be: what was recorded under fewer patterns must not differ."""
        self._requests = [model_request.as_archived(c.request, self.scrub) for c in self.calls]
        self._agents = {c.raw: c.agent for c in self.rollout.calls if c.raw is not None}

    async def answer(self, request: dict[str, Any]) -> int:
        """Return which recorded call a request is. Raises Diverged, EndOfRecording."""
        if self.divergence:
            raise Diverged
        if self.ended:
            raise EndOfRecording
        now = model_request.as_archived(request, self.scrub)
        unused = self._unused()
        same = next((i for i in unused if self._requests[i] == now), None)
        if same is not None:
            self.used.add(same)
            if len(self.used) == len(self.calls):
                self._all_used.set()
            return same
        if not unused:
            if self.ends_outside:
                raise self.end()
            if self.rollout.failure and self.rollout.failure.kind == "guardrail":
                await anyio.sleep(_GUARDRAIL_S)  # it had no reply before the guardrail beside it tripped
            change = model_request.diff(None, model_request.input_items(now)[-1:])
            ends = f"the recording ends after {counted(len(self.calls), 'model call')}"
            raise self.diverge(Divergence(what="more calls", call=len(self.calls) + 1, diff=change, detail=ends))
        nearest = max(unused, key=lambda i: (*model_request.likeness(self._requests[i], now), -i))
        change = model_request.first_change(self._requests[nearest], now)
        number = self._step_before(nearest)
        if change.what == "tool output changed" and (step := self._step(change.detail, change.tool)):
            number = step[0]
        if change.what in _FIXED:
            change = change.model_copy(update={"detail": ": ".join(filter(None, (change.detail, self.remedy())))})
        agent = self._agents.get(nearest)
        raise self.diverge(change.model_copy(update={"call": nearest + 1, "step": number, "agent": agent}))

    def remedy(self) -> str:
        """Return what to try where something changed that tools may make; nothing where all of them ran."""
        runs = f"{option('live_tools')} runs the tools, which may have set what this is made of"
        return runs if self.stubbed else ""

    async def output(self, call: int, call_id: str, name: str) -> Any:
        """Return what a tool call of recorded reply `call` gave, as a tool would. Raises as the tool did."""
        self.stubbed = True
        self._skip(call, call_id)
        output: Any = model_request.sent_output([c.request for c in self.calls], call, call_id)
        _, step = self._step(call_id, name) or ("", None)
        if output is not None:
            return _as_told(model_request.as_returned(output), step.tool_output if step else None)
        if step and step.tool_output is not None:
            return step.tool_output
        if step and step.error and not self.withheld:
            if self.rollout.failure and self.rollout.failure.kind != "tool":
                return step.error  # it went to the model as a message, and no model call followed
            raise RuntimeError(step.error)
        if self.rollout.failure is None:
            unknown = "the recording holds no output of this call"
            raise self.diverge(Divergence(what="tool output changed", call=call + 1, tool=name, detail=unknown))
        with anyio.move_on_after(_OTHERS_S):
            await self._all_used.wait()  # calls beside this one may still have come to their end
        raise self.end()

    def _skip(self, call: int, call_id: str) -> None:
        """Take the model calls made during a tool call as used: the tool that made them does not run."""
        for made in self.rollout.calls:
            if made.raw is not None and made.raw not in self.used and (made.within, made.within_raw) == (call_id, call):
                self.used.add(made.raw)
                self.skipped += 1
                for inner in {c.within for c in self.rollout.calls if c.within and c.within_raw == made.raw}:
                    self._skip(made.raw, inner)

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
        return failure is not None and (failure.kind not in _ENDS_BY_ITSELF or failure.type == _NOT_SENT)

    @property
    def withheld(self) -> bool:
        """Whether a guardrail of a tool's output ended the rollout: nothing holds that output, so nothing trips now."""
        return self.rollout.failure is not None and self.rollout.failure.type == _TRIPPED

    def missing(self) -> Divergence | None:
        """Return the divergence of a run that ended although there were more recorded calls."""
        unused = self._unused()
        if not unused:
            return None
        first, detail = unused[0], f"{len(unused)} of {counted(len(self.calls), 'recorded model call')} not made"
        agent, step = self._agents.get(first), self._step_before(first)
        change = model_request.diff(model_request.input_items(self._requests[first])[-1:], None)
        return Divergence(what="fewer calls", call=first + 1, agent=agent, step=step, detail=detail, diff=change)

    def _unused(self) -> list[int]:
        return [i for i in range(len(self.calls)) if i not in self.used]

    def _step_before(self, call: int) -> str | None:
        """Return the number of the first step that recorded reply `call` led to; None for one that only answers."""
        for item in self.calls[call].reply.output:
            call_id = getattr(item, "call_id", None)
            if call_id and (step := self._step(call_id, getattr(item, "name", None))):
                return step[0]
        return None

    def _step(self, call_id: str, tool: str | None) -> tuple[str, Step] | None:
        return _find(self.rollout.trajectory.path, call_id, tool)


def _find(path: Sequence[Step], call_id: str, tool: str | None, within: str = "") -> tuple[str, Step] | None:
    for position, step in enumerate(path, 1):
        number = f"{within}{position}"
        if step.call_id == call_id and step.tool_name == tool and step.kind != "approval":
            return number, step
        if inner := _find(step.inner, call_id, tool, f"{number}."):
            return inner
    return None


class _RecordedDecisions:
    """Decides on each call as the recording says. Tools that it says nothing of keep waiting for approval."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._steps = list(approvals(recording.rollout.trajectory.path))
        self._asked = Counter[tuple[str | None, str | None]]()

    def covers(self, tool: str) -> bool:
        return any(step.tool_name == tool for step in self._steps)

    async def decide(self, item: agents.ToolApprovalItem, context: Any) -> Decision:
        """Return the recorded decision on a call. Raises Diverged where there was none."""
        del context
        call = (item.call_id, item.name)
        decisions = [step.tool_output for step in self._steps if (step.call_id, step.tool_name) == call]
        if self._asked[call] >= len(decisions):
            detail = "the call needs approval now, and the recording holds no decision on it"
            raise self._recording.diverge(Divergence(what="ended otherwise", tool=item.name, detail=detail))
        self._asked[call] += 1  # ids of calls may repeat in a rollout
        return Decision.from_words(decisions[self._asked[call] - 1] or "")


class ReplayModel(agents.Model):
    """Answers each request with the recorded reply to it, and takes the place of the tools that the request offers."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._decisions = _RecordedDecisions(recording)

    async def get_response(
        self,
        system_instructions: str | None,
        input: Any,  # noqa: A002 - the SDK's name
        model_settings: agents.ModelSettings,
        tools: list[agents.Tool],
        output_schema: Any,
        handoffs: Any,
        tracing: Any,
        **more: Any,
    ) -> agents.ModelResponse:
        """Return the recorded reply. Raises Diverged, EndOfRecording."""
        del model_settings, tracing, more
        request = model_request.build_request(system_instructions, input, tools, output_schema, handoffs)
        call = await self._recording.answer(request)
        # The SDK runs the tools of the very list that it offers, whoever's agent it is: also those of agents inside
        # handoff() and as_tool(), which nothing else can reach.
        tools[:] = [self._stub(tool, call) for tool in tools]
        return copy.deepcopy(self._recording.calls[call].reply)

    async def stream_response(self, *args: Any, **more: Any) -> AsyncIterator[Any]:
        """Stream the recorded reply, as one event. Raises as `get_response` does."""
        yield completed(await self.get_response(*args, **more))

    def _stub(self, tool: agents.Tool, call: int) -> agents.Tool:
        if not isinstance(tool, agents.FunctionTool):
            return tool if self._recording.live_tools else self._without_hands(tool, call)
        if self._recording.drives_nested if is_agent(tool) else self._recording.live_tools:
            return gated(tool, self._decisions, lambda _: None, lambda _: None)

        async def invoke(context: Any, arguments: str) -> Any:
            del arguments  # they come from the recorded reply
            return await self._recording.output(call, context.tool_call_id, tool.name)

        stub = copy.copy(tool)
        stub.on_invoke_tool = invoke
        if self._decisions.covers(tool.name):
            stub.needs_approval = False  # a refusal's message is among the recorded outputs
        return stub

    def _without_hands(self, tool: Any, call: int) -> agents.Tool:
        """Return a tool that edits, clicks or runs nothing, and gives what it gave; one of the server's as it is."""
        recording, stub = self._recording, copy.copy(tool)
        items = cast("Sequence[Any]", recording.calls[call].reply.output)
        kind = "apply_patch_call" if isinstance(tool, agents.ApplyPatchTool) else "computer_call"
        # the SDK makes them in this order
        ids = iter([str(item.call_id) for item in items if getattr(item, "type", None) == kind])

        async def invoke(context: Any, text: str) -> Any:
            del text
            return await recording.output(call, context.tool_call_id, tool.name)

        async def execute(request: Any) -> Any:
            output = await recording.output(call, request.data.call_id, tool.name)
            is_said = isinstance(output, str) or isinstance(tool, agents.LocalShellTool)
            return output if is_said else agents.ShellResult([*map(_of_command, cast("list[dict[str, Any]]", output))])

        async def edit(_: Any) -> ApplyPatchResult:
            call_id = next(ids, "")
            item = model_request.sent_item([c.request for c in recording.calls], call, call_id)
            if item is None:
                return ApplyPatchResult("completed", await recording.output(call, call_id, tool.name))
            return ApplyPatchResult(item.get("status"), item.get("output"))

        async def screenshot(_: Any) -> str:
            output = await recording.output(call, next(ids, ""), tool.name)
            url: Any = cast("dict[str, Any]", output).get("image_url") if isinstance(output, dict) else output
            return str(url).partition("base64,")[2]

        if isinstance(tool, agents.CustomTool):
            stub.on_invoke_tool = invoke
        elif isinstance(tool, agents.LocalShellTool) or (isinstance(tool, agents.ShellTool) and tool.executor):
            stub.executor = execute
        elif isinstance(tool, agents.ApplyPatchTool):
            stub.editor = SimpleNamespace(create_file=edit, update_file=edit, delete_file=edit)
        elif isinstance(tool, agents.ComputerTool):
            stub.computer = type("RecordedComputer", (agents.AsyncComputer,), _NO_HANDS | {"screenshot": screenshot})()
        return stub


_PARTS = ("text", "image", "file")


def _as_told(output: Any, told: str | None) -> Any:
    """Return a tool's output in the form that the record tells: parts in a list or alone, the SDK's objects or not."""
    as_is, parts = output, cast("list[Any]", output if isinstance(output, list) else [output])
    fields = [cast("dict[str, Any]", part) if isinstance(part, dict) else {} for part in parts]
    if told is None or not all(part.get("type") in _PARTS for part in fields):
        return as_is
    if not told.startswith(("{", "[{")):
        parts = [ValidToolOutputPydanticModelsTypeAdapter.validate_python(part) for part in parts]
    return parts if told.startswith("[") or len(parts) > 1 else parts[0]


async def _does_nothing(*_: Any, **__: Any) -> None:
    """Stand for what a computer would do."""


_NO_HANDS = dict.fromkeys(agents.AsyncComputer.__abstractmethods__, _does_nothing)


def _of_command(sent: dict[str, Any]) -> agents.ShellCommandOutput:
    """Return what a shell said of a command, as a request has it."""
    return agents.ShellCommandOutput(sent["stdout"], sent["stderr"], agents.ShellCallOutcome(**sent["outcome"]))
