"""From a rollout's spans to its steps. Reads span data only; knows no run, no clock, no archive."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

from agents.tracing import Span

from harness.records import Step

_THINK = re.compile(r"^\s*<think>(.*?)</think>\s*", re.DOTALL)
_MODEL_SPANS = {"generation", "response"}
_HOSTED_INPUT = ("action", "queries", "code", "arguments")
_HOSTED_OUTPUT = ("results", "outputs", "output")


@dataclass(frozen=True)
class Said:
    """One item of a model's reply, whichever API it came by."""

    reasoning: str | None = None
    text: str | None = None
    call_id: str | None = None
    tool: str | None = None
    arguments: str | None = None
    hosted: bool = False
    output: str | None = None


@dataclass
class Spans:
    """The spans of one trace, by id and by parent."""

    all: Sequence[Span[Any]]
    by_id: dict[str, Span[Any]] = field(init=False)

    def __post_init__(self) -> None:
        """Index by id."""
        self.by_id = {s.span_id: s for s in self.all}

    def kind(self, *names: str) -> list[Span[Any]]:
        """Return the spans of these kinds, in the order they began."""
        return [s for s in self.all if s.span_data.type in names]

    def children(self, parent_id: str | None, kind: str) -> list[Span[Any]]:
        """Return a span's children of one kind, in the order they began."""
        return [s for s in self.kind(kind) if s.parent_id == parent_id]

    def agent(self, span: Span[Any]) -> str | None:
        """Return the name of the agent that a span belongs to."""
        at: Span[Any] | None = span
        while at is not None and at.span_data.type != "agent":
            at = self.by_id.get(at.parent_id or "")
        return at.span_data.name if at is not None else None

    def nested(self, span: Span[Any]) -> bool:
        """Tell whether a run of its own happened under a span: an agent used as a tool."""
        return any(s.parent_id == span.span_id for s in self.kind("task", "agent"))


def split_think(text: str) -> tuple[str | None, str]:
    """Return (reasoning, rest) of a text that opens with a `<think>` block, else (None, text)."""
    found = _THINK.match(text)
    return (found[1].strip(), text[found.end() :]) if found else (None, text)


def steps_of(trace: Sequence[Span[Any]], *, finished: bool) -> tuple[Step, ...]:
    """Return the steps in order. In a finished run the last text is the answer, and so is no step."""
    spans = Spans(trace)
    replies = spans.kind(*_MODEL_SPANS)
    steps: list[tuple[str, Step]] = []
    for reply in replies:
        last = finished and reply is _last_top_level(spans, replies)
        steps += [(reply.started_at or "", s) for s in _reply_steps(spans, reply, answers=last)]
    steps += [(g.started_at or "", _guardrail_step(spans, g)) for g in spans.kind("guardrail")]
    return tuple(step for _, step in sorted(steps, key=lambda s: s[0]))


def _last_top_level(spans: Spans, replies: Sequence[Span[Any]]) -> Span[Any]:
    """Return the reply that gave the final output: the last one of the outermost run."""

    def depth(span: Span[Any]) -> int:
        count, at = 0, spans.by_id.get(span.parent_id or "")
        while at is not None:
            count, at = count + (at.span_data.type == "task"), spans.by_id.get(at.parent_id or "")
        return count

    shallowest = min(depth(r) for r in replies)
    return [r for r in replies if depth(r) == shallowest][-1]


def _reply_steps(spans: Spans, reply: Span[Any], *, answers: bool) -> Iterator[Step]:
    """Yield a reply's steps. What was thought and said goes with the call that it led to.

    What is left after the last call is a step of its own, but for the text of a reply that answers: that is the answer.
    """
    agent, runs = spans.agent(reply), _Runs(spans, reply)
    before: list[Said] = []
    for item in _said(reply):
        if item.tool:
            yield _call_step(spans, item, runs, _joined(before), agent)
            before = []
        else:
            before.append(item)
    left = [s for s in before if s.reasoning or not answers]
    if left or reply.error:
        yield Step(
            kind="reasoning" if any(s.reasoning for s in left) else "message", reasoning=_joined(left), agent=agent,
            started_at=_when(reply.started_at), duration_s=_seconds(reply), error=_error(reply),
        )  # fmt: skip


def _joined(said: Sequence[Said]) -> str | None:
    return "\n".join(s.reasoning or s.text or "" for s in said) or None


