"""Token counts in all their forms, read into `Usage`; and a model's reply as the SDK's stream of events, and back.

A count that was not given is None, never zero. Nor is a count believed that no reply can have: sums and money would be
wrecked by it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from agents import ModelBehaviorError, ModelResponse
from agents import Usage as SdkUsage
from openai.types.responses import Response, ResponseCompletedEvent, ResponseUsage

from harness.core.records import Usage

_OF_CHAT, _OF_RESPONSES = ("prompt_tokens", "completion_tokens"), ("input_tokens", "output_tokens")
MOST_TOKENS = 10**9
"""A reply that counts more is not believed: no model reads or writes as many at once."""


def read_usage(counts: object) -> Usage:
    """Return the usage of one reply, as the JSON of either API counts it; whatever is no count was not given."""
    counts = cast("Mapping[str, Any]", counts if isinstance(counts, Mapping) else {})
    into, out = _OF_CHAT if "prompt_tokens" in counts else _OF_RESPONSES
    return Usage(
        requests=1,
        input=_count(counts, into),
        output=_count(counts, out),
        cached=_count(_details(counts, into), "cached_tokens"),
        reasoning=_count(_details(counts, out), "reasoning_tokens"),
    )


def _details(counts: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    details = counts.get(f"{name}_details")
    return cast("Mapping[str, Any]", details) if isinstance(details, Mapping) else {}


def _count(counts: Mapping[str, Any], name: str) -> int | None:
    return _believed(_whole(counts.get(name)))


def _whole(count: object) -> int | None:
    """Return a count, however large; some gateways write it as 100.0 or "100"."""
    if isinstance(count, bool) or not isinstance(count, int | float | str):
        return None
    try:
        whole = int(count)
    except (ValueError, OverflowError):
        return None
    return whole if isinstance(count, str) or whole == count else None


def _believed(count: int | None) -> int | None:
    return count if count is not None and 0 <= count <= MOST_TOKENS else None


def sdk_counts(counts: object, *, of_chat: bool) -> dict[str, Any] | None:
    """Return a reply's JSON of usage as the SDK can read it; None where it counts no tokens in, or none out."""
    if not isinstance(counts, Mapping):
        return None
    given = cast("Mapping[str, Any]", counts)
    into, out = _OF_CHAT if of_chat else _OF_RESPONSES
    read, written, total = (_whole(given.get(name)) for name in (into, out, "total_tokens"))
    if read is None or written is None:
        return None
    return {
        **given,
        into: read,
        out: written,
        "total_tokens": read + written if total is None else total,
        f"{into}_details": _sdk_details(given, into, "cached_tokens"),
        f"{out}_details": _sdk_details(given, out, "reasoning_tokens"),
    }


def _sdk_details(counts: Mapping[str, Any], of: str, name: str) -> dict[str, int] | None:
    details = _details(counts, of).items()
    whole = {part: whole for part, count in details if (whole := _whole(count)) is not None}
    return whole if name in whole else None


def is_beyond_belief(counts: object) -> bool:
    """Return whether the usage of a reply, as its JSON or as the SDK has it, counts more than a reply can have."""
    members = vars(counts) if isinstance(counts, SdkUsage) else counts
    numbers = cast("Mapping[str, Any]", members).values() if isinstance(members, Mapping) else ()
    return any(isinstance(number, int | float) and number > MOST_TOKENS for number in numbers)


def usage_from_sdk(counts: SdkUsage) -> Usage:
    """Return the usage of one reply as the SDK counts it, its retries aside; zeros in and out mean nothing counted."""
    if not counts.input_tokens and not counts.output_tokens:
        return Usage(requests=1)
    return Usage(
        requests=1,
        input=_believed(counts.input_tokens),
        output=_believed(counts.output_tokens),
        cached=_believed(counts.input_tokens_details.cached_tokens),
        reasoning=_believed(counts.output_tokens_details.reasoning_tokens),
    )


def usage_from_span(counts: Mapping[str, Any] | None) -> Usage:
    """Return the usage of one reply as its span's data has it."""
    counts = counts or {}
    return Usage(requests=1, input=_count(counts, "input_tokens"), output=_count(counts, "output_tokens"))


def to_sdk(counts: ResponseUsage | None) -> SdkUsage:
    """Return the usage that a stream's last event tells, as the SDK's."""
    if counts is None:
        return SdkUsage(requests=1)
    return SdkUsage(
        requests=1,
        input_tokens=counts.input_tokens or 0,
        output_tokens=counts.output_tokens or 0,
        total_tokens=counts.total_tokens or 0,
        input_tokens_details=counts.input_tokens_details,
        output_tokens_details=counts.output_tokens_details,
    )


def from_sdk(counts: SdkUsage) -> ResponseUsage:
    """Return the SDK's usage as a stream's last event tells it."""
    return ResponseUsage(
        input_tokens=counts.input_tokens,
        output_tokens=counts.output_tokens,
        total_tokens=counts.total_tokens,
        input_tokens_details=cast("Any", counts.input_tokens_details),
        output_tokens_details=cast("Any", counts.output_tokens_details),
    )


_FAILED = {"response.incomplete", "response.failed", "error", "response.error"}


@dataclass
class StreamedReply:
    """What a stream's events come to. One of `response` and `error` is set once it has come to its end."""

    model: str | None = None
    response: ModelResponse | None = None
    error: ModelBehaviorError | None = None
    _items: list[Any] = field(default_factory=list[Any])

    @property
    def over(self) -> bool:
        """Whether the end has come."""
        return self.response is not None or self.error is not None

    def add(self, event: Any) -> bool:
        """Take in an event; return whether it was the end."""
        kind = getattr(event, "type", None)
        if kind == "response.output_item.done":
            self._items.append(event.item)
        elif kind == "response.completed":
            response: Response = event.response
            self.model = response.model or None
            # Some servers leave the output empty at the end and send it item by item, as the SDK's runner knows too.
            self.response = ModelResponse(
                output=response.output or list(self._items),
                usage=to_sdk(response.usage),
                response_id=response.id or None,
                request_id=getattr(response, "_request_id", None),
            )
        elif kind in _FAILED:
            about: Any = getattr(event, "response", None) or event
            cause, cut = getattr(about, "error", None) or about, getattr(about, "incomplete_details", None)
            reasons = (getattr(cut, "reason", None), getattr(cause, "code", None), getattr(cause, "message", None))
            why = "".join(f": {word}" for word in reasons if word)
            self.error = ModelBehaviorError(f"the stream ended with {kind}{why}")
        return self.over


def completed(
    reply: ModelResponse, model: str | None = None, temperature: float | None = None
) -> ResponseCompletedEvent:
    """Return the one event that tells a whole reply, and of which model and temperature it speaks."""
    response = Response.model_construct(  # not validated: the items are to be the very ones that were recorded
        id=reply.response_id or "",
        object="response",
        created_at=0.0,
        model=model or "",
        temperature=temperature,
        output=reply.output,
        usage=from_sdk(reply.usage),
        tools=[],
        tool_choice="auto",
        parallel_tool_calls=True,
    )
    return ResponseCompletedEvent.model_construct(type="response.completed", sequence_number=0, response=response)
