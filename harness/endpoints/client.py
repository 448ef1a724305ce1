"""The one maker of clients for model servers: agent calls and judge calls both use it.

Before each call the openai client looks at every part of every message and tool, type by type, for fields that have
another name on the wire. There is none among them, and the search takes a fifth of the CPU that a rollout takes.
"""

import gc
import json
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from functools import cache, cached_property, partial, wraps
from typing import Any, cast

import anyio
import httpx2
import openai
from openai._models import FinalRequestOptions
from pydantic_core import from_json, to_json

from harness.core.turns import UNDER_WAY, my_turn
from harness.endpoints.address import Endpoint
from harness.endpoints.credentials import only_to_origin
from harness.endpoints.reply_body import NoReply, checked_reply, for_sdk, model_reply
from harness.endpoints.reply_tokens import ReplyTokens, read_body

_READ_BY_THE_MODEL = ("messages", "input", "tools")


class PlainClient(openai.AsyncOpenAI):
    """Sends messages, input items and tools without the search; requests are those of openai's client, to the byte."""

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

    async def send_bytes(self, path: str, body: bytes, *, stream: bool = False) -> httpx2.Response:
        """Send a body of JSON to a path below the address; return the response, which is read unless it is a `stream`.

        Raises the errors that the client's own calls raise. What is the same for all requests is made once, and what
        the client tells of the user's machine (`x-stainless-`) is left out.
        """
        template = self._templates.get(path)
        if template is None:  # a request as the client makes it, but for its body
            asked: Any = {"method": "post", "url": path, "json_data": {}, "security": {"bearer_auth": True}}
            template = self._templates[path] = self._build_request(FinalRequestOptions.construct(**asked))
            for name in [*template.headers]:  # each is checked four times on its way
                if name == "content-length" or name.startswith("x-stainless-"):
                    del template.headers[name]
        cookies, headers, more = self._client.cookies or None, template.headers, template.extensions
        request = httpx2.Request("POST", template.url, headers=headers, cookies=cookies, content=body, extensions=more)
        try:
            response = await self._client.send(request, stream=stream)
            if stream and not response.is_success:
                await response.aread()
        except httpx2.TimeoutException as exc:
            raise openai.APITimeoutError(request=request) from exc
        except (httpx2.RequestError, ssl.SSLError, anyio.EndOfStream) as exc:
            raise openai.APIConnectionError(request=request) from exc
        if not response.is_success:
            raise self._make_status_error_from_response(response)
        return response

    async def open_page(self, path: str) -> httpx2.Response:
        """Ask for what is at a path below the address; return the open response, whose body is not read yet."""
        asked: Any = {"method": "get", "url": path, "security": {"bearer_auth": True}}
        return await self._client.send(self._build_request(FinalRequestOptions.construct(**asked)), stream=True)

    @cached_property
    def _templates(self) -> dict[str, httpx2.Request]:
        return {}


