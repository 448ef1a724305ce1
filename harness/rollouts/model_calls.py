"""What a rollout's model calls were really sent and really cost."""

from asyncio import CancelledError
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count, pairwise
from typing import Any

from agents.tracing import Span

from harness.archive.store import Store
from harness.core.cost import Cost, total_cost
from harness.core.errors import counted
from harness.core.records import Bill, Effective, ModelCall, Usage
from harness.core.sampled_tokens import SampledTokens
from harness.endpoints.refused_settings import sampling_in, seed_in
from harness.endpoints.usage import read_bill
from harness.rollouts.approval_gate import ToolHooks
from harness.rollouts.raw import Packer, RawCall, pack_tokens
from harness.rollouts.steps import WitnessedCall, agent_around, span_around, when


def capture_gaps(
    spans: Sequence[Span[Any]], replies: Sequence[WitnessedCall], stray_replies: Sequence[str], *, ended_well: bool
) -> tuple[str, ...]:
    """Return what the record lacks, in words; `stray_replies` came over the run's client past the recorded calls."""
    gaps: list[str] = []
    unrecorded = sum(r.recorded is None for r in replies)
    if unrecorded:
        on = counted(unrecorded, "model call")
        gaps.append(f"{on} on a model that was not recorded: the request and the whole reply are missing")
    if stray_replies:
        on = counted(len(stray_replies), "model call")
        gaps.append(f"{on} on the run's client past the recorded models: nothing of it is kept")
    by_id, called = {s.span_id: s for s in spans}, {r.parent for r in replies}
    untraced = sum(r.span is None and r.parent not in by_id for r in replies)
    if untraced:
        off = counted(untraced, "model call")
        gaps.append(f"{off} while tracing was off: times, guardrails and the errors of tools are missing")
    turns = [s for s in spans if s.span_data.type == "turn" and s.span_id not in called] if ended_well else []
    silent = sum(s.error is None and span_around(s.span_id, by_id) is None for s in turns)
    if silent:
        gaps.append(f"{counted(silent, 'turn')} of the agent of whose model call there is no record")
    return tuple(gaps)


class PackedCalls:
    """A rollout's raw calls, each packed once, for its checkpoint and for the rollout's record."""

    def __init__(self, store: Store) -> None:
        """Begin without calls. Texts go to the store, redacted."""
        self._store = store
        self.is_redacted = False
        """Whether anything was taken out of a text."""
        self._begin()

    def _begin(self) -> None:
        self._calls, self._parts = list[RawCall](), list[str]()
        self._packer = Packer(self._put, partial(self._watched, self._store.redact))

    def add(self, call: RawCall) -> str:
        """Return the next call, packed."""
        self._calls.append(call)
        self._parts.append(self._packer.add(call))
        return self._parts[-1]

    def keep(self, calls: Sequence[RawCall]) -> str:
        """Keep all calls of the rollout and return the blob's name; those that were added first need no packing."""
        if self._calls != [*calls[: len(self._calls)]]:  # runs side by side may have had replies in another order
            self._begin()
        for call in calls[len(self._calls) :]:
            self.add(call)
        return self._put(f"[{','.join(self._parts)}]")

    def keep_all(self, calls: "CallTotals", note: Callable[[str], None]) -> tuple[str | None, str | None]:
        """Keep calls and tokens; return the names of both blobs, None for none. Tokens would tell a redacted text."""
        raw_calls = self.keep(calls.raw) if calls.raw else None
        if not any(calls.tokens):
            return raw_calls, None
        if self.is_redacted:
            note("the token ids of rollouts in which a text was redacted are not kept: the ids would tell that text")
            return raw_calls, None
        return raw_calls, self._store.put_blob(pack_tokens(calls.tokens), as_is=True)

    def _put(self, text: str) -> str:
        return self._store.put_blob(self._watched(self._store.redact.blob, text), as_is=True)

    def _watched(self, redact: Callable[[str], str], text: str) -> str:
        kept = redact(text)
        self.is_redacted |= kept != text
        return kept


@dataclass(frozen=True)
class CallTotals:
    """The model calls of a rollout: settings, usage and price of each, and their sums."""

    calls: tuple[ModelCall, ...]
    effective: Effective
    retries: int
    raw: tuple[RawCall, ...]
    tokens: tuple[SampledTokens | None, ...]
    """Of each raw call, where its server sent all of them."""
    mcp_tools: dict[str, tuple[str, ...]]

    @property
    def usage(self) -> Usage:
        """The usage of all calls."""
        return total_usage(self.calls)

    @property
    def cost(self) -> Cost:
        """The price of all calls."""
        return total_cost([call.cost for call in self.calls])


