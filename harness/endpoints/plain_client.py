"""An openai client that sends what a model reads as it is, and whole bodies as they are.

Before each call the openai client looks at every part of every message and tool, type by type, for fields that have
another name on the wire. There is none among them, and the search takes a fifth of the CPU that a rollout takes.
"""

import ssl
from collections.abc import Callable
from functools import cached_property, wraps
from typing import Any

import anyio
import httpx2
import openai
from openai._models import FinalRequestOptions

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

    @property
    def user_agent(self) -> str:
        """Return the name of the openai client, which gateways may go by."""
        return f"{openai.AsyncOpenAI.__name__}/Python {self._version}"

    async def send_bytes(self, path: str, body: bytes) -> httpx2.Response:
        """Send a body of JSON to a path below the address, and return the response, which is read.

        Raises the errors that the client's own calls raise. What is the same for all requests is made once.
        """
        template = self._templates.get(path) or self._template(path)
        request = httpx2.Request(
            "POST",
            template.url,
            headers=template.headers,
            cookies=self._client.cookies or None,
            content=body,
            extensions=template.extensions,
        )
        try:
            response = await self._client.send(request)
        except httpx2.TimeoutException as exc:
            raise openai.APITimeoutError(request=request) from exc
        except (httpx2.RequestError, ssl.SSLError, anyio.EndOfStream) as exc:
            raise openai.APIConnectionError(request=request) from exc
        if not response.is_success:
            raise self._make_status_error_from_response(response)
        return response

    @cached_property
    def _templates(self) -> dict[str, httpx2.Request]:
        return {}

    def _template(self, path: str) -> httpx2.Request:
        """Return a request to a path, as the client makes it, but for its body."""
        asked: Any = {"method": "post", "url": path, "json_data": {}, "security": {"bearer_auth": True}}
        template = self._build_request(FinalRequestOptions.construct(**asked))
        del template.headers["content-length"]
        self._templates[path] = template
        return template


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
