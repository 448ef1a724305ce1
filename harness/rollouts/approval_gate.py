"""Tools that need approval, as a rollout's own runs see them: each call is decided on where it would run.

The SDK would end the run at such a call, to be resumed with the answer. Deciding within the call instead keeps a
rollout one run, with one trace, and its turns and tokens are counted once, however deep the agent that calls.
"""

import copy
from collections.abc import Callable
from datetime import datetime
from typing import Any

from agents import FunctionTool, Tool, ToolApprovalItem
from agents.tool import invoke_function_tool
from agents.tracing import get_trace_provider
from agents.util._approvals import evaluate_function_tool_approval  # the SDK's own reading of `needs_approval`

from harness.rollouts.approvals import Approver, TimedDecision

Note = Callable[[TimedDecision], None]


def put_gates(tools: list[Tool], approver: Approver, note: Note, on_error: Callable[[Exception], None]) -> None:
    """Let `approver` decide on the calls of all tools in the list that it covers. The SDK runs the tools of that list.

    `note` hears of each decision, within the span of the tool call; `on_error` of what the approver raised.
    """
    tools[:] = [gated(tool, approver, note, on_error) for tool in tools]


def gated(tool: Tool, approver: Approver, note: Note, on_error: Callable[[Exception], None]) -> Tool:
    """Return a tool with calls that `approver` decides on; the same tool where they need no decision, or get none."""
    if not isinstance(tool, FunctionTool) or tool.needs_approval is False or not approver.covers(tool.name):
        return tool

    async def invoke(context: Any, arguments: str) -> Any:
        evaluation = await evaluate_function_tool_approval(tool, context, arguments, context.tool_call_id)
        if evaluation.outcome != "invoke":
            item = ToolApprovalItem(agent=context.agent, raw_item=context.tool_call, tool_name=tool.name)
            began = _now()
            try:
                decision = await approver.decide(item, context.context)
            except Exception as exc:
                on_error(exc)
                raise
            note(TimedDecision(decision, began, _now()))
            if not decision.approved:
                return decision.message
        return await invoke_function_tool(function_tool=tool, context=context, arguments=arguments)

    gate = copy.copy(tool)
    # The time that a tool may take is that of the tool, not of the approver.
    gate.on_invoke_tool, gate.needs_approval, gate.timeout_seconds = invoke, False, None
    return gate


def _now() -> datetime:
    """Return the time as spans have it."""
    return datetime.fromisoformat(get_trace_provider().time_iso())
