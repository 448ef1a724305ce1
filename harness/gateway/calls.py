"""A model call of a session: passed on to the upstream with what the gateway asks for, recorded, and answered.

What comes back is what the upstream sent, byte for byte, unless the gateway asked for fields that the client did not
ask for: these are taken out.
"""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import anyio
import httpx2
import openai
from agents.exceptions import AgentsException
from pydantic_core import from_json
from pydantic_core import to_json as json_bytes
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from harness.core.errors import Refused
from harness.core.records import BEGUN
from harness.core.sampled_tokens import SampledTokens
from harness.core.settings import Api
from harness.core.turns import SENDING, my_turn
from harness.endpoints.address import Endpoint
from harness.endpoints.client import PlainClient
from harness.endpoints.credentials import RedirectRefused
from harness.endpoints.reply_body import NoReply, as_list, as_object, check_api, checked_reply, first_choice
from harness.endpoints.reply_tokens import NOTHING, ReplyTokens, TokenRequests, read_body
from harness.gateway.recorded import Json, StreamedBody, sdk_reply
from harness.gateway.sessions import Declined, Session
from harness.rollouts.capture import WireReply, note_body
from harness.rollouts.recorder import RecordedCall

_HEADERS = {"content-type", "x-request-id", "retry-after", "retry-after-ms", "x-should-retry"}
"""What comes back of the upstream's headers, beside those of its rate limits."""
_IDS = {"return_token_ids", "return_output_ids_in_sglext"}
_DATA = b"data:"
_DONE = b"[DONE]"
OF_UPSTREAM = (openai.OpenAIError, httpx2.RequestError, Refused)
"""The errors of a call to which the upstream gave no reply, or one without the tokens required."""
_UNREADABLE = (TypeError, ValueError, RuntimeError, LookupError, AttributeError, AssertionError, AgentsException)
"""What the SDK and the openai client raise over what they did not foresee in a reply."""


@dataclass
class UpstreamServer:
    """The upstream, as all calls of a run go to it."""

    endpoint: Endpoint
    client: PlainClient
    tokens: TokenRequests
    clock: Callable[[], datetime]
    policy: int | None = None
    """The version of a trained policy that the upstream samples from, as a trainer has told it."""

    def answer(self, response: httpx2.Response, content: bytes) -> Response:
        """Return the upstream's answer with this content."""
        return Response(self.without_key(content), response.status_code, _passed_on(response))

    def without_key(self, content: bytes) -> bytes:
        """Return what the upstream said without its key, which some quote."""
        key = self.endpoint.key.get_secret_value().encode() if self.endpoint.has_key else b""
        return content.replace(key, b"(key)") if key and key in content else content

    def declined(self, exc: Exception) -> Declined:
        """Return what a client is told where there is no answer to pass on, or one without the tokens required."""
        if isinstance(exc, Refused):
            return Declined(400, "no_token_ids", str(exc))
        if isinstance(exc, RedirectRefused):
            message = f"the upstream redirects to {exc.origin}: if you trust it, name that address with --upstream"
            return Declined(502, "upstream_redirects", message)
        cause = exc.__cause__ or exc
        is_late = isinstance(exc, openai.APITimeoutError | httpx2.TimeoutException)
        status, code = (504, "upstream_timeout") if is_late else (502, "upstream_unreachable")
        why = f"{type(cause).__name__}: {cause}".rstrip(": ")
        return Declined(status, code, f"the upstream {self.endpoint.host} gave no answer ({why}): is it up?")


def _passed_on(response: httpx2.Response) -> dict[str, str]:
    return {k: v for k, v in response.headers.items() if k in _HEADERS or k.startswith("x-ratelimit-")}


