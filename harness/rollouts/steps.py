"""From a rollout's spans to its steps. Reads span data only; knows no run, no clock, no archive."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Any, Literal, cast

from agents.tracing import Span

from harness.core.records import Step
from harness.rollouts.reply_items import ReplyItem, items_of_reply

_PICTURE = re.compile(r"data:(image/[\w.+-]+);base64,([A-Za-z0-9+/=]{64,})")
_MODEL_SPANS = {"generation", "response"}


@dataclass(frozen=True)
class ToolNotes:
    """What the spans of tool calls leave out: which call a function span answers, and what a tool really raised."""

    call_of_span: Mapping[str, str] = field(default_factory=dict[str, str])
    errors: Mapping[str, BaseException] = field(default_factory=dict[str, BaseException])
    """By call id."""


def steps_of(trace: Sequence[Span[Any]], notes: ToolNotes, *, finished: bool) -> tuple[Step, ...]:
    """Return the steps in order. The last text of a finished run is its answer, and no step.

    The steps of an agent used as a tool stand inside that tool's step.
    """
    return _Trace(trace, notes).steps(None, answered=finished)


@dataclass(frozen=True)
class _Call:
    """A call in a reply, with the reasoning that led to it and the agent that made it."""

    item: ReplyItem
    reasoning: str | None
    agent: str | None


@dataclass(frozen=True)
class _Result:
    """What became of a call; all None where no span tells."""

    kind: Literal["tool", "handoff"] = "tool"
    tool_type: Literal["function", "hosted", "mcp", "agent"] | None = None
    output: str | None = None
    error: str | None = None
    server: str | None = None
    inner: tuple[Step, ...] = ()
    started_at: datetime | None = None
    duration_s: float | None = None


class _Trace:
    """One trace, by id, and which tool's run each span happened in."""

    def __init__(self, trace: Sequence[Span[Any]], notes: ToolNotes) -> None:
        self._notes = notes
        self._by_id = {s.span_id: s for s in trace}
        self._inside: dict[str | None, list[Span[Any]]] = {}
        self._under: dict[str | None, list[Span[Any]]] = {}
        for span in trace:
            self._inside.setdefault(self._tool_around(span), []).append(span)
            self._under.setdefault(span.parent_id, []).append(span)

    def steps(self, tool: str | None, *, answered: bool) -> tuple[Step, ...]:
        """Return the steps of the run inside a function span, or of the outermost run for None."""
        spans = self._inside.get(tool, [])
        replies = [s for s in spans if s.span_data.type in _MODEL_SPANS]
        retried = {r.span_id for r, later in pairwise(replies) if r.error and r.parent_id == later.parent_id}
        timed: list[tuple[str, Step]] = []
        for reply in replies:
            if reply.span_id not in retried:
                answers = answered and reply is replies[-1]
                timed += [(reply.started_at or "", step) for step in self._of_reply(reply, answers=answers)]
        timed += [(s.started_at or "", self._guardrail(s)) for s in spans if s.span_data.type == "guardrail"]
        return tuple(step for _, step in sorted(timed, key=lambda pair: pair[0]))

    def _of_reply(self, reply: Span[Any], *, answers: bool) -> Iterator[Step]:
        """Yield a reply's steps. Reasoning and text go with the call that they led to.

        Reasoning and text after the last call are a step of their own, but for the text of a reply that answers.
        """
        agent, before = agent_around(reply, self._by_id), list[ReplyItem]()
        siblings = self._under[reply.parent_id]
        functions = [s for s in siblings if s.span_data.type == "function"]
        handoffs = [s for s in siblings if s.span_data.type == "handoff"]
        for item in items_of_reply(reply.span_data):
            if item.tool:
                call = _Call(item, _joined(before), agent)
                yield _step(call, self._result(item, functions, handoffs))
                before = []
            else:
                before.append(item)
        left = [item for item in before if item.reasoning or not answers]
        if left or reply.error:
            yield Step(
                kind="reasoning" if any(item.reasoning for item in left) else "message",
                reasoning=_joined(left),
                agent=agent,
                started_at=_when(reply.started_at),
                duration_s=_seconds(reply),
                error=_error(reply),
            )

    def _result(self, call: ReplyItem, functions: list[Span[Any]], handoffs: list[Span[Any]]) -> _Result:
        """Return what became of a call, and take the span that tells it out of its list."""
        run = self._run_of(call, functions)
        if run is not None:
            functions.remove(run)
            return self._ran(run, call.call_id)
        if call.hosted:
            return _Result(tool_type="hosted", output=call.output, server=call.server, error=call.error)
        if handoffs:
            span = handoffs.pop(0)
            target = span.span_data.to_agent
            return _Result(kind="handoff", output=f"handed over to {target}" if target else None, error=_error(span))
        return _Result()

    def _run_of(self, call: ReplyItem, functions: Sequence[Span[Any]]) -> Span[Any] | None:
        """Return the span of a call: by its id where a hook noted it, else by name and arguments, else by name."""
        noted = self._notes.call_of_span
        for span in functions:
            if call.call_id and noted.get(span.span_id) == call.call_id:
                return span
        named = [s for s in functions if s.span_data.name == call.tool and s.span_id not in noted]
        return next((s for s in named if s.span_data.input == call.arguments), named[0] if named else None)

    def _ran(self, run: Span[Any], call_id: str | None) -> _Result:
        nested = any(s.span_data.type == "task" for s in self._inside.get(run.span_id, ()))
        mcp: Mapping[str, Any] = run.span_data.mcp_data or {}
        server = mcp.get("server")
        raised = self._notes.errors.get(call_id or "")
        return _Result(
            tool_type="mcp" if server else "agent" if nested else "function",
            output=as_text(run.span_data.output),
            error=f"{type(raised).__name__}: {raised}" if raised else _error(run),
            server=server,
            inner=self.steps(run.span_id, answered=run.error is None),
            started_at=_when(run.started_at),
            duration_s=_seconds(run),
        )

    def _guardrail(self, span: Span[Any]) -> Step:
        verdict = "tripped" if span.span_data.triggered else "passed"
        return Step(
            kind="guardrail",
            tool_name=span.span_data.name,
            tool_output=verdict,
            agent=agent_around(span, self._by_id),
            started_at=_when(span.started_at),
            duration_s=_seconds(span),
            error=_error(span),
        )

    def _tool_around(self, span: Span[Any]) -> str | None:
        at = self._by_id.get(span.parent_id or "")
        while at is not None and at.span_data.type != "function":
            at = self._by_id.get(at.parent_id or "")
        return at.span_id if at is not None else None


