"""The body of a reply: a model's, or what a server sends with success in its place, as a page or half a body.

The SDK takes the members as they come, and fails on a strange one with Python's words, as if the agent were to blame.
"""

import json
from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any, cast

import httpx2
import openai
from pydantic_core import from_json

from harness.core.records import BEGUN, Bill
from harness.endpoints.usage import read_bill, sdk_counts


def has_form(reply: Mapping[str, Any], *, logprobs: bool = True) -> bool:
    """Tell whether the message of a chat reply, or the output of a response, can be a model's.

    Its annotations and logprobs may be missing or empty; what they hold has to be of its kind. Without `logprobs` those
    of a chat reply are not looked at: the SDK does not get them.
    """
    if choice := first_choice(reply):
        message = choice.get("message")
        is_whole = _is_message(message) or (message is None and choice.get("finish_reason") == "content_filter")
        told = choice.get("logprobs") if logprobs else None
        lists = [as_object(told).get(name) for name in ("content", "refusal")]  # empty with a server that tells none
        return is_whole and isinstance(told or {}, dict) and all(_are(listed, _is_logprob) for listed in lists)
    output = reply.get("output")
    return isinstance(output, list) and all(_is_item(item) and _is_named(item) for item in as_list(output))


def for_sdk(reply: Mapping[str, Any]) -> dict[str, Any]:
    """Return a reply that has its form, as the SDK reads it.

    Its text is one part, its citations are whole, its logprobs have alternatives, no usage counts nothing, and what is
    no name of the reply or of the model is left out.
    """
    reply = {**reply, **{name: None for name in ("id", "model") if not isinstance(reply.get(name), str)}}
    choice = first_choice(reply)
    usage = sdk_counts(reply.get("usage"), of_chat=bool(choice))
    if not choice:
        return {**reply, "usage": usage}
    message = as_object(choice.get("message"))
    content = message_text(message) if isinstance(message.get("content"), list) else message.get("content")
    # The SDK makes nothing of other annotations: it warns of them, and passes them over.
    citations = [a for a in as_list(message.get("annotations")) if _is_citation(as_object(a).get("url_citation"))]
    tokens = map(as_object, as_list(as_object(choice.get("logprobs")).get("content")))
    logprobs: list[Any] = [{**token, "top_logprobs": token.get("top_logprobs") or []} for token in tokens]
    whole: dict[str, Any] = {
        "finish_reason": None,
        **choice,
        "message": {"role": "assistant", **message, "content": content, "annotations": citations},
        "logprobs": {"content": logprobs} if logprobs else None,
    }
    return {**reply, "usage": usage, "choices": [whole, *reply["choices"][1:]]}


def _is_citation(citation: Any) -> bool:
    members = as_object(citation)
    places = (members.get(name) for name in ("start_index", "end_index"))
    return _has_texts(members, "url", "title") and all(isinstance(place, int) for place in places)


def message_text(message: Mapping[str, Any]) -> str:
    """Return the text of a chat message, which some gateways give in parts."""
    content = message.get("content")
    if isinstance(content, list):
        texts = (as_object(part).get("text") for part in as_list(content))
        return "".join(text for text in texts if isinstance(text, str))
    return content if isinstance(content, str) else ""


def as_object(value: Any) -> dict[str, Any]:
    """Return a JSON object itself, not a copy; an empty one for any other value."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """Return a JSON array itself, whatever is in it; an empty one for any other value."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def first_choice(reply: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the first choice of a chat reply; nothing for any other reply."""
    choices = as_list(reply.get("choices"))
    return as_object(choices[0]) if choices else {}


_TEXT = (str, NoneType)
"""Of a text that may be missing: `str | None` would be made anew at each use, which several uses a reply pay for."""


def _is_message(message: Any) -> bool:
    if not isinstance(message, dict):
        return False
    members = cast("dict[str, Any]", message)
    if not all(isinstance(members.get(name), _TEXT) for name in ("refusal", "reasoning_content")):
        return False
    content, calls = members.get("content"), members.get("tool_calls")
    parts = [isinstance(p, dict) and isinstance(as_object(p).get("text"), _TEXT) for p in as_list(content)]
    has_content = isinstance(content, (*_TEXT, list)) and all(parts)
    has_calls = (calls is None or isinstance(calls, list)) and all(map(_is_call, as_list(calls)))
    return has_content and has_calls and _are(members.get("annotations"), _is_annotation)


def _is_call(call: Any) -> bool:
    members = as_object(call)
    return isinstance(members.get("id"), str) and (
        members.get("type") == "custom" or _has_texts(as_object(members.get("function")), "name", "arguments")
    )


def _is_item(item: Any) -> bool:
    members = as_object(item)
    match members.get("type"):
        case "message":
            content = members.get("content")
            return isinstance(content, list) and all(map(_is_output_part, as_list(content)))
        case "function_call":
            return _has_texts(members, "name", "arguments", "call_id") and bool(members["call_id"])
        case "reasoning":
            return all(_are(members.get(name), lambda part: isinstance(part, dict)) for name in ("summary", "content"))
        case "web_search_call":
            return isinstance(members.get("action"), dict | None)
        case "custom_tool_call" | "computer_call" | "shell_call" | "apply_patch_call":
            return _has_texts(members, "call_id") and bool(members["call_id"])
        case kind:
            return isinstance(kind, str)


