"""What the agent calls of a run learn together about their model servers, so that each lesson is paid for once."""

import math
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import openai
from agents import ModelSettings

from harness.endpoints.breaker import stays
from harness.endpoints.gate import Gate
from harness.endpoints.refused_settings import FirstAlone, RefusedSettings, names_set, without
from harness.endpoints.reply_tokens import NOTHING, TokenRequests, asking_for
from harness.endpoints.retries import NO_LIMIT, TimeLimit

_Reply = TypeVar("_Reply")


class EndpointState:
    """What all agent calls of a run share: the endpoint's gate, and the settings that each model refuses.

    The first call to a model with given settings goes alone: what the model refuses is left out by all later ones.
    """

    def __init__(
        self, gate: Gate, refused: RefusedSettings, *, alone_s: float = math.inf, tokens: TokenRequests | None = None
    ) -> None:
        """Leave out what is `refused`. A first call goes alone for `alone_s` at most; `tokens` None: none are asked."""
        self.tokens = tokens or TokenRequests("off", lambda _: None)
        self.gate, self.refused = gate, refused
        self._first = FirstAlone(alone_s)

    def has_answered(self) -> bool:
        """Return whether any model has answered in this run."""
        return bool(self._first.answered)

    def call(
        self,
        model: str | None,
        settings: ModelSettings,
        send: Callable[[ModelSettings], Awaitable[_Reply]],
        clock: TimeLimit = NO_LIMIT,
        stream: bool | None = None,
        leaves: Callable[[], bool] = stays,
    ) -> Awaitable[_Reply]:
        """Send a call with those of its settings that `model` takes; `clock` stands still while the call waits.

        Unless `stream` is None, the call may ask for token ids. Raises what `send` raises; Refused when strict;
        EndpointDown as `Gate.send`, where the call `leaves` an endpoint that is down. Not a coroutine itself: the event
        loop walks through every coroutine that awaits a call at each of its turns.
        """
        kind = (model, *names_set(settings))  # the samples may send a setting that the anchor did not
        if self.tokens.wanted and stream is not None:
            kind = (*kind, *self.tokens.asked(stream=stream))

        async def work() -> _Reply:
            doubted: openai.APIStatusError | None = None
            while True:
                allowed = without(settings, self.refused.of(model))
                asked = NOTHING if stream is None or doubted else self.tokens.asked(stream=stream)
                try:
                    reply = await self.gate.send(partial(send, asking_for(allowed, asked)), clock, leaves)
                except (openai.BadRequestError, openai.UnprocessableEntityError) as exc:
                    if self.tokens.refused(exc, asked) or self.refused.learn(model, exc, names_set(allowed)):
                        continue
                    if not asked or self.tokens.any_came:
                        raise
                    doubted = exc  # it may be about the tokens without a word of them: the call is made once without
                else:
                    if doubted:
                        self.tokens.refuse(doubted)
                    return reply

        return work() if kind in self._first.answered else self._first.send(kind, work, clock)
