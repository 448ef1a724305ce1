"""An openai client that sends what a model reads as it is.

Before each call the openai client looks at every part of every message and tool, type by type, for fields that have
another name on the wire. There is none among them, and the search takes a fifth of the CPU that a rollout takes.
"""

from collections.abc import Callable
from functools import cached_property, wraps
from typing import Any

import openai

_READ_BY_THE_MODEL = ("messages", "input", "tools")


class PlainClient(openai.AsyncOpenAI):
    """Sends messages, input items and tools without the search; its requests are those of openai's client, to the byte.

    Both resources are made when they are first asked for, as there: importing them takes long.
    """

    @cached_property
    def chat(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride] - the same kind of property as there
        """Return the Chat API."""
        chat: Any = super().chat
        chat.completions.create = _plain(chat.completions.create)
        return chat

    @cached_property
    def responses(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride] - the same kind of property as there
        """Return the Responses API."""
        responses: Any = super().responses
        responses.create = _plain(responses.create)
        return responses


def _plain(create: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(create)
    def plain(**parameters: Any) -> Any:
        return create(**_as_they_are(parameters))

    return plain


def _as_they_are(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return parameters whose long lists go into the body without the search; an empty list keeps their place there."""
    lists = {name: parameters[name] for name in _READ_BY_THE_MODEL if isinstance(parameters.get(name), list)}
    if not lists:
        return parameters
    return parameters | dict.fromkeys(lists, ()) | {"extra_body": lists | (parameters.get("extra_body") or {})}
