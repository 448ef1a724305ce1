"""A model's reply as the SDK's stream of events, and back: an agent used as a tool may stream (`on_stream`)."""

from dataclasses import dataclass, field
from typing import Any

from agents import ModelBehaviorError, ModelResponse
from openai.types.responses import Response, ResponseCompletedEvent

from harness.endpoints.usage import from_sdk, to_sdk

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


def completed(reply: ModelResponse) -> ResponseCompletedEvent:
    """Return the one event that tells a whole reply."""
    response = Response.model_construct(  # not validated: the items are to be the very ones that were recorded
        id=reply.response_id or "",
        object="response",
        created_at=0.0,
        model="",
        output=reply.output,
        usage=from_sdk(reply.usage),
        tools=[],
        tool_choice="auto",
        parallel_tool_calls=True,
    )
    return ResponseCompletedEvent.model_construct(type="response.completed", sequence_number=0, response=response)
