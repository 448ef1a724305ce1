"""The SDK's run hooks and tool error formatter: what only they tell of a tool call."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agents import RunHooks
from agents.run_config import ToolErrorFormatterArgs
from agents.tracing import get_current_span

from harness.rollouts.approvals import TimedDecision


@dataclass(frozen=True)
class ToolNotes:
    """What the spans of tool calls leave out: which call a function span answers, and what a tool really raised."""

    call_of_span: Mapping[str, str] = field(default_factory=dict[str, str])
    errors: Mapping[str, str] = field(default_factory=dict[str, str])
    """By the function span's id."""
    decisions: Mapping[str, TimedDecision] = field(default_factory=dict[str, TimedDecision])
    """What was decided on calls that need approval, by the function span's id."""


class ToolHooks(RunHooks[Any]):
    """Notes the tool calls of a rollout and its handoff targets. The SDK gives nested runs no hooks."""

    def __init__(self) -> None:
        """Note nothing yet."""
        self._calls: dict[str, str] = {}
        self._errors: dict[str, str] = {}
        self._decisions: dict[str, TimedDecision] = {}

    @property
    def notes(self) -> ToolNotes:
        """What was noted so far."""
        return ToolNotes(self._calls, self._errors, self._decisions)

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        """Note which call the current function span answers."""
        del agent, tool
        span, call_id = get_current_span(), getattr(context, "tool_call_id", None)
        if span is not None and call_id:
            self._calls[span.span_id] = call_id

    def on_decision(self, decision: TimedDecision) -> None:
        """Note what was decided on the call that the current function span is of."""
        span = get_current_span()
        if span is not None:
            self._decisions[span.span_id] = decision

    def on_tool_error(self, args: ToolErrorFormatterArgs[Any]) -> str | None:
        """Note what a tool raised. Returns None, so that the SDK's own message goes to the model."""
        span = get_current_span()
        if args.error is not None and span is not None:
            self._errors[span.span_id] = f"{type(args.error).__name__}: {args.error}"
        return None
