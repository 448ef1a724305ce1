"""Asking a judge model on any OpenAI-compatible endpoint.

Structured output is tried as a strict JSON schema, then as `json_object`, then as plain text; what an endpoint
takes is found out by the first call, alone, and remembered for the rest.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

import anyio
import openai
import stamina

from harness.core.errors import Refused
from harness.core.records import Failure, Usage
from harness.endpoints import Endpoint, failure_of, openai_client, refused
from harness.judging.judge import AskFailed, Question, Reply

Form = Literal["json_schema", "json_object", "text"]
_FORMS: tuple[Form, ...] = ("json_schema", "json_object", "text")
_ATTEMPTS = 5
_MAX_RETRY_AFTER_S = 60.0


class EndpointAsk:
    """Asks `model` at an endpoint. At most `limit` calls at a time; transport errors, 429 and 5xx are retried."""

    def __init__(
        self, endpoint: Endpoint, model: str, *, timeout_s: float, limit: int, extra: Mapping[str, Any] | None = None
    ) -> None:
        """Set up; nothing is sent before the first call. `extra` are parameters added to every request's body."""
        self._extra = {"extra_body": dict(extra)} if extra else {}
        self._endpoint, self._model, self._timeout_s = endpoint, model, timeout_s
        self._client = openai_client(endpoint, timeout_s=timeout_s)
        self._limiter = anyio.CapacityLimiter(limit)
        self._first = anyio.Lock()
        self._form = 0
        self._temperature = True
        self._answered = False
        self._refusal: Refused | None = None

    async def __call__(self, prompt: Question) -> Reply:
        """Return the reply. Raises AskFailed; Refused if the endpoint turned the very first call down."""
        if not self._answered:
            async with self._first:
                if self._refusal:  # those that waited behind it may be let in before they are cancelled
                    raise self._refusal
                if not self._answered:
                    return await self._ask_first(prompt)
        async with self._limiter:
            return await self._ask(prompt)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _ask_first(self, prompt: Question) -> Reply:
        try:
            reply = await self._ask(prompt)
        except AskFailed as exc:
            if refusal := refused(exc.__cause__, self._model, self._endpoint.host, judge=True):
                self._refusal = refusal
                raise refusal from exc
            raise
        self._answered = True
        return reply

    async def _ask(self, prompt: Question) -> Reply:
        """Send; where the endpoint objects to the form or to the temperature, go down a step and send again."""
        while True:
            try:
                return await self._send_retrying(prompt, _FORMS[self._form], temperature=self._temperature)
            except openai.OpenAIError as exc:
                if not self._step_down(exc):
                    raise AskFailed(failure_of(exc)) from exc

    def _step_down(self, exc: openai.OpenAIError) -> bool:
        if not isinstance(exc, openai.BadRequestError | openai.UnprocessableEntityError):
            return False
        if exc.code == "context_length_exceeded":
            return False
        if self._temperature and (exc.param == "temperature" or "temperature" in str(exc).lower()):
            self._temperature = False
            return True
        if self._form + 1 < len(_FORMS) and not self._answered:
            self._form += 1
            return True
        return False

    async def _send_retrying(self, prompt: Question, form: Form, *, temperature: bool) -> Reply:
        send: Callable[..., Awaitable[Reply]] = self._responses if self._endpoint.api == "responses" else self._chat
        async for attempt in stamina.retry_context(on=_retry, attempts=_ATTEMPTS, timeout=self._timeout_s):
            with attempt:
                return await send(prompt, form, self._extra | ({"temperature": 0.0} if temperature else {}))
        raise AssertionError("stamina either returns or raises")

    async def _chat(self, prompt: Question, form: Form, options: dict[str, Any]) -> Reply:
        if form == "json_schema":
            wanted = {"name": "verdict", "strict": True, "schema": prompt.schema()}
            options = options | {"response_format": {"type": "json_schema", "json_schema": wanted}}
        elif form == "json_object":
            options = options | {"response_format": {"type": "json_object"}}
        create: Any = self._client.chat.completions.create
        answer = await create(model=self._model, messages=prompt.messages(), **options)
        if not hasattr(answer, "choices"):
            return _no_reply(answer, form)
        usage, raw = _chat_usage(answer.usage), _raw(answer)
        if not answer.choices:
            return Reply("", usage, form, raw, Failure(kind="api", type="NoChoices", message="a reply without choices"))
        choice = answer.choices[0]
        return Reply(choice.message.content or "", usage, form, raw, _withheld(choice))

    async def _responses(self, prompt: Question, form: Form, options: dict[str, Any]) -> Reply:
        if form == "json_schema":
            wanted = {"type": "json_schema", "name": "verdict", "strict": True, "schema": prompt.schema()}
            options = options | {"text": {"format": wanted}}
        elif form == "json_object":
            options = options | {"text": {"format": {"type": "json_object"}}}
        system, *rest = prompt.messages()
        create: Any = self._client.responses.create
        answer = await create(model=self._model, instructions=system["content"], input=rest, store=False, **options)
        if not hasattr(answer, "output"):
            return _no_reply(answer, form)
        return Reply(answer.output_text, _responses_usage(answer.usage), form, _raw(answer))


def _raw(answer: Any) -> str:
    """Return a reply as JSON; unlike pydantic's own, this holds lone surrogates, as escapes."""
    return json.dumps(answer.model_dump(mode="python"), default=str)


def _no_reply(answer: Any, form: Form) -> Reply:
    """A gateway's error page with status 200 comes out of the client as a text, or as nothing."""
    shown = " ".join(str(answer).split())[:100]
    failure = Failure(kind="api", type="NoReply", message=f"the endpoint's answer is no model reply: {shown!r}")
    return Reply("", Usage(requests=1), form, str(answer), failure)


def _withheld(choice: Any) -> Failure | None:
    """Return why a chat reply says nothing, where the endpoint tells."""
    if choice.message.refusal:
        return Failure(kind="refusal", type="refusal", message=choice.message.refusal)
    if choice.finish_reason == "content_filter":
        return Failure(kind="content_filter", type="content_filter", message="stopped by the endpoint's filter")
    return None


def _retry(exc: Exception) -> bool | float:
    """Retry connections, timeouts, 408, 409, 429 and 5xx; wait as long as the server says. Not an empty purse."""
    if isinstance(exc, openai.APIStatusError):
        if exc.code == "insufficient_quota" or (exc.status_code < 500 and exc.status_code not in {408, 409, 429}):
            return False
        return _retry_after(exc.response.headers.get("retry-after")) or True
    return isinstance(exc, openai.APIConnectionError)


def _retry_after(value: str | None) -> float | None:
    try:
        return min(float(value), _MAX_RETRY_AFTER_S) if value else None
    except ValueError:
        return None


def _chat_usage(told: Any) -> Usage:
    if told is None:
        return Usage(requests=1)
    return Usage(
        requests=1,
        input=told.prompt_tokens,
        output=told.completion_tokens,
        cached=getattr(told.prompt_tokens_details, "cached_tokens", None),
        reasoning=getattr(told.completion_tokens_details, "reasoning_tokens", None),
    )


def _responses_usage(told: Any) -> Usage:
    if told is None:
        return Usage(requests=1)
    return Usage(
        requests=1,
        input=told.input_tokens,
        output=told.output_tokens,
        cached=getattr(told.input_tokens_details, "cached_tokens", None),
        reasoning=getattr(told.output_tokens_details, "reasoning_tokens", None),
    )