class _Runs:
    """The function and handoff spans that answer one reply's calls, each given out once."""

    def __init__(self, spans: Spans, reply: Span[Any]) -> None:
        self._functions = spans.children(reply.parent_id, "function")
        self.handoffs = spans.children(reply.parent_id, "handoff")

    def take(self, call: Said) -> Span[Any] | None:
        """Return the run of a call: the first not yet taken of that name and, if any fits, those arguments."""
        named = [s for s in self._functions if s.span_data.name == call.tool]
        found = next((s for s in named if s.span_data.input == call.arguments), named[0] if named else None)
        if found is not None:
            self._functions.remove(found)
        return found


def _call_step(spans: Spans, call: Said, runs: _Runs, reasoning: str | None, agent: str | None) -> Step:
    known = {"reasoning": reasoning, "tool_name": call.tool, "tool_input": call.arguments, "agent": agent,
             "call_id": call.call_id}  # fmt: skip
    if call.hosted:
        return Step.model_validate(known | {"kind": "tool", "tool_type": "hosted", "tool_output": call.output})
    run = runs.take(call)
    if run is None:
        handed = (call.tool or "").startswith("transfer_to_") and runs.handoffs
        to = handed[0].span_data.to_agent if handed else None
        kind = "handoff" if handed else "tool"
        return Step.model_validate(known | {"kind": kind, "tool_output": to and f"handed over to {to}"})
    tool_type = "mcp" if run.span_data.mcp_data else "agent" if spans.nested(run) else "function"
    return Step.model_validate(known | {
        "kind": "tool", "tool_type": tool_type, "tool_output": as_text(run.span_data.output), "error": _error(run),
        "started_at": _when(run.started_at), "duration_s": _seconds(run),
    })  # fmt: skip


def _guardrail_step(spans: Spans, span: Span[Any]) -> Step:
    verdict = "tripped" if span.span_data.triggered else "passed"
    return Step(kind="guardrail", tool_name=span.span_data.name, tool_output=verdict, agent=spans.agent(span),
                started_at=_when(span.started_at), duration_s=_seconds(span), error=_error(span))  # fmt: skip


def _said(reply: Span[Any]) -> Iterator[Said]:
    data = reply.span_data
    if data.type == "response":
        output: Sequence[Any] = data.response.output if data.response is not None else ()
        for item in output:
            yield from _from_item(item.model_dump(mode="json"))
        return
    for message in cast("Sequence[Mapping[str, Any]]", data.output or ()):
        if message.get("object") == "response" or "output" in message:  # streamed replies come as a whole Response
            for item in message["output"]:
                yield from _from_item(item)
        else:
            yield from _from_message(message)


def _from_message(message: Mapping[str, Any]) -> Iterator[Said]:
    """Read a chat message."""
    if reasoning := message.get("reasoning_content") or message.get("reasoning"):
        yield Said(reasoning=str(reasoning))
    yield from _from_text(message.get("content") or message.get("refusal"))
    for call in message.get("tool_calls") or ():
        function: Mapping[str, Any] = call.get("function") or {}
        yield Said(call_id=call.get("id"), tool=function.get("name"), arguments=function.get("arguments"))


def _from_item(item: Mapping[str, Any]) -> Iterator[Said]:
    """Read an output item of the Responses API."""
    kind = str(item["type"])
    if kind == "reasoning":
        parts = [*(item.get("summary") or ()), *(item.get("content") or ())]
        text = "\n".join(str(p["text"]) for p in parts if p.get("text"))
        if text or item.get("encrypted_content"):
            yield Said(reasoning=text or "(reasoning encrypted by the endpoint)")
    elif kind == "message":
        for part in item.get("content") or ():
            yield from _from_text(part.get("text") or part.get("refusal"))
    elif kind == "function_call":
        yield Said(call_id=item.get("call_id"), tool=item.get("name"), arguments=item.get("arguments"))
    elif kind.endswith("_call"):
        yield Said(call_id=item.get("id"), tool=kind.removesuffix("_call"), hosted=True,
                   arguments=_first(item, _HOSTED_INPUT), output=_first(item, _HOSTED_OUTPUT))  # fmt: skip


def _from_text(text: Any) -> Iterator[Said]:
    if text:
        reasoning, rest = split_think(str(text))
        if reasoning:
            yield Said(reasoning=reasoning)
        if rest.strip():
            yield Said(text=rest)


def _first(item: Mapping[str, Any], names: Sequence[str]) -> str | None:
    found = next((item[n] for n in names if item.get(n) is not None), None)
    return found if found is None or isinstance(found, str) else json.dumps(found, ensure_ascii=False)


def as_text(value: Any) -> str | None:
    """Return a tool's output as the model saw it: the SDK passes text parts by their text, other objects by str()."""
    if value is None or isinstance(value, str):
        return value
    part = cast("dict[str, Any]", value if isinstance(value, dict) else {})
    return str(part["text"]) if part.keys() >= {"type", "text"} else str(cast("Any", value))


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
