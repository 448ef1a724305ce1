"""Asking a judge model on any OpenAI-compatible endpoint.

The form of the reply (JSON schema, `json_object`, plain text) that it takes is found out by the first call alone.
The service tier flex costs half and has no room at times; where the ordinary tier is named as well, the call goes there
once flex has had no room for all tries, or gave no reply in time.
"""

import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, TypeVar

import anyio
import openai
from pydantic_core import to_json

from harness.core.errors import Refused, option
from harness.core.records import BEGUN, Failure, digest
from harness.core.settings import JudgeTier
from harness.core.turns import JUDGED, JUDGING, UNDER_WAY, my_turn
from harness.endpoints.address import Endpoint
from harness.endpoints.breaker import EndpointDown, stays
from harness.endpoints.client import openai_client
from harness.endpoints.gate import Gate
from harness.endpoints.refused_settings import FirstAlone, RefusedSettings
from harness.endpoints.reply_body import NoReply, model_reply
from harness.endpoints.retries import (
    NO_LIMIT,
    TimeLimit,
    as_refusal,
    describe_trouble,
    error_text,
    is_too_long,
    judge_retries,
    may_succeed_later,
    read_failure,
)
from harness.judging import judge_model
from harness.judging.slots import Slots

_CACHE_KEY = "prompt_cache_key"
"""Calls with the same key go to the machine that has the beginning of their prompts in its cache (OpenAI's API)."""


_Reply = TypeVar("_Reply")
Tier = Literal["default", "flex"]
FLEX_REPLY_S = 900.0
"""The time that OpenAI advises to allow for a reply of the flex tier."""


_RETRIES_IN_HASTE = 2


def _not_asked(down: EndpointDown) -> judge_model.AskFailed:
    return judge_model.AskFailed(Failure(kind=down.kind, type="EndpointDown", message=str(down)))


class TierChoice:
    """The tiers of one call's attempts. Without `--judge-tier` no tier is sent."""

    def __init__(self, setting: JudgeTier, tries: int) -> None:
        """Ask for the cheap tier `tries` times before the ordinary one, where that is named too."""
        self._named = setting != "default"
        self._falls_back = setting == "flex,default"
        self._left = tries

    async def send(self, call: Callable[[Mapping[str, Any]], Awaitable[_Reply]]) -> _Reply:
        """Make an attempt; `call` gets what names the tier. Raises what `call` raises."""
        if not self._named:
            return await call({})
        tier: Tier = "default" if self._falls_back and self._left <= 0 else "flex"
        try:
            return await call({"service_tier": tier})
        except (openai.APITimeoutError, anyio.get_cancelled_exc_class()):  # the gate cancels what comes too late
            self._left = 0
            raise
        except openai.RateLimitError as exc:
            # that the tier has no room, and not that the caller asks too often
            self._left -= "resource unavailable" in f"{exc.code} {exc.type} {error_text(exc)}".lower().replace("_", " ")
            raise


def tier_refusal(exc: openai.APIError, model: str, host: str) -> Refused | None:
    """Return the one-line error for a call whose tier is refused; None for a call refused for anything else."""
    said = error_text(exc)
    if exc.param != "service_tier" and not ("service_tier" in said or "flex" in said.lower()):
        return None
    return Refused(
        f"{host} has no tier flex for the judge's model {model!r} ({said}); leave {option('judge_tier')} out, "
        f"or name a model that has it with {option('judge_model')}"
    )


