"""What a rollout's model calls were really sent and really cost."""

from asyncio import CancelledError
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from agents.tracing import Span

from harness.core.records import Effective, ModelCall, Usage
from harness.core.sums import sum_if_known
from harness.endpoints import price_usd, seed_of, usage_of_sdk, usage_of_span
from harness.rollouts.raw import RawCall
from harness.rollouts.recorder import RecordedCall, Recorder
from harness.rollouts.steps import agent_around


@dataclass(frozen=True)
class CallTotals:
    """The model calls of a rollout: settings and usage of each, and their sums."""

    calls: tuple[ModelCall, ...]
    usages: tuple[Usage, ...]
    effective: Effective
    retries: int
    raw: tuple[RawCall, ...]
    mcp_tools: dict[str, tuple[str, ...]]

    @property
    def usage(self) -> Usage:
        """The usage of all calls."""
        return sum(self.usages[1:], self.usages[0]) if self.usages else Usage()

    def price_usd(self, base_url: str | None) -> float | None:
        """Return the price of all calls at an address, None if that of any is unknown."""
        return sum_if_known(
            price_usd(u, c.replied_model or c.model, base_url)
            for u, c in zip(self.usages, self.calls, strict=True)
            if c.error is None
        )


def total_calls(spans: Sequence[Span[Any]], recorder: Recorder, temperature: float | None) -> CallTotals:
    """Return the calls of all model spans, each matched with its recorded call by the span that both stand under.

    A span without a recorded call is a nested run's on a model of its own: its span is all there is.
    """
    unmatched = list(recorder.calls)
    calls: list[ModelCall] = []
    usages: list[Usage] = []
    raw: list[RawCall] = []
    by_id = {s.span_id: s for s in spans}
    model_spans = [s for s in spans if s.span_data.type in {"generation", "response"}]
    for span in model_spans:
        recorded = next((c for c in unmatched if c.parent_span == span.parent_id), None)
        if recorded:
            unmatched.remove(recorded)
        replied = recorded is not None and recorded.response is not None
        calls.append(_call(span, recorded, len(raw) if replied else None, agent_around(span, by_id)))
        if recorded and recorded.response:
            raw.append(RawCall(recorded.request, recorded.response))
        usages.append(_usage(span, recorded))
    return CallTotals(
        calls=tuple(calls),
        usages=tuple(usages),
        effective=_effective(calls, temperature),
        retries=sum(a.error is not None and a.parent_id == b.parent_id for a, b in pairwise(model_spans)),
        raw=tuple(raw),
        mcp_tools=_listed(spans),
    )


def _call(span: Span[Any], recorded: RecordedCall | None, raw: int | None, agent: str | None) -> ModelCall:
    data = span.span_data
    reply: Any = getattr(data, "response", None)
    config: Any = getattr(data, "model_config", None) or {}
    settings = recorded.settings if recorded else None
    return ModelCall(
        model=recorded.model if recorded else getattr(data, "model", None),
        replied_model=getattr(reply, "model", None) or (recorded.wire.model if recorded else None),
        temperature=settings.temperature if settings else config.get("temperature"),
        replied_temperature=getattr(reply, "temperature", None),
        top_p=settings.top_p if settings else config.get("top_p"),
        seed=seed_of(settings) if settings else None,
        error=_error(recorded) if recorded and recorded.response is None else None,
        raw=raw,
        agent=agent,
    )


def _listed(spans: Sequence[Span[Any]]) -> dict[str, tuple[str, ...]]:
    listed = [s.span_data for s in spans if s.span_data.type == "mcp_tools"]
    return {str(d.server): tuple(d.result) for d in listed if d.server and d.result}


def _usage(span: Span[Any], recorded: RecordedCall | None) -> Usage:
    if recorded and recorded.response:
        return usage_of_sdk(recorded.response.usage)
    return Usage() if recorded else usage_of_span(getattr(span.span_data, "usage", None))


def _error(call: RecordedCall) -> str:
    """Return the error of a call without a reply: one still under way ends with its rollout."""
    error = call.error or CancelledError("the rollout ended before the reply came")
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]


def _effective(calls: Sequence[ModelCall], requested: float | None) -> Effective:
    """Return what the calls with a reply were really sent, and where that differs from the requested temperature."""
    calls = [c for c in calls if c.error is None]
    sent = {c.temperature for c in calls}
    exceptions = [
        f"call {i}: sent {'no temperature' if c.temperature is None else f'temperature {c.temperature:g}'}"
        for i, c in enumerate(calls, 1)
        if c.temperature != requested
    ]
    exceptions += [
        f"call {i}: the endpoint used temperature {c.replied_temperature}"
        for i, c in enumerate(calls, 1)
        if c.replied_temperature is not None and c.replied_temperature != c.temperature
    ]
    models = dict.fromkeys(m for c in calls if (m := c.replied_model or c.model))
    return Effective(
        uniform=bool(calls) and not exceptions,
        temperature=sent.pop() if len(sent) == 1 else None,
        models=tuple(models),
        exceptions=tuple(exceptions),
    )
