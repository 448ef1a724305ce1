"""From a rollout's spans and model calls to its steps. Knows no run, no clock, no archive."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import pairwise
from typing import Any, cast

from agents.tracing import Span

from harness.core.records import Step
from harness.rollouts.approval_gate import ToolHooks, ToolOutput
from harness.rollouts.model_request import ReplyItem, items_of_output, items_of_reply, sent_output
from harness.rollouts.recorder import RecordedCall

MODEL_SPANS = {"generation", "response"}


@dataclass(frozen=True)
class WitnessedCall:
    """One model call. At least one of `span` and `recorded` is there."""

    span: Span[Any] | None
    recorded: RecordedCall | None

    @property
    def parent(self) -> str | None:
        """The span that the call was made under: its turn's."""
        if self.recorded:
            return self.recorded.parent_span
        return self.span.parent_id if self.span else None

    @property
    def started_at(self) -> str | None:
        """When the call began, as spans have it."""
        return self._timed.started_at

    @property
    def ended_at(self) -> str | None:
        """When the call ended."""
        return self._timed.ended_at

    @property
    def duration_s(self) -> float | None:
        """How long the call took, in seconds; None where it did not end."""
        return _seconds(self)

    @property
    def _timed(self) -> Any:
        return self.recorded if self.recorded and self.recorded.is_kept else self.span or self.recorded

    @property
    def error(self) -> str | None:
        """What the call ended in, where there was no reply."""
        if self.span:
            return span_error(self.span)
        error = self.recorded.error if self.recorded else None
        return None if error is None else f"{type(error).__name__}: {error}"

    def items(self) -> Iterator[ReplyItem]:
        """Yield the items of the reply: from the span, or as recorded where the span holds none."""
        data: Any = self.span.span_data if self.span else None
        if data and (data.response if data.type == "response" else data.output) is not None:
            yield from items_of_reply(data)
        elif self.recorded and self.recorded.response:
            yield from items_of_output(self.recorded.response.output)


def witnessed_calls(spans: Sequence[Span[Any]], recorded: Sequence[RecordedCall]) -> list[WitnessedCall]:
    """Return the calls in the order they began: each span with its recorded call, by the span that both stand under."""
    unmatched = list(recorded)
    model_spans = [s for s in spans if s.span_data.type in MODEL_SPANS]
    matched = {s.span_id: _taken(unmatched, {s.parent_id}) for s in model_spans}
    if unmatched:
        by_id = {s.span_id: s for s in spans}
        for span in model_spans:  # a Model of the agent's own may put spans between the turn and the call
            matched[span.span_id] = matched[span.span_id] or _taken(unmatched, set(spans_around(span.parent_id, by_id)))
    replies = [WitnessedCall(s, matched[s.span_id]) for s in model_spans]
    if unmatched:
        replies += [WitnessedCall(None, call) for call in unmatched]
        replies.sort(key=lambda r: r.started_at or "")
    return replies


def span_error(span: Span[Any]) -> str | None:
    """Return what a span says that went wrong."""
    if span.error is None:
        return None
    data: Mapping[str, Any] = span.error.get("data") or {}
    detail = data.get("error")
    return f"{span.error['message']}: {detail}" if detail else span.error["message"]


def _taken(unmatched: list[RecordedCall], parents: set[str | None]) -> RecordedCall | None:
    call = next((c for c in unmatched if c.parent_span in parents), None)
    if call:
        unmatched.remove(call)
    return call


def spans_around(at: str | None, by_id: Mapping[str, Span[Any]]) -> Iterator[str]:
    """Yield the id of a span, and of all that it happened in, the innermost first."""
    while at:
        yield at
        at = by_id[at].parent_id if at in by_id else None


_PICTURE = re.compile(r"data:(image/[\w.+-]+);base64,([A-Za-z0-9+/=]{64,})")
_SEVERAL = "Multiple handoffs requested"
"""What the SDK notes as an error of the one handoff that it executes."""
_IGNORED = "Multiple handoffs detected, ignoring this one."
"""What the SDK answers a handoff with that is not the first of its reply."""


def read_steps(
    trace: Sequence[Span[Any]], replies: Sequence[WitnessedCall], notes: ToolHooks, *, finished: bool
) -> tuple[Step, ...]:
    """Return the steps, an inner run's inside its tool's. The last text of a finished run is its answer, no step."""
    return _Trace(trace, replies, notes).steps(None, answered=finished)