def _step(call: _Call, result: _Result) -> Step:
    return Step(
        kind=result.kind,
        reasoning=call.reasoning,
        tool_name=call.item.tool,
        tool_input=call.item.arguments,
        tool_output=result.output,
        tool_type=result.tool_type,
        agent=call.agent,
        call_id=call.item.call_id,
        error=result.error,
        server=result.server,
        inner=result.inner,
        started_at=result.started_at,
        duration_s=result.duration_s,
    )


def agent_around(span: Span[Any], by_id: Mapping[str, Span[Any]]) -> str | None:
    """Return the name of the agent that a span happened in; `by_id` finds the trace's spans."""
    at: Span[Any] | None = span
    while at is not None and at.span_data.type != "agent":
        at = by_id.get(at.parent_id or "")
    return at.span_data.name if at is not None else None


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


def _error(span: Span[Any]) -> str | None:
    if span.error is None:
        return None
    data: Mapping[str, Any] = span.error.get("data") or {}
    detail = data.get("error")
    return f"{span.error['message']}: {detail}" if detail else span.error["message"]


def _when(stamp: str | None) -> datetime | None:
    return datetime.fromisoformat(stamp) if stamp else None


def _seconds(span: Span[Any]) -> float | None:
    began, ended = _when(span.started_at), _when(span.ended_at)
    return (ended - began).total_seconds() if began and ended else None