class EndpointAsk:
    """Asks `model` at an endpoint. At most `limit` calls at a time; transport errors and 5xx are retried."""

    def __init__(
        self,
        endpoint: Endpoint,
        model: str,
        gate: Gate,
        *,
        retries: int,
        limit: int,
        alone_s: float = math.inf,
        extra: Mapping[str, Any] | None = None,
        tier: JudgeTier = "default",
        may_fail: bool = False,
    ) -> None:
        """Set up; the first call goes alone for `alone_s` at most. `extra` are parameters of every request's body.

        A judge that `may_fail` is not waited for: after three tries without any reply yet nothing more is asked of it,
        and no call waits for an endpoint that is down.
        """
        self._tier: JudgeTier = tier
        self._extra = dict(extra or {})
        self._endpoint, self._model, self._gate = endpoint, model, gate
        self._retries = min(retries, _RETRIES_IN_HASTE) if may_fail else retries
        self._may_fail, self._leaves = may_fail, (lambda: gate.is_down) if may_fail else stays
        self._down: EndpointDown | None = None
        rank = JUDGED if math.isinf(alone_s) else UNDER_WAY  # before a deadline no rollout's reply goes before

        async def note_limits(response: Any) -> None:
            gate.note_headers(response.headers)

        self._client = openai_client(endpoint, timeout_s=gate.patience.request_s, on_response=note_limits, rank=rank)
        self._slots = Slots(limit)
        self._first = FirstAlone(alone_s)
        self._refused_settings = RefusedSettings()
        self._form = 0
        self._takes_cache_key = True
        self._refusal: Refused | None = None

    @property
    def given_up(self) -> str | None:
        """Why the endpoint is asked nothing more; None while it is asked."""
        down = self._down or self._gate.why_down(self._model)
        return str(down) if down else None

    async def __call__(self, prompt: judge_model.Question, clock: TimeLimit = NO_LIMIT) -> judge_model.ModelReply:
        """Return the reply. Raises AskFailed; Refused if the endpoint turned the very first call down."""
        if self._model in self._first.answered:
            return await self._ask(prompt, clock)

        async def in_turn() -> judge_model.ModelReply:
            with clock.stopped():  # it may have waited for the first call: rollouts go before all such calls together
                await my_turn(JUDGING)
            return await self._ask(prompt, clock)

        return await self._first.send(self._model, in_turn, clock)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _ask(self, prompt: judge_model.Question, clock: TimeLimit) -> judge_model.ModelReply:
        with clock.stopped():
            await self._slots.take(prompt.beginning)
        try:
            if self._down:
                raise _not_asked(self._down)
            if self._refusal:  # those that waited behind the first call may be let in before they are cancelled
                raise self._refusal
            try:
                return await self._send_allowed(prompt, clock)
            except EndpointDown as exc:
                raise _not_asked(exc) from exc
            except openai.OpenAIError as exc:
                may_mend = may_succeed_later(
                    getattr(exc, "status_code", None), no_reply=isinstance(exc, openai.APIConnectionError)
                )
                if self._may_fail and may_mend and isinstance(exc, openai.APIError) and not self._first.answered:
                    self._down = EndpointDown(describe_trouble(exc, self._endpoint.host))
                works = isinstance(exc, NoReply) and self._gate.has_answered  # for the agent, at this address
                if self._model not in self._first.answered and not works:
                    at = self._endpoint
                    self._refusal = as_refusal(exc, self._model, at.host, judge=True, named_by=at.named_by)
                instead: judge_model.ModelReply | None = None
                if isinstance(exc, NoReply):
                    instead = judge_model.ModelReply("", exc.bill or BEGUN, judge_model.FORMS[self._form], exc.text)
                failure = read_failure(exc)
                if self._down:
                    failure = failure.model_copy(update={"message": f"{self._down} ({failure.message})"})
                raise self._refusal or judge_model.AskFailed(failure, instead) from exc
        finally:
            self._slots.leave(prompt.beginning)

    async def _send_allowed(self, prompt: judge_model.Question, clock: TimeLimit) -> judge_model.ModelReply:
        """Send; where the endpoint refuses an option or the form, send again without it or in the next form."""
        while True:
            wished = judge_model.SAMPLING | (
                {_CACHE_KEY: digest(prompt.beginning)[:32]} if self._takes_cache_key else {}
            )
            refused = self._refused_settings.of(self._model)
            options = {name: value for name, value in wished.items() if name not in refused}
            try:
                return await self._send_retrying(prompt, judge_model.FORMS[self._form], options, clock)
            except (openai.BadRequestError, openai.UnprocessableEntityError) as exc:
                if is_too_long(exc):
                    raise
                if not self._may_send_again(exc, options):
                    raise

    def _may_send_again(self, exc: openai.APIError, options: Mapping[str, Any]) -> bool:
        """Learn from a refusal. Raises Refused where the first call is turned down for its tier."""
        answered = self._model in self._first.answered
        if self._tier != "default" and not answered:
            self._refusal = tier_refusal(exc, self._model, self._endpoint.host)
            if self._refusal:
                raise self._refusal from exc
        if self._refused_settings.learn(self._model, exc, options):
            return True
        about_form = any(word in f"{exc.param} {error_text(exc)}".lower() for word in ("format", "json", "schema"))
        if self._takes_cache_key and not about_form and not answered:  # some endpoints refuse it without naming it
            self._takes_cache_key = False
            return True
        if answered or self._form + 1 == len(judge_model.FORMS):
            return False
        self._form += 1
        return True

    async def _send_retrying(
        self, prompt: judge_model.Question, form: judge_model.Form, options: dict[str, Any], clock: TimeLimit
    ) -> judge_model.ModelReply:
        tiers = TierChoice(self._tier, self._retries + 1)

        def send() -> Awaitable[judge_model.ModelReply]:
            return tiers.send(lambda tier: self._send(prompt, form, {**options, **tier}))

        try:  # without stamina, which leaves 140 objects in cycles for the garbage collector
            return await self._gate.send(send, clock, self._leaves, model=self._model, who="judge")
        except Exception as exc:  # noqa: BLE001 - stamina raises it again, or waits
            first_error = exc
        try:
            async for attempt in judge_retries(self._retries, lambda: self._gate.has_answered):
                with attempt:
                    if attempt.num == 1:
                        raise first_error
                    self._gate.retried()
                    return await self._gate.send(send, clock, self._leaves, model=self._model, who="judge")
        finally:
            del first_error  # its traceback holds this frame
        raise AssertionError("stamina either returns or raises")

    async def _send(
        self, prompt: judge_model.Question, form: judge_model.Form, options: Mapping[str, Any]
    ) -> judge_model.ModelReply:
        api = self._endpoint.api
        body = {**judge_model.request_body(api, self._model, prompt, form, options), **self._extra}
        response = await self._client.send_bytes(judge_model.api_path(api), to_json(body))
        answer = model_reply(response.content, response.request)
        reply = judge_model.read_reply_body(answer, form, tiered=self._tier != "default")
        self._gate.check_bill(reply.bill)
        return reply
