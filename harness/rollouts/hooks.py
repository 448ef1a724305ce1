"""The SDK's run hooks and tool error formatter: what only they tell of a tool call."""

from typing import Any

from agents import RunHooks
from agents.run_config import ToolErrorFormatterArgs
from agents.tracing import get_current_span

from harness.rollouts.steps import ToolNotes


class ToolHooks(RunHooks[Any]):
    """Notes the tool calls of a rollout and its handoff targets. The SDK gives nested runs no hooks."""

    def __init__(self) -> None:
        """Note nothing yet."""
        self._calls: dict[str, str] = {}
        self._errors: dict[str, BaseException] = {}

    @property
    def notes(self) -> ToolNotes:
        """What was noted so far."""
        return ToolNotes(self._calls, self._errors)

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        """Note which call the current function span answers."""
        del agent, tool
        span, call_id = get_current_span(), getattr(context, "tool_call_id", None)
        if span is not None and call_id:
            self._calls[span.span_id] = call_id

    def on_tool_error(self, args: ToolErrorFormatterArgs[Any]) -> str | None:
        """Note what a tool raised. Returns None, so that the SDK's own message goes to the model."""
        if args.error is not None:
            self._errors[args.call_id] = args.error
        return None
