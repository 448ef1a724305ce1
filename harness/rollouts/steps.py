"""From a rollout's spans to its steps. Reads span data only; knows no run, no clock, no archive."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Any, cast

from agents.tracing import Span

from harness.core.records import Step
from harness.rollouts.reply_items import Said, said_in

_PICTURE = re.compile(r"data:(image/[\w.+-]+);base64,([A-Za-z0-9+/=]{64,})")
_MODEL_SPANS = {"generation", "response"}


@dataclass(frozen=True)
class Heard:
    """What the spans alone do not tell: which call a function span answers, and what a tool really raised."""

    call_of_span: Mapping[str, str] = field(default_factory=dict[str, str])
    errors: Mapping[str, BaseException] = field(default_factory=dict[str, BaseException])
    """By call id."""


def steps_of(trace: Sequence[Span[Any]], heard: Heard, *, finished: bool) -> tuple[Step, ...]:
    """Return the steps in order. In a finished run the last text is the answer, and so is no step.

    The steps of an agent used as a tool stand inside that tool's step.
    """
    return _Reading(trace, heard).steps(None, answered=finished)


class _Reading:
    """One trace, by id, and which tool's run each span happened in."""

    def __init__(self, trace: Sequence[Span[Any]], heard: Heard) -> None:
        self._heard = heard
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
        found: list[tuple[str, Step]] = []
        for reply in replies:
            if reply.span_id not in retried:
                answers = answered and reply is replies[-1]
                found += [(reply.started_at or "", s) for s in self._of_reply(reply, answers=answers)]
        found += [(s.started_at or "", self._guardrail(s)) for s in spans if s.span_data.type == "guardrail"]
        return tuple(step for _, step in sorted(found, key=lambda f: f[0]))

    def _of_reply(self, reply: Span[Any], *, answers: bool) -> Iterator[Step]:
        """Yield a reply's steps. What was thought and said goes with the call that it led to.

        What is left after the last call is a step of its own, but for the text of a reply that answers.
        """
        agent, before = agent_around(reply, self._by_id), list[Said]()
        beside = self._under[reply.parent_id]
        functions = [s for s in beside if s.span_data.type == "function"]
        handoffs = [s for s in beside if s.span_data.type == "handoff"]
        for item in said_in(reply.span_data):
            if item.tool:
                yield self._call(item, functions, handoffs, {"reasoning": _joined(before), "agent": agent})
                before = []
            else:
                before.append(item)
        left = [s for s in before if s.reasoning or not answers]
        if left or reply.error:
            yield Step(
                kind="reasoning" if any(s.reasoning for s in left) else "message",
                reasoning=_joined(left),
                agent=agent,
                started_at=_when(reply.started_at),
                duration_s=_seconds(reply),
                error=_error(reply),
            )

    def _call(self, call: Said, functions: list[Span[Any]], handoffs: list[Span[Any]], known: dict[str, Any]) -> Step:
        known |= {"kind": "tool", "tool_name": call.tool, "tool_input": call.arguments, "call_id": call.call_id}
        run = self._run_of(call, functions)
        if call.hosted and run is None:
            told = {"tool_type": "hosted", "tool_output": call.output, "server": call.server, "error": call.error}
            return Step.model_validate(known | told)
        if run is not None:
            functions.remove(run)
            return Step.model_validate(known | self._ran(run, call.call_id))
        if handoffs:
            span = handoffs.pop(0)
            to = span.span_data.to_agent
            told = f"handed over to {to}" if to else None
            return Step.model_validate(known | {"kind": "handoff", "tool_output": told, "error": _error(span)})
        return Step.model_validate(known)

    def _run_of(self, call: Said, functions: Sequence[Span[Any]]) -> Span[Any] | None:
        """Return the span of a call: by its id where that was heard, else by name and arguments, else by name."""
        for span in functions:
            if call.call_id and self._heard.call_of_span.get(span.span_id) == call.call_id:
                return span
        named = [s for s in functions if s.span_data.name == call.tool and s.span_id not in self._heard.call_of_span]
        return next((s for s in named if s.span_data.input == call.arguments), named[0] if named else None)

    def _ran(self, run: Span[Any], call_id: str | None) -> dict[str, Any]:
        inner = self.steps(run.span_id, answered=run.error is None)
        nested = any(s.span_data.type == "task" for s in self._inside.get(run.span_id, ()))
        mcp: Mapping[str, Any] = run.span_data.mcp_data or {}
        server = mcp.get("server")
        raised = self._heard.errors.get(call_id or "")
        return {
            "tool_type": "mcp" if server else "agent" if nested else "function",
            "server": server,
            "inner": inner,
            "tool_output": as_text(run.span_data.output),
            "started_at": _when(run.started_at),
            "error": f"{type(raised).__name__}: {raised}" if raised else _error(run),
            "duration_s": _seconds(run),
        }

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
    return _PICTURE.sub(lambda found: f"({found[1]} of about {len(found[2]) * 3 // 4} bytes)", text)


def _joined(said: Sequence[Said]) -> str | None:
    return "\n".join(s.reasoning or s.text or "" for s in said) or None


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