class PassedCall:
    """One call under way: what is asked beside what the client asks, and the record of what came back."""

    def __init__(self, server: UpstreamServer, session: Session, api: Api, raw: bytes, body: Json) -> None:
        self._server, self._session, self._api, self._raw, self._body = server, session, api, raw, body
        self._is_stream = body.get("stream") is True
        self._own: Json = {}
        """What the gateway asks for by itself."""
        self._streamed, self._rest, self._drops_line, self._is_over = StreamedBody(), b"", False, False
        seen = session.history.read(api, body)
        session.gaps |= dict.fromkeys(seen.gaps)
        wire, at = WireReply(streamed=self._is_stream), server.clock().isoformat()
        wire.policy = () if server.policy is None else (server.policy,)
        self._record = RecordedCall(None, seen.settings, seen.model, seen.request, wire, started_at=at)
        session.calls.append(self._record)

    async def answer(self, path: str) -> Response:
        """Send the request on, and return what the client gets. Raises Declined where there is no answer to pass on."""
        try:
            response = await self._sent(path)
            if self._is_stream and "event-stream" in response.headers.get("content-type", ""):
                self._record.wire.bill = BEGUN
                return StreamAnswer(self._server, self, response)
            return self._server.answer(response, self.read(await response.aread(), response.request))
        except openai.APIStatusError as exc:
            self._record.error = exc
            return self._server.answer(exc.response, exc.response.content)
        except OF_UPSTREAM as exc:
            self._record.error = exc
            raise self._server.declined(exc) from None

    async def _sent(self, path: str) -> httpx2.Response:
        """Return the upstream's answer, asked for tokens if it takes that. Raises openai's errors, and Refused."""
        tokens, refused = self._server.tokens, None
        if self._api == "responses" and tokens.wanted:
            tokens.skip("only Chat Completions tell them", " of calls to Responses")
        while True:
            asks = self._api == "chat" and not refused and self._body.get("n") in (None, 1)
            asked = tokens.asked(stream=self._is_stream) if asks else NOTHING
            self._own = _own_fields(asked, self._body, stream=self._is_stream)
            sent = _with(self._raw, self._body, self._own)
            await my_turn(SENDING)  # requests that came together leave one after another, and so do their replies
            try:
                response = await self._server.client.send_bytes(f"/{path}", sent, stream=self._is_stream)
            except (openai.BadRequestError, openai.UnprocessableEntityError) as exc:
                if not self._own:
                    raise
                if not tokens.refused(exc, asked):
                    refused = exc  # asked once more without: it may be refused for that, and not say so
                continue
            if refused:
                tokens.refuse(refused)
            self._record.wire.tokens = ReplyTokens() if asked else None
            return response

    def read(self, content: bytes, request: httpx2.Request) -> bytes:
        """Record a whole reply, and return what the client gets of it. Raises Refused without tokens if required."""
        body: Any = None
        if self._record.wire.tokens and ("logprobs" in self._own) is not self._own.keys().isdisjoint(_IDS):
            body = read_body(content, logprobs=True)  # the client gets both arrays as they are, or neither
        try:
            body = from_json(content) if body is None else body
        except ValueError:
            self._session.gaps["a reply that is no JSON"] = None
        shown, plain = self._taken(as_object(body))
        self._note(plain, request)
        return json_bytes(shown) if self._own and shown else content

    def _taken(self, body: Json) -> tuple[Json, Json]:
        """Take the tokens out of a body or an event; return what the client gets of it, and what is recorded."""
        if not (tokens := self._record.wire.tokens):
            return body, body
        choice = first_choice(body)
        others = as_list(body.get("choices"))[1:]
        plain = {**body, "choices": [dict(choice), *others]} if choice else dict(body)
        tokens.take(plain)
        shown = body if self._own.keys().isdisjoint(_IDS) else plain
        if "logprobs" in choice:
            told = None if "logprobs" in self._own else choice["logprobs"]
            shown = {**shown, "choices": [{**first_choice(shown), "logprobs": told}, *others]}
        return shown, plain

    def _note(self, body: Json, request: httpx2.Request) -> None:
        """Record a reply. Raises Refused where its tokens are required and missing."""
        wire, tokens = self._record.wire, self._record.wire.tokens
        try:
            reply = checked_reply(body, request, logprobs=False)
            check_api(reply, request)
            note_body(wire, reply)
            response = sdk_reply(reply)
        except NoReply as exc:
            wire.bill, self._record.error = exc.bill, exc
            return
        except _UNREADABLE as exc:
            self._session.gaps[f"a reply that has no form as items ({exc})"] = None
            self._record.error = ValueError(str(exc))
            return
        if self._is_stream:
            wire.beside = None
        if tokens:
            told, wire.tokens = tokens.tokens(), None
            self._server.tokens.check(told)
            wire.sampled = told if isinstance(told, SampledTokens) else None
        self._record.response = response
        if self._api == "chat":
            self._session.history.said = as_object(first_choice(body).get("message")), response

    def shown(self, part: bytes, request: httpx2.Request) -> bytes:
        """Take in bytes of a stream, and return what the client gets of the lines that are whole by now.

        With the last event the call is over: the client may close its session as soon as it has that.
        """
        *lines, self._rest = (self._rest + part).split(b"\n")
        return b"".join(self._shown_line(line + b"\n", request) for line in lines)

    def _shown_line(self, line: bytes, request: httpx2.Request) -> bytes:
        if not line.startswith(_DATA):
            drops, self._drops_line = self._drops_line and not line.strip(), False
            return b"" if drops else line
        data = line.removeprefix(_DATA).strip()
        try:
            event: Any = None if data == _DONE else from_json(data)
        except ValueError:
            event = None
        of_own = "sglext" in as_object(event)
        shown, plain = self._taken(as_object(event))
        try:
            is_last = self._streamed.add(plain) or data == _DONE
        except _UNREADABLE as exc:
            is_last = False
            self._session.gaps[f"a stream whose events do not add up ({exc})"] = None
        if "stream_options" in self._own and "usage" in shown:
            of_own = shown.pop("usage") is not None
        self._drops_line = of_own and "usage" not in shown and shown.get("choices") == []
        if is_last:
            refusal = self.finish(request)
            line = refusal + line
        if self._drops_line:
            return b""
        return b"data: " + json_bytes(shown) + b"\n" if self._own and shown else line

    def finish(self, request: httpx2.Request) -> bytes:
        """Record the reply that a stream has told; return the event that says why it cannot be used, if it cannot."""
        if self._is_over:
            return b""
        told = b""
        if body := self._streamed.whole():
            try:
                self._note(body, request)
            except Refused as exc:
                self._record.error = exc
                told = b"data: " + json.dumps(self._server.declined(exc).body()).encode() + b"\n\n"
        else:
            self._session.gaps["a stream that broke off before its end"] = None
            self._record.error = httpx2.RemoteProtocolError("the stream broke off before its end", request=request)
        self.end()
        return told

    def end(self, error: BaseException | None = None) -> None:
        """Count the call as ended, once; with an `error` its reply reached nobody."""
        if self._is_over:
            return
        self._is_over, record = True, self._record
        if error:
            record.response, record.wire.sampled = None, None
            record.error = record.error or error
        record.ended_at = self._server.clock().isoformat()
        if (policy := self._server.policy) is not None:
            record.wire.policy = tuple(dict.fromkeys((*record.wire.policy, policy)))
        self._session.running -= 1

    def leave(self) -> None:
        """Note that the client went away from a stream before its end."""
        if not self._is_over:
            self._session.gaps["a stream that its client left before the end"] = None
            self.end(ConnectionError("the client left the stream before its end"))


