"""What a call of another program adds to its session: request, sampling and reply in the form that `run` records."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from typing import Any, cast

from agents import ModelResponse, ModelSettings, Usage
from agents.exceptions import AgentsException
from agents.models.chatcmpl_converter import Converter
from openai import BaseModel
from openai.lib.streaming._deltas import accumulate_delta
from openai.types.chat import ChatCompletionMessage
from openai.types.responses import Response

from harness.core.settings import Api
from harness.endpoints.reply_body import as_list, as_object, first_choice, for_sdk, message_text
from harness.endpoints.usage import to_sdk
from harness.formats.queries import items_of_messages
from harness.rollouts.model_request import common_start

Json = dict[str, Any]

_OF_A_MESSAGE = {
    *("role", "content", "tool_calls", "tool_call_id", "reasoning_content", "reasoning", "refusal", "annotations")
}
_KEPT_BY_SERVER = ("previous_response_id", "conversation", "prompt")
"""What a request of the Responses API names that its server keeps."""


@dataclass(frozen=True)
class ReadRequest:
    """A request as `run` records it (harness.rollouts.raw), and what of it the record has no place for, in words."""

    request: Json
    settings: ModelSettings
    model: str | None
    gaps: tuple[str, ...] = ()


@dataclass
class ChatHistory:
    """The messages of a session's last chat request as input items: what begins the next one is not made anew."""

    said: tuple[Mapping[str, Any], ModelResponse] | None = None
    """The message of the session's last chat reply, and the reply."""
    _messages: list[Any] = field(default_factory=list[Any])
    _items: list[Sequence[Json]] = field(default_factory=list[Sequence[Json]])

    def read(self, api: Api, body: Mapping[str, Any]) -> ReadRequest:
        """Return what a request to one of both APIs says."""
        gaps = list(_gaps(api, body))
        given: list[Any] = as_list(body.get("messages")) if api == "chat" else as_list(body.get("input"))
        try:
            items: Any = self._items_of(given) if api == "chat" else given
        except (ValueError, TypeError, AttributeError, LookupError, AgentsException) as exc:
            items = []
            gaps.append(f"a request whose messages have no form as items ({exc})")
        system: Any = body.get("instructions")
        if api == "responses":
            items = body["input"] if isinstance(body.get("input"), str) else items
            asked = as_object(as_object(body.get("text")).get("format"))
        else:
            asked = as_object(as_object(body.get("response_format")).get("json_schema"))
            first = as_object(given[0]) if given and items else {}
            if first.get("role") == "system" and isinstance(first.get("content"), str):
                system, items = first["content"], items[1:]
        tools = [as_object(tool) for tool in as_list(body.get("tools"))]
        request = {
            "instructions": system if isinstance(system, str) else None,
            "input": items,
            "tools": [_tool(as_object(tool.get("function")) or tool, tool.get("type")) for tool in tools],
            "handoffs": [],
            "output_schema": as_object(asked.get("schema")) or None,
        }
        model = body.get("model")
        return ReadRequest(request, _sampling(body), model if isinstance(model, str) else None, tuple(gaps))

    def _items_of(self, messages: list[Any]) -> list[Json]:
        kept = common_start(self._messages, messages)
        self._items = [*self._items[:kept], *map(self._message_items, messages[kept:])]
        self._messages = messages
        return [*chain.from_iterable(self._items)]

    def _message_items(self, message: Json) -> Sequence[Json]:
        """Return a chat message as items; the assistant's as the SDK makes them of a reply, so that the two compare."""
        if message.get("role") != "assistant":
            return cast("Sequence[Json]", items_of_messages([message]))
        if self.said and _told(message) == _told(self.said[0]) and not message.get("annotations"):
            return [_without_source(item) for item in cast("Sequence[Json]", self.said[1].to_input_items())]
        said: Any = {**message, "content": message_text(message), "annotations": None}
        items = Converter.message_to_output_items(_sdk_message(said))
        return cast("Sequence[Json]", ModelResponse(items, Usage(), None).to_input_items())


def _told(message: Mapping[str, Any]) -> Json:
    return {name: value for name, value in message.items() if value}


def _without_source(item: Json) -> Json:
    """Return an item of a reply without the names of reply and model, which no message of a request tells."""
    about = {k: v for k, v in item.get("provider_data", {}).items() if k not in {"model", "response_id"}}
    rest = {k: v for k, v in item.items() if k != "provider_data"}
    return rest | {"provider_data": about} if about else rest


