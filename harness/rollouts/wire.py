"""What a reply said on the wire that the SDK does not pass on: why it stopped, and which model gave it."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal

import openai

Finish = Literal["length", "content_filter"]

_listening: ContextVar["Reply | None"] = ContextVar("harness_wire", default=None)


@dataclass
class Reply:
    """Filled in when the reply of a model call comes in over a client made here."""

    finish: Finish | None = None
    """Set only where the reply was not a whole one: cut at the token limit, or withheld by a filter."""
    model: str | None = None


@contextmanager
def listening() -> Generator[Reply]:
    """Collect what the call made inside says on the wire."""
    reply = Reply()
    token = _listening.set(reply)
    try:
        yield reply
    finally:
        _listening.reset(token)


def http_client() -> openai.DefaultAsyncHttpxClient:
    """Return an HTTP client that listens, with the openai client's own defaults."""
    return openai.DefaultAsyncHttpxClient(event_hooks={"response": [_hear]})


async def _hear(response: Any) -> None:
    reply = _listening.get()
    if reply is None or "json" not in response.headers.get("content-type", ""):
        return
    try:
        body: Any = json.loads(await response.aread())
    except ValueError:
        return  # the SDK reads the same body and will say what is wrong with it
    if isinstance(body, dict):
        reply.model, reply.finish = _str(body.get("model")), _finish(body)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]


def _finish(body: dict[str, Any]) -> Finish | None:
    choices: list[dict[str, Any]] = body.get("choices") or [{}]
    details: dict[str, Any] = body.get("incomplete_details") or {}
    why = choices[0].get("finish_reason") or details.get("reason")
    return "length" if why in {"length", "max_output_tokens"} else "content_filter" if why == "content_filter" else None


def _str(value: Any) -> str | None:
    return value if isinstance(value, str) else None
