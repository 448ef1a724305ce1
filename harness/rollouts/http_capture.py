"""What the SDK does not pass on of a reply: why it stopped, and which model gave it. Read from the HTTP response."""

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from harness.core.sampled_tokens import SampledTokens
from harness.endpoints.reply_body import as_object, check_api, first_choice, for_sdk, model_reply
from harness.endpoints.reply_tokens import ReplyTokens
from harness.rollouts.lifecycle import set_within

Finish = Literal["length", "content_filter"]
_FINISH: dict[str, Finish] = {"length": "length", "max_output_tokens": "length", "content_filter": "content_filter"}

_captured: ContextVar["WireReply | None"] = ContextVar("harness_wire", default=None)
_stray: ContextVar["list[str] | None"] = ContextVar("harness_stray_replies", default=None)


@dataclass
class WireReply:
    """Filled in when the reply of a model call comes in over a client made here."""

    finish: Finish | None = None
    """Set only where the reply is not whole: cut at the token limit, or withheld by a filter."""
    model: str | None = None
    streamed: bool = False
    """The call asked for a stream of events."""
    tokens: ReplyTokens | None = None
    """Collects the reply's tokens, if the call asked for them."""
    sampled: SampledTokens | None = None
    """The reply in tokens, where the server sent all of them."""


@contextmanager
def reply_captured(tokens: ReplyTokens | None, *, streamed: bool = False) -> Generator[WireReply]:
    """Note what the reply of the call within says on the wire."""
    reply = WireReply(tokens=tokens, streamed=streamed)
    if tokens:
        tokens.on_body = partial(_note_body, reply)
    with set_within(_captured, reply):
        yield reply


def collector() -> ReplyTokens | None:
    """Return what collects the tokens of the call under way; None if it asked for none."""
    reply = _captured.get()
    return reply and reply.tokens


def stray_replies(strays: list[str]) -> AbstractContextManager[None]:
    """Add to a list the path of each reply of this task's, and of what it starts, that is part of no captured call."""
    return set_within(_stray, strays)


async def note_response(response: Any) -> None:
    """Note what a response says, if its call is captured. Raises NoReply for a success that is no model's reply."""
    reply = _captured.get()
    if reply is None and (strays := _stray.get()) is not None:
        strays.append(response.url.path)
    if reply is None or reply.tokens:
        return  # who takes the tokens out of a reply reads the body anyway, and notes what is in it
    is_stream = reply.streamed and "event-stream" in response.headers.get("content-type", "")
    if response.is_success and not is_stream:
        body = model_reply(await response.aread(), response.request)
        check_api(body, response.request)
        _note_body(reply, body)

        def read(**_: Any) -> dict[str, Any]:
            return for_sdk(body)

        response.json = read  # its own reading would parse the body once more
        response.headers["content-type"] = "application/json"  # which some servers do not call it


def _note_body(reply: WireReply, body: dict[str, Any]) -> None:
    model = body.get("model")
    reply.model = model if isinstance(model, str) else None
    reason: Any = first_choice(body).get("finish_reason") or as_object(body.get("incomplete_details")).get("reason")
    reply.finish = _FINISH.get(reason) if isinstance(reason, str) else None
