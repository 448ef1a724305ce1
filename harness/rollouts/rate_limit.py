"""What the rollouts of a run learn together about their endpoints: settings refused, and when to slow down."""

import dataclasses
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar, cast

import anyio
import openai
from agents import ModelRetrySettings, ModelSettings, RetryDecision, RetryPolicyContext

from harness.core.errors import Refused

RETRIES = 5
_LONGEST_WAIT_S = 60.0
_SHORTEST_PAUSE_S = 0.5
_TRANSIENT = {408, 409, 429}
_REFUSABLE = ("temperature", "top_p", "seed", "stream_options")

Answer = TypeVar("Answer")
Send = Callable[[ModelSettings], Awaitable[Answer]]


class Traffic:
    """Shared by all model calls of a run, so that a lesson is paid for once.

    A setting that a model refuses (temperature, top_p, seed) is found by that model's first call, which goes alone,
    and left out from then on. A 429 pauses everyone, not just the rollout that met it.
    """

    def __init__(self, note: Callable[[str], None], *, strict: bool = False) -> None:
        """Tell `note` once of each refused setting; with `strict` a refused temperature ends the run instead."""
        self._note, self._strict = note, strict
        self._refused: dict[str | None, dict[str, str]] = {}
        self._answered: set[tuple[str | None, ...]] = set()
        self._first: dict[tuple[str | None, ...], anyio.Lock] = {}
        self._paused_until = 0.0

    @property
    def heard(self) -> bool:
        """Whether any model has answered in this run."""
        return bool(self._answered)

    def call(self, model: str | None, settings: ModelSettings, send: Send[Answer]) -> Awaitable[Answer]:
        """Send a call with the settings that `model` takes. Raises what `send` raises; Refused when strict.

        No coroutine of its own: every turn of the loop walks through all that await a call.
        """
        kind = (model, *_present(settings))  # the samples may send a setting that the anchor did not
        return (self._send if kind in self._answered else self._alone)(model, settings, send)

    async def _alone(self, model: str | None, settings: ModelSettings, send: Send[Answer]) -> Answer:
        """Send the first call of its kind alone, and those that waited for it after it."""
        kind = (model, *_present(settings))
        async with self._first.setdefault(kind, anyio.Lock()):
            if kind not in self._answered:
                response = await self._send(model, settings, send)
                self._answered.add(kind)
                return response
        return await self._send(model, settings, send)

    async def _send(self, model: str | None, settings: ModelSettings, send: Send[Answer]) -> Answer:
        while True:
            await self._wait_for_the_pause_to_end()
            allowed = without(settings, self._refused.get(model, {}))
            try:
                return await send(allowed)
            except (openai.BadRequestError, openai.UnprocessableEntityError) as exc:
                name = refused_setting(exc, allowed)
                if name is None:
                    raise
                self._learn(model, name, exc)
            except openai.RateLimitError as exc:
                if exc.code != "insufficient_quota":
                    self._pause(retry_after(exc))
                raise

    def _learn(self, model: str | None, name: str, exc: openai.APIStatusError) -> None:
        known = self._refused.setdefault(model, {})
        if self._strict and name == "temperature":
            raise Refused(
                f"model {model!r} refuses the setting temperature, and --strict-temperature is on "
                f"({exc.message}); leave that off to go on without, or name another --model"
            )
        if name not in known:
            known[name] = exc.message
            greedy = "; its anchor is not greedy" if name == "temperature" else ""
            self._note(f"model {model!r} refuses the setting {name}: going on without it{greedy}")

    def _pause(self, seconds: float | None) -> None:
        until = anyio.current_time() + max(_SHORTEST_PAUSE_S, min(seconds or 0.0, _LONGEST_WAIT_S))
        self._paused_until = max(self._paused_until, until)

    async def _wait_for_the_pause_to_end(self) -> None:
        if anyio.current_time() < self._paused_until:  # else even a sleep of no length costs a turn of the loop
            await anyio.sleep_until(self._paused_until)


def refused_setting(exc: openai.APIStatusError, sent: ModelSettings) -> str | None:
    """Return which of the sampling settings that were sent a 400 or 422 objects to; None if it is about something else.

    OpenAI names it in `param`; other servers leave that empty and say it in the message (shared facts on endpoints).
    """
    present = _present(sent)
    if exc.param in present:
        return exc.param
    if exc.param:
        return None
    said = str(exc.message).lower()
    return next((n for n in present if n in said), None)


def without(settings: ModelSettings, names: Sequence[str] | dict[str, str]) -> ModelSettings:
    """Return settings less those named."""
    left: dict[str, Any] = {n: None for n in ("temperature", "top_p") if n in names}
    if "stream_options" in names:
        left["include_usage"] = None
    if "seed" in names and _value(settings, "seed") is not None:
        body = cast("dict[str, Any]", settings.extra_body)
        left["extra_body"] = {k: v for k, v in body.items() if k != "seed"} or None
    return dataclasses.replace(settings, **left) if left else settings


def seed_of(settings: ModelSettings) -> int | None:
    """Return the seed that settings carry in the request's extra body."""
    return _value(settings, "seed")


def retry_settings(rng: random.Random, traffic: Traffic) -> ModelRetrySettings:
    """Return the runner-managed retries of a rollout's model calls: transport errors, 408, 409, 429 and 5xx.

    A Retry-After is honoured; otherwise the wait doubles from half a second, drawn from `rng` so that rollouts that
    failed together do not come back together. An empty purse is not retried, and an address that has never answered
    only once: it is more likely wrong than resting.
    """

    def policy(context: RetryPolicyContext) -> bool | RetryDecision:
        told = context.normalized
        code = told.status_code or 0
        transient = told.is_network_error or told.is_timeout or code in _TRANSIENT or code >= 500
        if not transient or told.error_code == "insufficient_quota":
            return False
        if told.is_network_error and not told.is_timeout and not traffic.heard and context.attempt > 1:
            return False
        backoff = 0.5 * 2 ** (context.attempt - 1) * rng.uniform(0.5, 1.5)
        return RetryDecision(retry=True, delay=min(told.retry_after or backoff, _LONGEST_WAIT_S))

    return ModelRetrySettings(max_retries=RETRIES, policy=policy)


def retry_after(exc: openai.APIStatusError) -> float | None:
    """Return the seconds that a Retry-After header asks for, None if there is none."""
    try:
        return float(exc.response.headers.get("retry-after") or "")
    except ValueError:
        return None


def _present(settings: ModelSettings) -> list[str]:
    return [n for n in _REFUSABLE if _value(settings, n) is not None]


def _value(settings: ModelSettings, name: str) -> Any:
    if name == "seed":
        body = cast("dict[str, Any]", getattr(settings, "extra_body", None) or {})
        return body.get("seed")
    return getattr(settings, "include_usage" if name == "stream_options" else name)
