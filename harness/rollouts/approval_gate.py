"""What happens around a tool call: who approves it, and what the SDK's run hooks alone know of it.

The SDK would end the run at such a call, to be resumed with the answer. Deciding within the call instead keeps a
rollout one run, with one trace, and its turns and tokens are counted once, however deep the agent that calls.
"""

import copy
import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from agents import Agent, CustomTool, FunctionTool, RunHooks, Tool, ToolApprovalItem
from agents.run_config import ToolErrorFormatterArgs
from agents.tool import default_tool_timeout_error_message, invoke_function_tool
from agents.tracing import Span, get_current_span, get_trace_provider
from agents.util._approvals import evaluate_function_tool_approval  # the SDK's own reading of `needs_approval`

from harness.core.errors import UsageError, option, quoted
from harness.core.records import Step
from harness.rollouts.agent_code import ends_rollout, reads_no_context
from harness.rollouts.graph import in_sight

ALL, NONE = "all", "none"
APPROVED, REFUSED = "approved", "refused"
_WAYS = "pass {} (or `all`, or `none`), or define approve(item, context) in the agent's file"
"""How a user says who decides."""
SDK_REFUSAL = "Tool execution was not approved."
"""What the SDK tells a model of a refusal without a reason."""


@dataclass(frozen=True)
class Decision:
    """Whether a tool call may run; `reason` is that of a refusal."""

    approved: bool
    reason: str | None = None

    @classmethod
    def from_words(cls, words: str) -> "Decision":
        """Read what a step holds."""
        return cls(words == APPROVED, words.removeprefix(REFUSED).removeprefix(": ") or None)


@dataclass(frozen=True)
class TimedDecision:
    """A decision with the times between which it was made."""

    decision: Decision
    began: datetime
    ended: datetime

    def step(self, *, tool: str | None, agent: str | None, call_id: str | None) -> Step:
        """Return the decision on a call as a step."""
        reason = self.decision.reason
        refused = f"{REFUSED}: {reason}" if reason else REFUSED
        return Step(
            kind="approval",
            tool_name=tool,
            tool_output=APPROVED if self.decision.approved else refused,
            agent=agent,
            call_id=call_id,
            started_at=self.began,
            duration_s=(self.ended - self.began).total_seconds(),
        )


class Approver(Protocol):
    """Decides on tool calls that need approval."""

    def covers(self, tool: str) -> bool:
        """Return whether calls of the tool of this name are decided on at all."""
        ...

    async def decide(self, item: ToolApprovalItem, context: Any) -> Decision:
        """Decide on a call. Whatever this raises ends the rollout."""
        ...


@dataclass(frozen=True)
class ChosenApprover:
    """Decides as --approve says, and where that says nothing of a tool, as `approve` of the agent's file does."""

    flags: Sequence[str] = ()
    """The values of --approve: names of tools, or `all`, or `none`."""
    approve: Callable[..., bool | str | Awaitable[bool | str]] | None = None

    def __post_init__(self) -> None:
        """Raise UsageError where `all` or `none` does not stand alone."""
        if len(set(self.flags)) > 1 and {ALL, NONE} & {*self.flags}:
            raise UsageError(f"{option('approve')} takes names of tools, or `all` alone, or `none` alone")

    def covers(self, tool: str) -> bool:
        """Return whether the flag or the agent's file says what becomes of calls of the tool."""
        return self.approve is not None or bool({ALL, NONE, tool} & {*self.flags})

    async def decide(self, item: ToolApprovalItem, context: Any) -> Decision:
        """Decide on a call. Raises what `approve` raises, and TypeError where it gives neither bool nor str."""
        if self.approve is None or {ALL, NONE, item.name} & {*self.flags}:
            return Decision(NONE not in self.flags)
        answer: Any = self.approve(item, context)
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, str):
            return Decision(approved=False, reason=answer or None)
        if not isinstance(answer, bool):
            answers = "True, False, or a str with the reason of a refusal"
            raise TypeError(f"approve(item, context) must give {answers}, not {type(answer).__name__}")
        return Decision(answer)


def check_approvals(agent: Agent[Any], approver: Approver) -> None:
    """Raise UsageError where an agent in sight has a tool that always needs approval, and nobody decides on it."""
    asking = [(a, t) for a in in_sight(agent) for t in a.tools if getattr(t, "needs_approval", False) is True]
    for each, tool in asking:
        what = f"agent {each.name!r} has the tool {quoted(tool.name)}, which needs approval, and nobody decides on it"
        if isinstance(tool, FunctionTool) and not approver.covers(tool.name):
            raise UsageError(f"{what}: {_WAYS.format(option('approve', 'NAME'))}")
        if not isinstance(tool, FunctionTool) and getattr(tool, "on_approval", None) is None:
            raise UsageError(f"{what}: give the tool an `on_approval`")


def tools_in_sight(agent: Agent[Any]) -> frozenset[str] | None:
    """Return the names of the tools of an agent and all in sight; None where MCP servers bring others."""
    agents = in_sight(agent)
    brings_more = any(each.mcp_servers for each in agents)
    return None if brings_more else frozenset(tool.name for each in agents for tool in each.tools)


