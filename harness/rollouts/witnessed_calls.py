"""The model calls of a rollout, each as its span and our recording together show it; either may be missing.

A Model of the agent's own need not open a span, and where the agent's code switches tracing off there are none at all.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents.tracing import Span

from harness.rollouts.recorder import RecordedCall
from harness.rollouts.reply_items import ReplyItem, items_of_output, items_of_reply

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
        timed = self.span or self.recorded
        return timed.started_at if timed else None

    @property
    def ended_at(self) -> str | None:
        """When the call ended."""
        timed = self.span or self.recorded
        return timed.ended_at if timed else None

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
            matched[span.span_id] = matched[span.span_id] or _taken(unmatched, set(_around(span, by_id)))
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


def _around(span: Span[Any], by_id: Mapping[str, Span[Any]]) -> Iterator[str | None]:
    at: Span[Any] | None = span
    while at is not None and at.parent_id:
        yield at.parent_id
        at = by_id.get(at.parent_id)
