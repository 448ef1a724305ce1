"""The HTTP rim of the gateway: who may call, what is served, and what is answered to all else."""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from pydantic_core import from_json
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from harness.core.errors import HarnessError, UsageError, quoted
from harness.core.records import to_json
from harness.core.settings import Api
from harness.gateway.calls import OF_UPSTREAM, PassedCall, StreamAnswer, UpstreamServer
from harness.gateway.recorded import Json
from harness.gateway.rollouts import RolloutKeeper
from harness.gateway.sessions import Declined, Sessions, read_closing

MOST_BODY_BYTES = 64 << 20
"""No body of a request is larger."""
_APIS: Mapping[str, Api] = {"chat/completions": "chat", "responses": "responses"}


@dataclass(frozen=True)
class Gateway:
    """What answers the requests of a run."""

    server: UpstreamServer
    keeper: RolloutKeeper
    token: str | None = None
    """What every request has to bear; None: nothing."""
    sessions: Sessions = field(default_factory=Sessions)

    def app(self) -> Starlette:
        """Return the application."""
        routes = [
            Route("/s/{session}/v1/models", self.models, methods=["GET"]),
            Route("/s/{session}/v1/{path:path}", self.call, methods=["POST"]),
            Route("/s/{session}/close", self.close, methods=["POST"]),
            Route("/policy", self.set_policy, methods=["POST"]),
        ]
        handlers: Any = {Declined: _declined, HTTPException: _no_such_page, HarnessError: _failed}
        return Starlette(routes=routes, exception_handlers=handlers)

    def admit(self, request: Request) -> None:
        """Raise Declined for a request without the token; without a token, for one that a web page sends."""
        if self.token is None:
            if "origin" in request.headers:
                raise Declined(403, "no_token", "no web page may call: begin the gateway with --token, and send that")
            return
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(given.encode(), self.token.encode()):
            message = "the gateway's token is missing or wrong: give the value of its --token as the client's api_key"
            raise Declined(401, "invalid_api_key", message)

    async def models(self, request: Request) -> Response:
        """Pass on the upstream's list of models."""
        self.admit(request)
        try:
            response = await self.server.client.open_page("/models")
            return self.server.answer(response, await response.aread())
        except OF_UPSTREAM as exc:
            raise self.server.declined(exc) from None

    async def set_policy(self, request: Request) -> Response:
        """Note the version of the policy that the upstream samples from now on; each call is recorded with it."""
        self.admit(request)
        version = _object(await _body(request)).get("version")
        if type(version) is not int or not 0 <= version < 1 << 53:
            message = f"`version` ({quoted(version)}): a whole number is expected, 0 or more"
            raise Declined(400, "invalid_policy", message, "version")
        if (before := self.server.policy) is not None and version < before:
            message = f"`version` ({version}) goes back from {before}: begin a new run for a policy that begins anew"
            raise Declined(409, "policy_goes_back", message, "version")
        self.server.policy = version
        return JSONResponse({"version": version})

    async def close(self, request: Request) -> Response:
        """End a session, and return its rollout."""
        self.admit(request)
        closing = read_closing(_object(await _body(request)))
        session = self.sessions.close(str(request.path_params["session"]))
        try:
            rollout = await self.keeper.keep(session, closing)
        except BaseException as exc:
            self.sessions.reopen(session)
            if isinstance(exc, UsageError):
                raise Declined(400, "invalid_close", str(exc), "query") from None
            raise
        return Response(to_json(rollout), media_type="application/json")

    async def call(self, request: Request) -> Response:
        """Pass on a model call, and record it."""
        self.admit(request)
        path = str(request.path_params["path"])
        if (api := _APIS.get(path)) is None:
            raise HTTPException(404)
        raw = await _body(request)
        body = _object(raw)
        session = self.sessions.begin_call(str(request.path_params["session"]), self.server.clock())
        call = PassedCall(self.server, session, api, raw, body)
        try:
            response = await call.answer(path)
        except BaseException as exc:
            call.end(exc)
            raise
        if not isinstance(response, StreamAnswer):  # which ends the call itself
            gone = _has_left(request)
            call.end(ConnectionError("the client went away before the reply came") if gone else None)
        return response


async def _body(request: Request) -> bytes:
    """Return the body. Raises Declined for one that is too large."""
    told = request.headers.get("content-length", "0")
    parts, size = list[bytes](), int(told) if told.isdecimal() else 0
    if size <= MOST_BODY_BYTES:
        size = 0
        async for part in request.stream():
            parts.append(part)
            if (size := size + len(part)) > MOST_BODY_BYTES:
                break
    if size > MOST_BODY_BYTES:
        most = f"{size:,} bytes; at most {MOST_BODY_BYTES:,} fit"
        raise Declined(413, "body_too_large", f"the body has {most}: send less, such as images by their address")
    return b"".join(parts)


def _has_left(request: Request) -> bool:
    """Tell whether the client has gone. Starlette's own look makes a cancel scope and cancels the task for it."""
    waiting: Any = request.receive()
    try:
        waiting.send(None)
    except StopIteration as came:
        return came.value["type"] == "http.disconnect"
    waiting.close()
    return False


def _object(raw: bytes) -> Json:
    """Return a body's JSON object. Raises Declined."""
    try:
        body: Any = from_json(raw, allow_inf_nan=False)
    except ValueError as exc:
        raise Declined(400, "invalid_json", f"the body is no JSON in UTF-8 ({exc}): send a JSON object") from None
    if not isinstance(body, dict):
        raise Declined(400, "invalid_json", f"the body is a JSON {type(body).__name__}: send a JSON object")
    return cast("Json", body)


def _declined(_: Request, exc: Declined) -> Response:
    again = {} if exc.status >= 500 else {"x-should-retry": "false"}  # which openai's client would do after a 409
    return JSONResponse(exc.body(), exc.status, again)


def _no_such_page(request: Request, exc: HTTPException) -> Response:
    ways = *(f"POST /s/SESSION/v1/{name}" for name in _APIS), "GET /s/SESSION/v1/models", "POST /s/SESSION/close"
    message = f"{request.method} {quoted(request.url.path)} is not served: there are {', '.join(ways)}, POST /policy"
    return _declined(request, Declined(exc.status_code, "not_served", message))


def _failed(request: Request, exc: Exception) -> Response:
    return _declined(request, Declined(500, "not_kept", f"the rollout is not kept: {exc}"))
