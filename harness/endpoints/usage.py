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

from harness.core.records import Bill, Usage

_OF_CHAT, _OF_RESPONSES = ("prompt_tokens", "completion_tokens"), ("input_tokens", "output_tokens")
MOST_TOKENS = 10**9
"""A reply that counts more is not believed: no model reads or writes as many at once."""


def read_bill(reply: Mapping[str, Any]) -> Bill:
    """Return what one reply is paid for, as the JSON of either API tells; what is no count was not given."""
    counts, tier = reply.get("usage"), reply.get("service_tier")
    usage, is_odd = _usage(counts)
    tools, is_part = _hosted(reply.get("output")), False
    if not tools and isinstance(reply.get("choices"), list):
        tools, is_part = _searches(reply)
    return Bill(usage, tier if isinstance(tier, str) else None, tools, is_odd, is_part)


_FREE = {"function", "custom_tool", "computer", "local_shell", "shell", "apply_patch", "tool_search", "mcp"}
"""Calls that cost tokens alone: somebody else runs their tools."""


def _hosted(output: object) -> dict[str, int]:
    """Count the calls of a provider's own tools among items. Of a web search opening a page costs nothing."""
    tools = dict[str, int]()
    for item in cast("list[Any]", output) if isinstance(output, list) else ():
        kind, action = _member(item, "type"), _member(_member(item, "action"), "type")
        tool = kind.removesuffix("_call") if isinstance(kind, str) and kind.endswith("_call") else None
        is_free = tool in _FREE and not str(_member(_member(item, "environment"), "type")).startswith("container")
        if tool and not is_free and not (tool == "web_search" and action not in (None, "search")):
            tools[tool] = tools.get(tool, 0) + 1
    return tools


def _member(value: Any, name: str) -> Any:
    members = _mapping(cast("object", value))
    return members.get(name) if members else getattr(value, name, None)


def _searches(reply: Mapping[str, Any]) -> tuple[dict[str, int], bool]:
    """Return the web searches behind a chat reply, and whether there may be more: citations tell that there was one."""
    of_server = _mapping(_mapping(reply.get("usage")).get("server_tool_use"))
    told = _believed(_whole(of_server.get("web_search_requests")))
    if told is not None:
        return {"web_search": told} if told else {}, False
    choices = reply["choices"]
    annotations = _mapping(_mapping(choices[0] if choices else None).get("message")).get("annotations")
    listed = cast("list[Any]", annotations) if isinstance(annotations, list) else []
    cited = any(_member(annotation, "type") == "url_citation" for annotation in listed)
    return {"web_search": 1} if cited else {}, cited


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def _usage(counts: object) -> tuple[Usage, bool]:
    """Return what a reply counts, and whether anything there is no count. Zeros in and out mean nothing counted."""
    given = _mapping(counts)
    into, out = _OF_CHAT if "prompt_tokens" in given else _OF_RESPONSES
    of_input, of_output = _details(given, into), _details(given, out)
    told = [given.get(into), given.get(out), of_output.get("reasoning_tokens")]
    told += [of_input.get("cached_tokens"), of_input.get("cache_write_tokens")]
    believed = [_believed(_whole(count)) for count in told]
    is_odd = any(count is None and raw is not None for count, raw in zip(believed, told, strict=True))
    read, written, reasoning, cached, to_cache = believed
    if not read and not written:
        return Usage(requests=1), is_odd
    if read is not None and (cached or 0) + (to_cache or 0) > read:
        is_odd, to_cache, cached = True, None, cached if cached is not None and cached <= read else None
    usage = Usage(requests=1, input=read, output=written, cached=cached, reasoning=reasoning)
    return usage.model_copy(update={"cache_write": to_cache}) if to_cache else usage, is_odd


def _details(counts: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return _mapping(counts.get(f"{name}_details"))


def _whole(count: object) -> int | None:
    """Return a count, however large; some gateways write it as 100.0 or "100"."""
    if type(count) is int or count is None:
        return count
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
    if not isinstance(counts, dict):
        return None
    given = _mapping(cast("object", counts))
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


def bill_of(reply: ModelResponse) -> Bill:
    """Return what a reply is paid for, as the SDK has it, its retries aside."""
    counts = reply.usage
    into, out = counts.input_tokens_details, counts.output_tokens_details
    usage, is_odd = _usage(
        {
            "input_tokens": counts.input_tokens,
            "output_tokens": counts.output_tokens,
            "input_tokens_details": vars(into),
            "output_tokens_details": vars(out),
        }
    )
    return Bill(usage, tools=_hosted(reply.output), is_odd=is_odd)


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