def unasked(names: Iterable[str], paths: Iterable[Sequence[Step]]) -> list[str]:
    """Return those of the values of --approve that name a tool of which no call in any path needed approval."""
    left, paths = set(names) - {ALL, NONE}, iter(paths)
    while left and (path := next(paths, None)) is not None:  # each is read from the archive when it is asked for
        left -= {step.tool_name for step in approvals(path)}
    return sorted(left)


def approvals(path: Sequence[Step]) -> Iterator[Step]:
    """Yield the decisions in a path, and in the runs inside of its tools."""
    for step in path:
        if step.kind == "approval":
            yield step
        yield from approvals(step.inner)


def waits_for(interruptions: Iterable[Any]) -> str:
    """Return the message of a rollout that met tool calls which nobody decides on."""
    names = ", ".join(str(getattr(i, "name", None) or "a tool") for i in interruptions)
    return f"waits for approval of {names}, and nobody decides on that: {_WAYS.format('--approve NAME')}"


def gated(
    tool: Tool, approver: Approver, note: Callable[[TimedDecision], None], on_error: Callable[[BaseException], None]
) -> Tool:
    """Return a tool with calls that `approver` decides on, telling `note` and `on_error`; the same if none are."""
    if not isinstance(tool, FunctionTool) or tool.needs_approval is False or not approver.covers(tool.name):
        return tool

    async def invoke(context: Any, arguments: str) -> Any:
        evaluation = await evaluate_function_tool_approval(tool, context, arguments, context.tool_call_id)
        if evaluation.outcome != "invoke":
            item = ToolApprovalItem(agent=context.agent, raw_item=context.tool_call, tool_name=tool.name)
            began = _now()
            try:
                decision = await approver.decide(item, context.context)
            except BaseException as exc:
                if ends_rollout(exc):
                    on_error(exc)
                raise
            note(TimedDecision(decision, began, _now()))
            if not decision.approved:
                return decision.reason or SDK_REFUSAL
        return await invoke_function_tool(function_tool=tool, context=context, arguments=arguments)

    gate = copy.copy(tool)
    # The time that a tool may take is that of the tool, not of the approver.
    gate.on_invoke_tool, gate.needs_approval, gate.timeout_seconds = invoke, False, None
    return gate


def _now() -> datetime:
    return datetime.fromisoformat(get_trace_provider().time_iso())


@dataclass(frozen=True)
class ToolOutput:
    """What a tool call gave, as the next request has it, and the times between which it ran."""

    output: Any
    error: str | None
    started_at: str
    ended_at: str
    decision: TimedDecision | None = None
    """What had been decided on the call, where it needed approval; of a branch alone."""


def _own_call(context: Any, tool: Any) -> str | None:
    """Return the id of the call that a hook is about. Of other tools' calls the context is that of the call around."""
    return getattr(context, "tool_call_id", None) if isinstance(tool, FunctionTool | CustomTool) else None


class ToolHooks(RunHooks[Any]):
    """Notes what the spans of a rollout's tool calls leave out, by the span's id."""

    def __init__(self) -> None:
        self.call_of_span: dict[str, str] = {}
        """Which call a function span answers."""
        self.errors: dict[str, str] = {}
        """What a tool really raised."""
        self.decisions: dict[str, TimedDecision] = {}
        """What was decided on calls that need approval."""
        self.read_no_context = False
        """Whether a tool raised because there is no context."""
        self.timeout_texts: dict[str, str] = {}
        """What the SDK tells the model if the tool is not done in time."""
        self.given_again: dict[str, ToolOutput] = {}
        """The outputs of calls that ran in an attempt before, and not in this one."""
        self.began: Callable[[Span[Any]], None] = lambda _: None
        self.ended: Callable[[Span[Any], str, Tool, Any], None] = lambda _span, _id, _tool, _out: None
        """Called with the function span of each call, and at its end with the call's id, the tool and the output."""

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        """Note which call the current function span answers."""
        del agent
        span, call_id = get_current_span(), _own_call(context, tool)
        if span is not None and call_id:
            self.call_of_span[span.span_id] = call_id
            self.began(span)
            if isinstance(tool, FunctionTool) and tool.timeout_seconds is not None:
                text = default_tool_timeout_error_message(tool_name=tool.name, timeout_seconds=tool.timeout_seconds)
                self.timeout_texts[span.span_id] = text

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
        """Note what the current function span's call gave."""
        del agent
        span, call_id = get_current_span(), _own_call(context, tool)
        if span is not None and call_id:
            self.ended(span, call_id, tool, result)

    def note_given_again(self, output: ToolOutput) -> None:
        """Note that the tool call that is under way here does not run, but gives what it gave before."""
        if span := get_current_span():
            self.given_again[span.span_id] = output
            if output.decision:
                self.decisions[span.span_id] = output.decision
            if output.error:
                self.errors[span.span_id] = output.error

    def on_decision(self, decision: TimedDecision) -> None:
        """Note what was decided on the call that the current function span is of."""
        if span := get_current_span():
            self.decisions[span.span_id] = decision

    def on_tool_error(self, args: ToolErrorFormatterArgs[Any]) -> str | None:
        """Note what a tool raised. Returns None, so that the SDK's own message goes to the model."""
        if args.error is not None:
            self.read_no_context = self.read_no_context or reads_no_context(args.error)
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