def _plain(create: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(create)
    def plain(**parameters: Any) -> Any:
        # Long lists go into the body without the search; an empty list keeps their place there.
        lists = {name: parameters[name] for name in _READ_BY_THE_MODEL if isinstance(parameters.get(name), list)}
        if lists:
            extra_body: dict[str, Any] = lists | (parameters.get("extra_body") or {})
            parameters = parameters | dict.fromkeys(lists, ()) | {"extra_body": extra_body}
        return create(**parameters)

    return plain


class PooledClient(openai.DefaultAsyncHttpxClient):
    """Sends each request through a pool that has none under way; all pools share the options and the cookies.

    A pool looks at each of its connections whenever a request begins or ends, whether it is free and still alive. With
    256 requests in flight on one pool that takes a fifth of the CPU of a call, with 16 still a twentieth. The openai
    client's own pool also closes all free connections but 100, so that most calls would begin with a new one.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._options = options
        self._pools: list[httpx2.AsyncClient] = []
        self._free: list[httpx2.AsyncClient] = []
        """The pool that was used last comes first: its connection is the least likely to be closed by now."""

    async def send(self, request: httpx2.Request, **more: Any) -> httpx2.Response:
        """Send a request."""
        if self._free:
            pool = self._free.pop()
        else:
            pool = openai.DefaultAsyncHttpxClient(**self._options)
            self._pools.append(pool)
        try:
            response = await pool.send(request, **more)
        finally:
            self._free.append(pool)
        for answer in (*response.history, response):
            self.cookies.extract_cookies(answer)
        return response

    async def aclose(self) -> None:
        """Close all connections, and let the pools go: the client of a call that was cut off is in a cycle."""
        pools, self._pools, self._free = self._pools, [], []
        for pool in pools:
            await pool.aclose()
        await super().aclose()


_OF_THE_BODY = {"content-length", "content-encoding", "transfer-encoding"}
_DATA = b"data:"


class TokenClient(PooledClient):
    """Gives the tokens of each reply to what `collector` returns while the call is made; None: to nobody."""

    def __init__(self, collector: Callable[[], ReplyTokens | None], **options: Any) -> None:
        super().__init__(**options)
        self._collector = collector

    async def send(self, request: Any, *, stream: bool = False, **more: Any) -> httpx2.Response:
        """Send a request. A reply comes without what was taken out of it."""
        response = await super().send(request, stream=stream, **more)
        tokens = self._collector()
        kind = response.headers.get("content-type", "")
        if tokens is None or response.is_error:
            return response
        if stream and "event-stream" in kind:
            return _with(response, stream=_Stripped(response, tokens))
        response.headers["content-type"] = "application/json"  # which some servers do not call it
        content = await response.aread()
        kept = tokens.keep_logprobs  # else they are taken out, and nobody minds what else they are
        body: Any = read_body(content, logprobs=not kept)
        make, source = (model_reply, content) if body is None else (checked_reply, body)
        was_enabled = gc.isenabled()
        gc.disable()  # a reply of a thousand logprobs is a thousand objects, and has no cycles
        try:
            reply = make(source, request, logprobs=kept)
        finally:
            if was_enabled:
                gc.enable()
        tokens.take(reply)
        tokens.on_body(reply)
        return _with(response, content=json.dumps(for_sdk(reply)).encode())


def _with(response: httpx2.Response, **body: Any) -> httpx2.Response:
    headers = [(name, value) for name, value in response.headers.multi_items() if name.lower() not in _OF_THE_BODY]
    of_both: dict[str, Any] = {name: getattr(response, name) for name in ("request", "extensions", "history")}
    return httpx2.Response(response.status_code, headers=headers, **of_both, **body)


class _Stripped(httpx2.AsyncByteStream):
    """The events of a stream, line by line, without the tokens in them."""

    def __init__(self, response: httpx2.Response, tokens: ReplyTokens) -> None:
        self._response, self._tokens = response, tokens
        self.aclose = response.aclose

    async def __aiter__(self) -> AsyncIterator[bytes]:
        rest = b""
        async for part in self._response.aiter_bytes():
            *lines, rest = (rest + part).split(b"\n")
            for line in lines:
                yield self._without_tokens(line + b"\n")
        if rest:
            yield self._without_tokens(rest)

    def _without_tokens(self, line: bytes) -> bytes:
        try:
            chunk: Any = from_json(line.removeprefix(_DATA).strip()) if line.startswith(_DATA) else None
        except ValueError:  # [DONE], or an event that goes over several lines
            return line
        if not isinstance(chunk, dict):
            return line
        self._tokens.take(cast("dict[str, Any]", chunk))
        return b"data: " + to_json(chunk) + b"\n"


_MOST = 2**28


class _Bounded(httpx2.Response):
    """Is read up to 256 MB, unpacked: a body without an end, or a small one that unpacks to gigabytes, ends no run."""

    async def aiter_bytes(self, chunk_size: int | None = None) -> AsyncGenerator[bytes]:
        room = _MOST
        async for part in super().aiter_bytes(chunk_size):
            if (room := room - len(part)) < 0:
                raise NoReply(f"with more than {_MOST:,} bytes", self.request, "")
            yield part


_NOBODYS: Any = {name: openai.Omit() for name in ("OpenAI-Organization", "OpenAI-Project")}
"""Leaves out what the client takes from OPENAI_ORG_ID and OPENAI_PROJECT_ID."""


def openai_client(
    endpoint: Endpoint,
    *,
    timeout_s: float | None = None,
    on_response: Callable[[Any], Awaitable[None]] | None = None,
    collector: Callable[[], ReplyTokens | None] | None = None,
    rank: int = UNDER_WAY,
) -> PlainClient:
    """Return a client for `endpoint`. It never retries by itself: `retries` does, so that retries are counted.

    A redirect to another scheme, host or port is refused: the call ends in an error, and nothing is sent there.
    Without `timeout_s` the openai client's own limits hold. `on_response` gets each HTTP response once its head is
    there. What `collector` returns gets the token ids of the reply of the call under way. Replies that come in together
    are taken in turns, those of the lowest `rank` first. Close the client when done.
    """

    async def wait(response: Any) -> None:
        await my_turn(rank)
        response.__class__ = _Bounded

    on_replies = [wait, on_response] if on_response else [wait]
    hooks: dict[str, Any] = {"request": [only_to_origin(endpoint.url)], "response": on_replies}
    verify = _context(endpoint.certificates.file, endpoint.certificates.folder)
    own = PooledClient if collector is None else partial(TokenClient, collector)
    return PlainClient(
        base_url=endpoint.url,
        api_key=endpoint.key.get_secret_value(),
        max_retries=0,
        default_headers=None if endpoint.named else _NOBODYS,
        timeout=openai.NOT_GIVEN if timeout_s is None else timeout_s,
        http_client=own(verify=verify, event_hooks=hooks),
    )


@cache
def _context(file: str | None, folder: str | None) -> ssl.SSLContext:
    """Return what the client would load by itself, once a process: loading takes longer than a whole rollout."""
    if file:
        return ssl.create_default_context(cafile=file)
    if folder:
        return ssl.create_default_context(capath=folder)
    return httpx2.create_ssl_context(trust_env=False)