_MadeStep = Callable[..., Step]
"""Makes the step of a call from what became of the call."""


@dataclass
class _Beside:
    """The spans beside a reply that say what became of its calls; each is taken by the call that it is of."""

    functions: list[Span[Any]]
    handoffs: list[Span[Any]]
    handed_over: bool = False


class _Trace:
    """One trace, by id, and which tool's run each span and each model call happened in."""

    def __init__(self, trace: Sequence[Span[Any]], replies: Sequence[WitnessedCall], notes: ToolHooks) -> None:
        self._notes = notes
        self._by_id = {s.span_id: s for s in trace}
        self._inside: dict[str | None, list[Span[Any]]] = {}
        self._under: dict[str | None, list[Span[Any]]] = {}
        self._replies: dict[str | None, list[WitnessedCall]] = {}
        for span in trace:
            tool = span_around(span.parent_id, self._by_id)
            self._inside.setdefault(tool and tool.span_id, []).append(span)
            self._under.setdefault(span.parent_id, []).append(span)
        for reply in replies:
            tool = span_around(reply.parent, self._by_id)
            self._replies.setdefault(tool and tool.span_id, []).append(reply)
        self._calls = [r.recorded for r in replies if r.recorded]

    def steps(self, tool: str | None, *, answered: bool) -> tuple[Step, ...]:
        """Return the steps of the run inside a function span, or of the outermost run for None."""
        spans, replies = self._inside.get(tool, []), self._replies.get(tool, [])
        retried = [r for r, later in pairwise(replies) if r.error and r.parent == later.parent]
        timed: list[tuple[str, Step]] = []
        for reply in replies:
            if not any(reply is r for r in retried):
                answers = answered and reply is replies[-1]
                timed += [(reply.started_at or "", step) for step in self._of_reply(reply, answers=answers)]
        for span in (s for s in spans if s.span_data.type == "guardrail"):
            step = Step(
                kind="guardrail",
                tool_name=span.span_data.name,
                tool_output="tripped" if span.span_data.triggered else "passed",
                agent=agent_around(span.span_id, self._by_id),
                started_at=when(span.started_at),
                duration_s=_seconds(span),
                error=span_error(span),
            )
            timed.append((span.started_at or "", step))
        return tuple(step for _, step in sorted(timed, key=lambda pair: pair[0]))

    def _of_reply(self, reply: WitnessedCall, *, answers: bool) -> Iterator[Step]:
        """Yield a reply's steps. Reasoning and text go with the call they led to; else they answer, or are a step."""
        agent, before = agent_around(reply.parent, self._by_id), list[ReplyItem]()
        siblings = self._under.get(reply.parent, []) if reply.parent else []
        functions = [s for s in siblings if s.span_data.type == "function"]
        beside = _Beside(functions, [s for s in siblings if s.span_data.type == "handoff"])
        for item in reply.items():
            if not item.tool:
                before.append(item)
                continue
            called = {"tool_name": item.tool, "tool_input": item.arguments, "call_id": item.call_id}
            made = partial(Step, reasoning=_joined(before), agent=agent, **called)
            run = self._find_run(item, beside.functions)
            if run is None:
                yield self._without_run(item, reply, beside, made)
            else:
                beside.functions.remove(run)
                if decision := self._notes.decisions.get(run.span_id):
                    yield decision.step(tool=item.tool, agent=agent, call_id=item.call_id)
                yield self._ran(run, item, reply, made)
            before = []
        left = [item for item in before if item.reasoning or not answers]
        if left or reply.error:
            yield Step(
                kind="reasoning" if any(item.reasoning for item in left) else "message",
                reasoning=_joined(left),
                agent=agent,
                started_at=when(reply.started_at),
                duration_s=_seconds(reply),
                error=reply.error,
            )

    def _without_run(self, call: ReplyItem, reply: WitnessedCall, beside: _Beside, made: _MadeStep) -> Step:
        """Return the step of a call without a function span. Of a reply's handoffs the SDK executes the first."""
        if call.hosted:
            return made(kind="tool", tool_type="hosted", tool_output=call.output, server=call.server, error=call.error)
        if reply.recorded is None:
            hands_over = bool(beside.handoffs)
        else:
            hands_over = any(h["name"] == call.tool for h in reply.recorded.request["handoffs"])
        if not hands_over:
            return made(kind="tool", tool_output=self._sent(call, reply))
        if not beside.handoffs:
            ignored = _IGNORED if beside.handed_over else None
            return made(kind="handoff", tool_output=self._sent(call, reply) or ignored)
        span, beside.handed_over = beside.handoffs.pop(0), True
        error = None if (span.error or {}).get("message") == _SEVERAL else span_error(span)
        target = span.span_data.to_agent
        return made(kind="handoff", tool_output=f"handed over to {target}" if target else None, error=error)

    def _sent(self, call: ReplyItem, reply: WitnessedCall) -> str | None:
        """Return a call's output as the model was sent it; None where no request went on from the reply."""
        if reply.recorded is None:
            return None
        at = next(i for i, c in enumerate(self._calls) if c is reply.recorded)
        return as_text(sent_output([c.request for c in self._calls], at, call.call_id))

    def _find_run(self, call: ReplyItem, functions: Sequence[Span[Any]]) -> Span[Any] | None:
        """Return the span of a call: by its id where a hook noted it, else by name and arguments, else by name."""
        noted = self._notes.call_of_span
        for span in functions:
            if call.call_id and noted.get(span.span_id) == call.call_id:
                return span
        named = [s for s in functions if s.span_data.name == call.tool and s.span_id not in noted]
        return next((s for s in named if s.span_data.input == call.arguments), named[0] if named else None)

    def _ran(self, run: Span[Any], call: ReplyItem, reply: WitnessedCall, made: _MadeStep) -> Step:
        nested = any(s.span_data.type == "task" for s in self._inside.get(run.span_id, ()))
        mcp: Mapping[str, Any] = run.span_data.mcp_data or {}
        server = mcp.get("server")
        output = as_text(run.span_data.output)
        output = self._sent(call, reply) if output is None else output
        timed = self._notes.given_again.get(run.span_id, run)
        return made(
            kind="tool",
            tool_type="mcp" if server else "agent" if nested else "function",
            tool_output=output,
            error=self._run_error(run, output),
            server=server,
            inner=self.steps(run.span_id, answered=run.error is None),
            started_at=when(timed.started_at),
            duration_s=_seconds(timed),
        )

    def _run_error(self, run: Span[Any], output: str | None) -> str | None:
        """Return what went wrong in a tool's run, also where the SDK notes no error on the span."""
        if error := self._notes.errors.get(run.span_id) or span_error(run):
            return error
        if output is not None:
            late = output == self._notes.timeout_texts.get(run.span_id)
            return f"ToolTimeoutError: {output}" if late else None
        siblings = (s for s in self._under.get(run.parent_id, ()) if s.span_data.type == "function")
        raised = next((s.span_data.name for s in siblings if s is not run and s.error), None)
        return f"cancelled, because the tool {raised!r} beside it raised" if raised else None


