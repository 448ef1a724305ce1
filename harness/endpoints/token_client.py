"""An HTTP client that takes token ids and logprobs out of replies, whole or streamed, before the SDK reads the rest.

The SDK would make an object of each logprob, which takes longer than the rest of a call, and would keep them in what a
rollout says.
"""

import gc
import json
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import httpx2
from pydantic_core import from_json, to_json

from harness.endpoints.pooled_client import PooledClient
from harness.endpoints.reply_body import checked_reply, for_sdk, model_reply
from harness.endpoints.reply_tokens import ReplyTokens, read_body

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
