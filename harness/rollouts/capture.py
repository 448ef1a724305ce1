"""The SDK's tracing hooks, one trace a rollout: every span is kept until the rollout takes its own.

One processor of ours is registered once a process and is inert for traces that no rollout opened. The user's own
processors stay; only the SDK's default exporter to OpenAI is dropped, unless uploads were asked for.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

from agents.tracing import Span, Trace, TracingProcessor, get_trace_provider, set_trace_processors
from agents.tracing.processors import default_processor

from harness.core.errors import UsageError


class SpanLog(TracingProcessor):
    """Collects the spans of watched traces, in the order they began."""

    def __init__(self) -> None:
        """Watch nothing yet."""
        self._spans: dict[str, list[Span[Any]]] = {}  # each use is one step of a dict's or a list's: it needs no lock

    def watch(self, trace_id: str) -> None:
        """Begin to keep a trace's spans."""
        self._spans[trace_id] = []

    def take(self, trace_id: str) -> Sequence[Span[Any]]:
        """Return a trace's spans and stop watching it: what a stray thread does later is no part of the rollout."""
        return tuple(self._spans.pop(trace_id, ()))

    def on_span_start(self, span: Span[Any]) -> None:
        """Keep the span; its data fills in until it ends."""
        if (watched := self._spans.get(span.trace_id)) is not None:
            watched.append(span)

    def on_span_end(self, span: Span[Any]) -> None:
        """Do nothing: the span kept at its start is the same object."""

    def on_trace_start(self, trace: Trace) -> None:
        """Do nothing."""

    def on_trace_end(self, trace: Trace) -> None:
        """Do nothing."""

    def shutdown(self) -> None:
        """Do nothing."""

    def force_flush(self) -> None:
        """Do nothing."""


@cache
def span_log() -> SpanLog:
    """Return the process's span log, registering it at the first call."""
    log = SpanLog()
    # The SDK has no public way to list its processors; without the private one the user's would have to go.
    multi = getattr(get_trace_provider(), "_multi_processor", None)
    present: Sequence[TracingProcessor] = getattr(multi, "_processors", ())
    set_trace_processors([*(p for p in present if p is not default_processor()), log])
    return log


def check_tracing() -> None:
    """Raise UsageError if tracing is switched off: paths would be empty, and nothing would say so."""
    probe = get_trace_provider().create_trace(name="harness-probe")
    if probe.trace_id == "no-op":
        raise UsageError(
            "the SDK's tracing is switched off, so no steps could be captured: unset "
            "OPENAI_AGENTS_DISABLE_TRACING, and take set_tracing_disabled(True) out of the agent's code"
        )
