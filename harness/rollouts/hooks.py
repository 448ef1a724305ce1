"""The SDK's run hooks and tool error formatter: what only they know of a tool call."""

import copy
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agents import FunctionTool, RunHooks, Tool
from agents.run_config import ToolErrorFormatterArgs
from agents.tool import default_tool_timeout_error_message
from agents.tracing import get_current_span

from harness.rollouts.approval_gate import TimedDecision


class ToolHooks(RunHooks[Any]):
    """Notes what the spans of a rollout's tool calls leave out, by the span's id. Nested runs have no hooks."""

    def __init__(self) -> None:
        self.call_of_span: dict[str, str] = {}
        """Which call a function span answers."""
        self.errors: dict[str, str] = {}
        """What a tool really raised."""
        self.decisions: dict[str, TimedDecision] = {}
        """What was decided on calls that need approval."""
        self.timeout_texts: dict[str, str] = {}
        """What the SDK tells the model if the tool is not done in time."""

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        """Note which call the current function span answers."""
        del agent
        span, call_id = get_current_span(), getattr(context, "tool_call_id", None)
        if span is not None and call_id:
            self.call_of_span[span.span_id] = call_id
            if isinstance(tool, FunctionTool) and tool.timeout_seconds is not None:
                text = default_tool_timeout_error_message(tool_name=tool.name, timeout_seconds=tool.timeout_seconds)
                self.timeout_texts[span.span_id] = text

    def on_decision(self, decision: TimedDecision) -> None:
        """Note what was decided on the call that the current function span is of."""
        if span := get_current_span():
            self.decisions[span.span_id] = decision

    def on_tool_error(self, args: ToolErrorFormatterArgs[Any]) -> str | None:
        """Note what a tool raised. Returns None, so that the SDK's own message goes to the model."""
        if args.error is not None:
            self.note_error(args.error)

    def note_error(self, error: BaseException | str) -> None:
        """Note what went wrong in the tool call that is under way here."""
        if span := get_current_span():
            self.errors[span.span_id] = error if isinstance(error, str) else f"{type(error).__name__}: {error}"

    def with_timeouts_noted(self, tool: Tool) -> Tool:
        """Return a tool that notes its timeouts: a copy, where the tool words them by a function of its own."""
        words = tool.timeout_error_function if isinstance(tool, FunctionTool) else None
        if words is None or isinstance(words, _NotedTimeout):
            return tool
        twin: Any = copy.copy(tool)
        twin.timeout_error_function = _NotedTimeout(words, self.note_error)
        return twin


@dataclass(frozen=True)
class _NotedTimeout:
    """A tool's own words for a timeout, which notes the timeout."""

    words: Callable[..., Any]
    note: Callable[[BaseException], None]

    async def __call__(self, context: Any, error: Exception) -> str:
        self.note(error)
        text = self.words(context, error)
        return await text if inspect.isawaitable(text) else text
