"""What the agent calls of a run learn together about their model servers, so that each lesson is paid for once."""

import math
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import openai
from agents import ModelSettings

from harness.endpoints.call_settings import names_set, without
from harness.endpoints.gate import Gate
from harness.endpoints.refused_settings import FirstAlone, RefusedSettings
from harness.endpoints.time_limit import NO_LIMIT, Stoppable

_Reply = TypeVar("_Reply")
Send = Callable[[ModelSettings], Awaitable[_Reply]]


class EndpointState:
    """What all agent calls of a run share: the endpoint's gate, and the settings that each model refuses.

    The first call to a model with given settings goes alone: what the model refuses is left out by all later ones.
    """

    def __init__(
        self, gate: Gate, note: Callable[[str], None], *, strict: bool = False, alone_s: float = math.inf
    ) -> None:
        """Tell `note` once of each refused setting; with `strict` a refused temperature ends the run instead.

        A first call goes alone for `alone_s` at most.
        """
        self._gate = gate
        self._refused = RefusedSettings(note, strict=strict)
        self._first = FirstAlone(alone_s)

    @property
    def given_up(self) -> str | None:
        """Why nothing more is asked of the endpoint; None while it is asked."""
        return self._gate.given_up

    @property
    def last_error(self) -> str | None:
        """What became of the last call, in words; None if the call got a reply."""
        return self._gate.last_error

    def has_answered(self) -> bool:
        """Return whether any model has answered in this run."""
        return bool(self._first.answered)

    def call(
        self, model: str | None, settings: ModelSettings, send: Send[_Reply], clock: Stoppable = NO_LIMIT
    ) -> Awaitable[_Reply]:
        """Send a call with those of its settings that `model` takes; `clock` stands still while the call waits.

        Raises what `send` raises; Refused when strict. Not a coroutine itself: the event loop walks through every
        coroutine that awaits a call at each of its turns.
        """
        kind = (model, *names_set(settings))  # the samples may send a setting that the anchor did not
        if kind in self._first.answered:
            return self._send(model, settings, send, clock)
        return self._first.send(kind, partial(self._send, model, settings, send, clock), clock)

    async def _send(self, model: str | None, settings: ModelSettings, send: Send[_Reply], clock: Stoppable) -> _Reply:
        while True:
            allowed = without(settings, self._refused.of(model))
            try:
                return await self._gate.send(partial(send, allowed), clock)
            except (openai.BadRequestError, openai.UnprocessableEntityError) as exc:
                if not self._refused.learn(model, exc, names_set(allowed)):
                    raise