def total_usage(calls: Sequence[ModelCall]) -> Usage:
    """Return the usage of some calls."""
    first, *others = [call.usage for call in calls if call.usage] or [Usage()]
    return sum(others, first)


Pricing = Callable[[Bill, Sequence[str | None]], Cost]
"""Returns what a call costs by its bill and the names of its model, the best first."""


def total_calls(
    spans: Sequence[Span[Any]],
    replies: Sequence[WitnessedCall],
    notes: ToolHooks,
    temperature: float | None,
    pricing: Pricing,
) -> CallTotals:
    """Return the model calls of a rollout and their sums. Of a call that was not recorded its span is all there is."""
    by_id = {s.span_id: s for s in spans}
    replied = [c for r in replies if (c := r.recorded) and c.response]
    raw = [RawCall(c.request, c.response, c.wire.beside) for c in replied if c.response]
    numbers = count()
    places = [next(numbers) if r.recorded and r.recorded.response else None for r in replies]
    asked_by = {r.parent: place for r, place in zip(replies, places, strict=True) if place is not None}
    calls: list[ModelCall] = []
    for reply, place in zip(replies, places, strict=True):
        call = _call(reply, place, agent_around(reply.parent, by_id), pricing)
        tool = span_around(reply.parent, by_id)
        if tool and (within := notes.call_of_span.get(tool.span_id)):
            call = call.model_copy(update={"within": within, "within_raw": asked_by.get(tool.parent_id)})
        calls.append(call)
    listed = [s.span_data for s in spans if s.span_data.type == "mcp_tools"]
    return CallTotals(
        calls=tuple(calls),
        effective=effective_settings(calls, temperature),
        retries=sum(a.error is not None and a.parent == b.parent for a, b in pairwise(replies)),
        raw=tuple(raw),
        tokens=tuple(c.wire.sampled for c in replied),
        mcp_tools={str(d.server): tuple(d.result) for d in listed if d.server and d.result},
    )


def _call(made: WitnessedCall, raw: int | None, agent: str | None, pricing: Pricing) -> ModelCall:
    recorded, data = made.recorded, made.span.span_data if made.span else None
    reply: Any = getattr(data, "response", None)
    config: Any = getattr(data, "model_config", None) or {}
    settings, error = recorded.settings if recorded else None, None
    if recorded and recorded.response is None:  # a call still under way ends with its rollout
        cause = recorded.error or CancelledError("the rollout ended before the reply came")
        error = f"{type(cause).__name__}: {' '.join(str(cause).split())}"[:300]
    given = sampling_in(settings) if settings else (config.get("temperature"), config.get("top_p"))
    bill = recorded.wire.bill if recorded else read_bill({"usage": getattr(data, "usage", None)})
    model = recorded.model if recorded else getattr(data, "model", None)
    replied_model = getattr(reply, "model", None) or (recorded.wire.model if recorded else None)
    cost = pricing(bill, (replied_model, model)) if bill else Cost()
    return ModelCall(
        model=model,
        replied_model=replied_model,
        temperature=given[0],
        replied_temperature=getattr(reply, "temperature", None),
        top_p=given[1],
        seed=seed_in(settings) if settings else None,
        error=error,
        raw=raw,
        agent=agent,
        own_model=recorded.own_model if recorded else None,
        policy=tuple(recorded.wire.policy) if recorded else (),
        started_at=when(made.started_at),
        duration_s=made.duration_s,
        usage=bill.usage if bill else None,
        **cost.named("price_usd"),
        service_tier=bill.tier if bill else None,
        hosted_tools=bill.tools if bill else {},
        snapshot=recorded.snapshot if recorded and raw is not None else None,
    )


def effective_settings(calls: Sequence[ModelCall], requested: float | None) -> Effective:
    """Return what the calls with a reply were really sent, and where it differs from the temperature asked for."""
    calls = [c for c in calls if c.error is None]
    sent = {c.temperature for c in calls}
    exceptions = [
        f"call {i}: sent {'no temperature' if c.temperature is None else f'temperature {c.temperature:g}'}"
        for i, c in enumerate(calls, 1)
        if requested is not None and c.temperature != requested
    ]
    exceptions += [
        f"call {i}: the endpoint used temperature {c.replied_temperature}"
        for i, c in enumerate(calls, 1)
        if c.replied_temperature is not None and c.replied_temperature != c.temperature
    ]
    models = dict.fromkeys(m for c in calls if (m := c.replied_model or c.model))
    uniform, temperature = bool(calls) and not exceptions, sent.pop() if len(sent) == 1 else None
    return Effective(uniform=uniform, temperature=temperature, models=tuple(models), exceptions=tuple(exceptions))
