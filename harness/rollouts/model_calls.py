"""What a rollout's model calls were really sent and really cost."""

from asyncio import CancelledError
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count, pairwise
from typing import Any

from agents.tracing import Span

from harness.core.records import Effective, ModelCall, Usage
from harness.core.sampled_tokens import SampledTokens
from harness.core.sums import sum_if_known
from harness.endpoints.call_settings import seed_of
from harness.endpoints.prices import UNKNOWN_ADDRESS, PriceList
from harness.endpoints.usage import usage_of_sdk, usage_of_span
from harness.rollouts.hooks import ToolNotes
from harness.rollouts.raw import RawCall
from harness.rollouts.recorder import RecordedCall
from harness.rollouts.steps import agent_around, function_around
from harness.rollouts.witnessed_calls import WitnessedCall


@dataclass(frozen=True)
class CallTotals:
    """The model calls of a rollout: settings and usage of each, and their sums."""

    calls: tuple[ModelCall, ...]
    usages: tuple[Usage, ...]
    effective: Effective
    retries: int
    raw: tuple[RawCall, ...]
    tokens: tuple[SampledTokens | None, ...]
    """Of each raw call, where its server told them whole."""
    mcp_tools: dict[str, tuple[str, ...]]

    @property
    def usage(self) -> Usage:
        """The usage of all calls."""
        return sum(self.usages[1:], self.usages[0]) if self.usages else Usage()

    def price_usd(self, prices: PriceList, base_url: str | None) -> float | None:
        """Return the price of all calls at an address, None if that of any is unknown, or what the calls were."""
        if not self.calls and base_url == UNKNOWN_ADDRESS:
            return None
        return sum_if_known(
            prices.usd(u, (c.replied_model, c.model), base_url)
            for u, c in zip(self.usages, self.calls, strict=True)
            if c.error is None
        )


def total_calls(
    spans: Sequence[Span[Any]], replies: Sequence[WitnessedCall], notes: ToolNotes, temperature: float | None
) -> CallTotals:
    """Return what the model calls of a rollout were, and their sums.

    A call that was not recorded is on a model that nothing of ours wraps: its span is all there is.
    """
    by_id = {s.span_id: s for s in spans}
    replied = [c for r in replies if (c := r.recorded) and c.response]
    raw = [RawCall(c.request, c.response) for c in replied if c.response]
    numbers = count()
    places = [next(numbers) if r.recorded and r.recorded.response else None for r in replies]
    asked_by = {r.parent: place for r, place in zip(replies, places, strict=True) if place is not None}
    calls: list[ModelCall] = []
    for reply, place in zip(replies, places, strict=True):
        tool = function_around(reply.parent, by_id)
        within = notes.call_of_span.get(tool.span_id) if tool else None
        call = _call(reply, place, agent_around(reply.parent, by_id))
        if tool and within:
            call = call.model_copy(update={"within": within, "within_raw": asked_by.get(tool.parent_id)})
        calls.append(call)
    return CallTotals(
        calls=tuple(calls),
        usages=tuple(_usage(r) for r in replies),
        effective=_effective(calls, temperature),
        retries=sum(a.error is not None and a.parent == b.parent for a, b in pairwise(replies)),
        raw=tuple(raw),
        tokens=tuple(c.wire.sampled for c in replied),
        mcp_tools=_listed(spans),
    )


def _call(made: WitnessedCall, raw: int | None, agent: str | None) -> ModelCall:
    recorded, data = made.recorded, made.span.span_data if made.span else None
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
        own_model=recorded.own_model if recorded else None,
    )


def _listed(spans: Sequence[Span[Any]]) -> dict[str, tuple[str, ...]]:
    listed = [s.span_data for s in spans if s.span_data.type == "mcp_tools"]
    return {str(d.server): tuple(d.result) for d in listed if d.server and d.result}


def _usage(reply: WitnessedCall) -> Usage:
    recorded = reply.recorded
    if recorded and recorded.response:
        return usage_of_sdk(recorded.response.usage)
    return usage_of_span(getattr(reply.span.span_data, "usage", None)) if reply.span and not recorded else Usage()


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
