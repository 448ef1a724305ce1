"""The model of a replay: it answers from a recording, and puts recorded outputs in the place of tools."""

import copy
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from agents import FunctionTool, Model, ModelResponse, ModelSettings, Tool, ToolApprovalItem
from agents.tool import ToolOriginType, get_function_tool_origin

from harness.core.records import Step
from harness.endpoints.usage import completed
from harness.rollouts.approval_gate import Decision, gated
from harness.rollouts.model_request import build_request
from harness.rollouts.recording import Recording
from harness.rollouts.request_diff import Divergence


class _RecordedDecisions:
    """Decides on each call as the recording says. Tools that it says nothing of keep waiting for approval."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._steps = list(_approvals(recording.rollout.trajectory.path))
        self._asked = Counter[tuple[str | None, str | None]]()

    def covers(self, tool: str) -> bool:
        return any(step.tool_name == tool for step in self._steps)

    async def decide(self, item: ToolApprovalItem, context: Any) -> Decision:
        """Return the recorded decision on a call. Raises Diverged where there was none."""
        del context
        call = (item.call_id, item.name)
        decisions = [step.tool_output for step in self._steps if (step.call_id, step.tool_name) == call]
        if self._asked[call] >= len(decisions):
            detail = "the call needs approval now, and the recording holds no decision on it"
            raise self._recording.diverge(Divergence(what="ended otherwise", tool=item.name, detail=detail))
        self._asked[call] += 1  # ids of calls may repeat in a rollout
        return Decision.from_words(decisions[self._asked[call] - 1] or "")


def _approvals(path: Sequence[Step]) -> Iterator[Step]:
    for step in path:
        if step.kind == "approval":
            yield step
        yield from _approvals(step.inner)


class ReplayModel(Model):
    """Answers each request with the recorded reply to it, and takes the place of the tools that the request offers."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._decisions = _RecordedDecisions(recording)

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
        request = build_request(system_instructions, input, tools, output_schema, handoffs)
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
        origin = get_function_tool_origin(tool)
        is_agent = origin is not None and origin.type is ToolOriginType.AGENT_AS_TOOL
        if self._recording.drives_nested if is_agent else self._recording.live_tools:
            return gated(tool, self._decisions, lambda _: None, lambda _: None)

        async def invoke(context: Any, arguments: str) -> Any:
            del arguments  # they come from the recorded reply
            return await self._recording.output(call, context.tool_call_id, tool.name)

        stub = copy.copy(tool)
        stub.on_invoke_tool = invoke
        if self._decisions.covers(tool.name):
            stub.needs_approval = False  # a refusal's message is among the recorded outputs
        return stub
