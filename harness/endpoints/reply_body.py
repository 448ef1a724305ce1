"""The body of a reply: a model's, or what a server sends with success in its place, as a page or half a body."""

import json
from typing import Any

import httpx2
import openai
from pydantic_core import from_json

from harness.endpoints.reply_form import first_choice, has_form, members_of

_SHOWN = 100
_NOT_DONE = ["failed", "cancelled", "queued", "in_progress"]
"""No set: a status may be a list."""
_OF_API = (("/responses", "output", "the Responses API"), ("/chat/completions", "choices", "Chat Completions"))
_EVENTS = ("data:", "event:")
"""How a stream of events begins."""


class NoReply(openai.APIConnectionError):
    """A server answered with success and without a model's reply. As after no answer at all, a retry may mend it."""

    def __init__(
        self, why: str, request: httpx2.Request, text: str, *, is_page: bool = False, usage: object = None
    ) -> None:
        """Say what came, with the `usage` that it tells; `is_page`: from a web server, as where there is no API."""
        super().__init__(message=f"the endpoint answered {why}", request=request)
        self.text, self.is_page, self.usage = text, is_page, usage


def model_reply(content: bytes, request: httpx2.Request, *, logprobs: bool = True) -> dict[str, Any]:
    """Return the JSON of a response by either API, in any encoding of Unicode. Raises NoReply for all else.

    `logprobs`: whether those of a chat reply have to be of their kind, too.
    """
    try:
        body = _json(content)
    except (ValueError, RecursionError):
        text = content.decode(errors="replace")
        raise NoReply(_not_json(text), request, text, is_page=_is_page(text)) from None
    return checked_reply(body, request, logprobs=logprobs)


def checked_reply(body: Any, request: httpx2.Request, *, logprobs: bool = True) -> dict[str, Any]:
    """Return JSON that is a response by either API, if need be with its `logprobs`. Raises NoReply."""
    members = members_of(body)
    first = first_choice(members)
    failed = _is_unfinished(members) or first.get("finish_reason") == "error"
    if failed or not has_form(members, logprobs=logprobs):
        error = first.get("error") or members.get("error")
        raise NoReply(_no_reply(error, body), request, json.dumps(body), usage=members.get("usage"))
    return members


def check_api(reply: dict[str, Any], request: httpx2.Request) -> None:
    """Raise NoReply for a reply of the one API where the other one was asked, by the request's address."""
    path = request.url.path
    for ending, member, api in _OF_API:
        if path.endswith(ending) and not isinstance(reply.get(member), list):
            text = json.dumps(reply)
            raise NoReply(f"with no reply of {api}, which was asked: {_shown(text)}", request, text)


def _is_unfinished(reply: dict[str, Any]) -> bool:
    """Tell whether a response says of itself that it is not done, or cut short for no reason that it tells."""
    reason = members_of(reply.get("incomplete_details")).get("reason")
    status = reply.get("status")
    return status in _NOT_DONE or (status == "incomplete" and not isinstance(reason, str))


def _json(content: bytes) -> Any:
    try:
        return from_json(content)
    except ValueError:  # other encodings and lone surrogates are nothing to it
        return json.loads(content)


def _is_page(text: str) -> bool:
    return text.lstrip("\ufeff \t\r\n").startswith("<")


def _not_json(text: str) -> str:
    if not text.strip():
        return "with an empty body"
    if text.startswith(_EVENTS):
        return f"with a stream of events, which was not asked for: {_shown(text)}"
    what = "with a web page" if _is_page(text) else "with a body that is cut short, or no JSON"
    return f"{what}: {_shown(text)}"


def _no_reply(error: Any, body: Any) -> str:
    if error:
        return f"with an error in place of a reply: {members_of(error).get('message') or error}"
    return f"with JSON that is no model's reply: {_shown(json.dumps(body))}"


def _shown(text: str) -> str:
    line = " ".join(text.split())
    return repr(line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…")
