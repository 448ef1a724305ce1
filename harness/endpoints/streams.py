"""A model's reply as the SDK's stream of events, and back: an agent used as a tool may stream (`on_stream`)."""

from dataclasses import dataclass, field
from typing import Any, cast

from agents import ModelBehaviorError, ModelResponse, Usage
from openai.types.responses import Response, ResponseCompletedEvent, ResponseUsage

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
        """Whether the stream has told how it ended."""
        return self.response is not None or self.error is not None

    def hear(self, event: Any) -> bool:
        """Take in an event; tell whether that was the end."""
        kind = getattr(event, "type", None)
        if kind == "response.output_item.done":
            self._items.append(event.item)
        elif kind == "response.completed":
            told: Response = event.response
            self.model = told.model or None
            # Some servers leave the output empty at the end and send it item by item, as the SDK's runner knows too.
            self.response = ModelResponse(
                output=told.output or list(self._items),
                usage=_usage(told.usage),
                response_id=told.id or None,
                request_id=getattr(told, "_request_id", None),
            )
        elif kind in _FAILED:
            self.error = ModelBehaviorError(f"the stream ended with {kind}{_why(event)}")
        return self.over


def completed(reply: ModelResponse) -> ResponseCompletedEvent:
    """Return the one event that tells a whole reply."""
    usage = reply.usage
    told = ResponseUsage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        total_tokens=usage.total_tokens,
        input_tokens_details=cast("Any", usage.input_tokens_details),
        output_tokens_details=cast("Any", usage.output_tokens_details),
    )
    response = Response.model_construct(  # not validated: the items are to be the very ones that were recorded
        id=reply.response_id or "",
        object="response",
        created_at=0.0,
        model="",
        output=reply.output,
        usage=told,
        tools=[],
        tool_choice="auto",
        parallel_tool_calls=True,
    )
    return ResponseCompletedEvent.model_construct(type="response.completed", sequence_number=0, response=response)


def _why(event: Any) -> str:
    """Return what the endpoint said of a stream that failed."""
    about: Any = getattr(event, "response", None) or event
    cause, cut = getattr(about, "error", None) or about, getattr(about, "incomplete_details", None)
    said = (getattr(cut, "reason", None), getattr(cause, "code", None), getattr(cause, "message", None))
    return "".join(f": {word}" for word in said if word)


def _usage(told: ResponseUsage | None) -> Usage:
    if told is None:
        return Usage(requests=1)
    return Usage(
        requests=1,
        input_tokens=told.input_tokens or 0,
        output_tokens=told.output_tokens or 0,
        total_tokens=told.total_tokens or 0,
        input_tokens_details=told.input_tokens_details,
        output_tokens_details=told.output_tokens_details,
    )
