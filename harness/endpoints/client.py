"""The one maker of clients for model servers: agent calls and judge calls both use it."""

import ssl
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any

import httpx2
import openai

from harness.core.turns import UNDER_WAY, my_turn
from harness.endpoints.address import Endpoint
from harness.endpoints.plain_client import PlainClient
from harness.endpoints.pooled_client import PooledClient
from harness.endpoints.redirects import only_to_origin_of
from harness.endpoints.reply_tokens import ReplyTokens

OnResponse = Callable[[Any], Awaitable[None]]
"""Gets each HTTP response once its head is there; the body is read only if this reads it."""


_NOBODYS: Any = {name: openai.Omit() for name in ("OpenAI-Organization", "OpenAI-Project")}
"""Leaves out what the client takes from OPENAI_ORG_ID and OPENAI_PROJECT_ID."""


def openai_client(
    endpoint: Endpoint,
    *,
    timeout_s: float | None = None,
    on_response: OnResponse | None = None,
    collector: Callable[[], ReplyTokens | None] | None = None,
    rank: int = UNDER_WAY,
) -> PlainClient:
    """Return a client for `endpoint`. It never retries by itself: `retries` does, so that retries are counted.

    A redirect to another scheme, host or port is refused: the call ends in an error, and nothing is sent there.
    Without `timeout_s` the openai client's own limits hold. What `collector` returns gets the token ids of the reply of
    the call under way. Replies that come in together are taken in turns, those of the lowest `rank` first. Close the
    client when done.
    """
    hooks: dict[str, list[Any]] = {
        "request": [only_to_origin_of(endpoint.url)],
        "response": [_in_turn(rank), on_response] if on_response else [_in_turn(rank)],
    }
    return PlainClient(
        base_url=endpoint.url,
        api_key=endpoint.key.get_secret_value(),
        max_retries=0,
        default_headers=None if endpoint.named else _NOBODYS,
        timeout=openai.NOT_GIVEN if timeout_s is None else timeout_s,
        http_client=_http_client(
            collector, verify=_context(endpoint.certificates.file, endpoint.certificates.folder), event_hooks=hooks
        ),
    )


def _http_client(collector: Callable[[], ReplyTokens | None] | None, **options: Any) -> httpx2.AsyncClient:
    if collector is None:
        return PooledClient(**options)
    from harness.endpoints.token_client import TokenClient  # noqa: PLC0415 - a class that most runs do not need

    return TokenClient(collector, **options)


def _in_turn(rank: int) -> OnResponse:
    async def wait(_: Any) -> None:
        await my_turn(rank)

    return wait


@cache
def _context(file: str | None, folder: str | None) -> ssl.SSLContext:
    """Return what the client would load by itself, once a process: loading takes longer than a whole rollout."""
    if file:
        return ssl.create_default_context(cafile=file)
    if folder:
        return ssl.create_default_context(capath=folder)
    return httpx2.create_ssl_context(trust_env=False)