def agent_around(span_id: str | None, by_id: Mapping[str, Span[Any]]) -> str | None:
    """Return the name of the agent that a span happened in, or is of; `by_id` finds the trace's spans."""
    agent = span_around(span_id, by_id, "agent")
    return agent.span_data.name if agent else None


def span_around(span_id: str | None, by_id: Mapping[str, Span[Any]], kind: str = "function") -> Span[Any] | None:
    """Return the span of the tool call, or of another kind, that a span happened in, or is."""
    at = by_id.get(span_id or "")
    while at is not None and at.span_data.type != kind:
        at = by_id.get(at.parent_id or "")
    return at


def as_text(value: Any) -> str | None:
    """Return a tool's output as the model saw it: the SDK passes text parts by their text, other objects by str().

    A picture is named with its size: the picture itself is in the raw calls, and no judge of text could read it.
    """
    if value is None:
        return None
    part = cast("dict[str, Any]", value if isinstance(value, dict) else {})
    text = str(part["text"]) if part.keys() >= {"type", "text"} else str(cast("Any", value))
    return _PICTURE.sub(lambda match: f"({match[1]} of about {len(match[2]) * 3 // 4} bytes)", text)


def _joined(items: Sequence[ReplyItem]) -> str | None:
    return "\n".join(item.reasoning or item.text or "" for item in items) or None


def when(stamp: str | None) -> datetime | None:
    """Return a time that a span tells."""
    return datetime.fromisoformat(stamp) if stamp else None


def _seconds(timed: Span[Any] | WitnessedCall | ToolOutput) -> float | None:
    began, ended = when(timed.started_at), when(timed.ended_at)
    return (ended - began).total_seconds() if began and ended else None
