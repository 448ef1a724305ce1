"""What a reply said on the wire that the SDK does not pass on: why it stopped, and which model gave it."""

from contextvars import ContextVar, Token
from dataclasses import dataclass
from typing import Any, Literal

from pydantic_core import from_json

Finish = Literal["length", "content_filter"]

_listening: ContextVar["Reply | None"] = ContextVar("harness_wire", default=None)


@dataclass
class Reply:
    """Filled in when the reply of a model call comes in over a client made here."""

    finish: Finish | None = None
    """Set only where the reply was not a whole one: cut at the token limit, or withheld by a filter."""
    model: str | None = None


def listen() -> tuple[Reply, Token[Reply | None]]:
    """Begin to collect what the next call says on the wire; the token ends it."""
    reply = Reply()
    return reply, _listening.set(reply)


def stop_listening(token: Token[Reply | None]) -> None:
    """End what `listen` began."""
    _listening.reset(token)


async def note_response(response: Any) -> None:
    """Note what a response says, if the call that it answers collects. The client calls this with each response."""
    reply = _listening.get()
    if reply is None or "json" not in response.headers.get("content-type", ""):
        return
    try:
        body: Any = from_json(await response.aread())
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