def _is_named(item: dict[str, Any]) -> bool:
    """Tell whether the SDK can look an item up by what names it: a list has no place in a set."""
    return not any(isinstance(item.get(name), list | dict) for name in ("id", "status", "name", "server_label"))


def _is_output_part(part: Any) -> bool:
    members = as_object(part)
    named = {"output_text": "text", "refusal": "refusal"}.get(str(members.get("type")))
    if not isinstance(members.get("type"), str) or (named and not _has_texts(members, named)):
        return False
    return _are(members.get("annotations"), _is_annotation) and _are(members.get("logprobs"), _is_logprob)


def _are(values: Any, is_one: Callable[[Any], bool]) -> bool:
    """Tell whether values are a list of such, or nothing."""
    return not values or (isinstance(values, list) and all(map(is_one, as_list(values))))


def _is_annotation(annotation: Any) -> bool:
    return _has_texts(as_object(annotation), "type")


def _is_logprob(token: Any) -> bool:
    return _is_token(token) and _are(as_object(token).get("top_logprobs"), _is_token)


def _is_token(token: Any) -> bool:
    members = as_object(token)
    return (
        _has_texts(members, "token")
        and type(members.get("logprob")) in {int, float}
        and _are(members.get("bytes"), lambda byte: type(byte) is int)
    )


def _has_texts(members: Mapping[str, Any], *names: str) -> bool:
    return all(isinstance(members.get(name), str) for name in names)


_SHOWN = 100
_NOT_DONE = ["failed", "cancelled", "queued", "in_progress"]
"""No set: a status may be a list, which the SDK fails on."""
_OF_API = (("/responses", "output", "the Responses API"), ("/chat/completions", "choices", "Chat Completions"))


class NoReply(openai.APIConnectionError):
    """A server answered with success and without a model's reply. As after no answer at all, a retry may mend it."""

    def __init__(
        self, why: str, request: httpx2.Request, text: str, *, is_page: bool = False, bill: Bill | None = None
    ) -> None:
        """Say what came, and what of it is paid for; `is_page`: from a web server, as where there is no API."""
        super().__init__(message=f"the endpoint answered {why}", request=request)
        self.text, self.is_page, self.bill = text, is_page, bill


def model_reply(content: bytes, request: httpx2.Request, *, logprobs: bool = True) -> dict[str, Any]:
    """Return the JSON of a reply by either API, its `logprobs` checked too. Raises NoReply for all else."""
    try:
        try:
            body: Any = from_json(content)
        except ValueError:  # other encodings and lone surrogates are nothing to it
            body = json.loads(content)
    except (ValueError, RecursionError):
        text = content.decode(errors="replace")
        is_page = text.lstrip("\ufeff \t\r\n").startswith("<")
        if text.startswith(("data:", "event:")):
            what = "with a stream of events, which was not asked for"
        else:
            what = "with a web page" if is_page else "with a body that is cut short, or no JSON"
        why = f"{what}: {_shown(text)}" if text.strip() else "with an empty body"
        is_cut = text.lstrip().startswith("{")
        raise NoReply(why, request, text, is_page=is_page, bill=BEGUN if is_cut else None) from None
    return checked_reply(body, request, logprobs=logprobs)


def checked_reply(body: Any, request: httpx2.Request, *, logprobs: bool = True) -> dict[str, Any]:
    """Return JSON that is a response by either API, if need be with its `logprobs`. Raises NoReply."""
    members = as_object(body)
    first, status = first_choice(members), members.get("status")
    reason = as_object(members.get("incomplete_details")).get("reason")  # why it says of itself that it was cut short
    unfinished = status in _NOT_DONE or (status == "incomplete" and not isinstance(reason, str))
    failed = unfinished or not isinstance(status, _TEXT) or first.get("finish_reason") == "error"
    if failed or not has_form(members, logprobs=logprobs):
        why = f"with JSON that is no model's reply: {_shown(json.dumps(body))}"
        if error := first.get("error") or members.get("error"):
            why = f"with an error in place of a reply: {as_object(error).get('message') or error}"
        raise NoReply(why, request, json.dumps(body), bill=read_bill(members) if members.get("usage") else None)
    return members


def check_api(reply: dict[str, Any], request: httpx2.Request) -> None:
    """Raise NoReply for a reply of the one API where the other one was asked, by the request's address."""
    path = request.url.path
    for ending, member, api in _OF_API:
        if path.endswith(ending) and not isinstance(reply.get(member), list):
            text = json.dumps(reply)
            raise NoReply(f"with no reply of {api}, which was asked: {_shown(text)}", request, text)


def _shown(text: str) -> str:
    line = " ".join(text.split())
    return repr(line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…")
