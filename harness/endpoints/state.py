"""What the agent calls of a run learn together about their model servers, so that each lesson is paid for once."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import openai
from agents import ModelSettings

from harness.endpoints.call_settings import names_set, without
from harness.endpoints.errors import is_quota
from harness.endpoints.rate_limit import Pause
from harness.endpoints.refused_settings import FirstAlone, RefusedSettings

_Reply = TypeVar("_Reply")
Send = Callable[[ModelSettings], Awaitable[_Reply]]


class EndpointState:
    """Settings that a model refuses, and the pause after a 429: shared by all agent calls of a run.

    The first call to a model with given settings goes alone: what the model refuses is left out by all later ones.
    """

    def __init__(self, note: Callable[[str], None], *, strict: bool = False) -> None:
        """Tell `note` once of each refused setting; with `strict` a refused temperature ends the run instead."""
        self._refused = RefusedSettings(note, strict=strict)
        self._first = FirstAlone()
        self._pause = Pause()

    def has_answered(self) -> bool:
        """Return whether any model has answered in this run."""
        return bool(self._first.answered)

    def call(self, model: str | None, settings: ModelSettings, send: Send[_Reply]) -> Awaitable[_Reply]:
        """Send a call with those of its settings that `model` takes. Raises what `send` raises; Refused when strict.

        Not a coroutine itself: the event loop walks through every coroutine that awaits a call at each of its turns.
        """
        kind = (model, *names_set(settings))  # the samples may send a setting that the anchor did not
        if kind in self._first.answered:
            return self._send(model, settings, send)
        return self._first.send(kind, partial(self._send, model, settings, send))

    async def _send(self, model: str | None, settings: ModelSettings, send: Send[_Reply]) -> _Reply:
        while True:
            await self._pause.wait()
            allowed = without(settings, self._refused.of(model))
            try:
                return await send(allowed)
            except (openai.BadRequestError, openai.UnprocessableEntityError) as exc:
                if not self._refused.learn(model, exc, names_set(allowed)):
                    raise
            except openai.RateLimitError as exc:
                if not is_quota(exc):
                    self._pause.begin(exc)
                raise