def _sdk_message(members: Json) -> ChatCompletionMessage:
    """Return a message as openai's client makes it, which looks at the type of each member even of plain text."""
    if all(not value or isinstance(value, str) for value in members.values()):
        message: Any = super(BaseModel, ChatCompletionMessage).model_construct(**members)
        return message
    return ChatCompletionMessage.construct(**members)


def _gaps(api: Api, body: Mapping[str, Any]) -> Iterable[str]:
    if api == "responses":
        yield from (f"what {name} names stands with the server alone" for name in _KEPT_BY_SERVER if body.get(name))
        if body.get("background"):
            yield "a reply in the background, which its request does not bring"
        if any(as_object(item).get("type") == "item_reference" for item in as_list(body.get("input"))):
            yield "an item that is named, and stands with the server alone"
        return
    if body.get("n") not in (None, 1):
        yield f"a request for n={body['n']!r} replies, of which only the first is recorded"
    if body.get("functions"):
        yield "a request with `functions`, the form before `tools`"
    messages = [as_object(message) for message in as_list(body.get("messages"))]
    strange = {key: None for message in messages for key in message.keys() - _OF_A_MESSAGE if message[key]}
    yield from (f"messages with {name!r}, which the record has no place for" for name in strange)


def _tool(described: Json, kind: Any) -> Json:
    if kind != "function":
        return {"name": str(described.get("name") or kind)}
    name = {"name": str(described.get("name"))}
    return name | {"description": described.get("description") or "", "schema": described.get("parameters") or {}}


def _sampling(body: Mapping[str, Any]) -> ModelSettings:
    given = {k: v for k in ("temperature", "top_p") if type(v := body.get(k)) in {int, float}}
    seed = body.get("seed")
    return _settings(given.get("temperature"), given.get("top_p"), seed if type(seed) is int else None)


@lru_cache
def _settings(temperature: float | None, top_p: float | None, seed: int | None) -> ModelSettings:
    extra_body = None if seed is None else {"seed": seed}
    return ModelSettings(temperature=temperature, top_p=top_p, extra_body=extra_body)


def sdk_reply(body: Json) -> ModelResponse:
    """Return a reply that has its form (`checked_reply`) as the SDK's object, as `run` has it."""
    whole = for_sdk(body)
    if not first_choice(whole):
        response = Response.construct(**whole)
        usage = to_sdk(response.usage)
        return ModelResponse(response.output, usage, response.id or None)
    usage = Usage(requests=1)
    if counts := as_object(whole["usage"]):  # told as the SDK would read it
        of_input, of_output = (as_object(counts[f"{name}_tokens_details"]) for name in ("prompt", "completion"))
        usage.input_tokens, usage.output_tokens = counts["prompt_tokens"], counts["completion_tokens"]
        usage.total_tokens = counts["total_tokens"]
        usage.input_tokens_details.cached_tokens = of_input.get("cached_tokens", 0)
        usage.output_tokens_details.reasoning_tokens = of_output.get("reasoning_tokens", 0)
    message = _sdk_message(first_choice(whole)["message"])
    about = {"model": whole.get("model"), "response_id": whole.get("id")}
    return ModelResponse(Converter.message_to_output_items(message, about), usage, None)


@dataclass
class StreamedBody:
    """Puts the events of a stream together to the body that the same call has without a stream."""

    _body: Json = field(default_factory=dict[str, Any])
    _message: dict[object, object] = field(default_factory=dict[object, object])
    _items: list[Any] = field(default_factory=list[Any])

    def add(self, event: Json) -> bool:
        """Take in an event; return whether it is the last. Raises what openai's client does of deltas of no kind."""
        kind = event.get("type")
        if kind == "response.output_item.done":
            self._items.append(event.get("item"))
        elif kind in {"response.completed", "response.incomplete", "response.failed"}:
            self._body = dict(as_object(event.get("response")))
            self._body["output"] = self._body.get("output") or self._items
            return True
        elif "choices" in event:
            choice = first_choice(event)
            self._body |= {k: v for k, v in event.items() if k not in {"choices", "object"} and v is not None}
            if choice and not choice.get("index"):
                self._message = accumulate_delta(self._message, {**as_object(choice.get("delta"))})
                if reason := choice.get("finish_reason"):
                    message = {**self._message, "role": "assistant", "content": self._message.get("content")}
                    self._body["choices"] = [{"index": 0, "message": message, "finish_reason": reason}]
        return False

    def whole(self) -> Json | None:
        """Return the body; None where the stream broke off before its end."""
        return self._body if {"choices", "output"} & self._body.keys() else None