def _own_fields(asked: Mapping[str, bool], body: Json, *, stream: bool) -> Json:
    """Return what the gateway puts into a request: what is asked and not there yet, and in a stream the usage."""
    if not asked:
        return {}
    asks_ids = any(body.get(name) for name in asked if name != "logprobs")
    own: Json = {name: True for name in asked if not (asks_ids if name != "logprobs" else body.get(name))}
    options = as_object(body.get("stream_options"))
    if stream and not options.get("include_usage"):
        own["stream_options"] = {**options, "include_usage": True}
    return own


def _with(raw: bytes, body: Json, own: Json) -> bytes:
    """Return a request with the gateway's own fields: the client's bytes, and these behind them."""
    if not own:
        return raw
    if own.keys() & body.keys():
        return json.dumps({**body, **own}).encode()
    return raw.rstrip()[:-1] + b"," + json.dumps(own).encode()[1:]


class StreamAnswer(Response):
    """The events of a stream as they come."""

    def __init__(self, server: UpstreamServer, call: PassedCall, upstream: httpx2.Response) -> None:
        super().__init__(status_code=upstream.status_code, headers=_passed_on(upstream))
        del self.headers["content-length"]
        self._server, self._call, self._upstream = server, call, upstream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the events on until the end, or until the client has gone."""
        del scope
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._until_left, receive, tasks.cancel_scope)
                await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
                async for content in self._contents():
                    await send({"type": "http.response.body", "body": content, "more_body": True})
                await send({"type": "http.response.body", "body": b"", "more_body": False})
                tasks.cancel_scope.cancel()
        except* httpx2.RequestError:
            self._call.finish(self._upstream.request)  # the client's connection ends as the upstream's did
        finally:
            self._call.leave()
            with anyio.CancelScope(shield=True):
                await self._upstream.aclose()

    async def _contents(self) -> AsyncIterator[bytes]:
        request = self._upstream.request
        async for part in self._upstream.aiter_bytes():
            if content := self._call.shown(part, request):
                yield self._server.without_key(content)
        if rest := self._call.shown(b"\n", request)[:-1] + self._call.finish(request):
            yield self._server.without_key(rest)

    async def _until_left(self, receive: Receive, scope: anyio.CancelScope) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        scope.cancel()
