"""The gate of an endpoint, through which every call goes, and what the calls of a run learn there together."""

import math
import random
import threading
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, TypeVar

import anyio
import httpx2
import openai
from agents import ModelSettings

from harness.core.progress import Clock, Progress, Silent, now
from harness.core.records import Bill, FailureKind
from harness.core.turns import SENDING, my_turn
from harness.endpoints import retries
from harness.endpoints.address import Endpoint
from harness.endpoints.breaker import Breaker, EndpointDown, stays
from harness.endpoints.pace import Pace
from harness.endpoints.refused_settings import FirstAlone, RefusedSettings, values_set
from harness.endpoints.reply_body import NoReply
from harness.endpoints.reply_tokens import NOTHING, TokenRequests, asking_for

_Reply = TypeVar("_Reply")
_Who = Literal["agent", "judge"]
_NO_REQUEST = httpx2.Request("POST", "http://endpoint.invalid")  # the openai client's error wants one
OWN_MODEL = "the agent's own model"
"""In messages: the host of models that the agent brings."""
_SHORTEST_ATTEMPT_S = 1.0  # however short the time to give up


def gate_name(endpoint: Endpoint | None) -> str:
    """Return the name by which people, and the processes of a run, know an endpoint's gate."""
    return endpoint.host if endpoint else OWN_MODEL


@dataclass(frozen=True)
class Patience:
    """How long an endpoint is waited for, in seconds."""

    request_s: float = 120.0
    """For the reply to one attempt of a call (--request-timeout); of a stream, for each of its events."""
    give_up_s: float = 300.0
    """For any reply at all (--give-up)."""
    busy_s: float = math.inf
    """For any reply of a judge that answers with 429s alone, which name no time, where that is less."""


@dataclass(frozen=True)
class GateLesson:
    """What a gate has learnt of its endpoint that holds for the calls of other processes, too."""

    endpoint: str
    """The name of the gate's endpoint."""
    pause_s: float = 0.0
    """For so many seconds from now on no call is to go, because of a 429."""
    given_up: str | None = None
    """Why nothing more is asked of the endpoint."""
    kind: FailureKind = "network"
    """What calls fail with that are not made any more."""


class Gate:
    """Lets calls in as fast as the endpoint takes them; while the endpoint is down, one call tries and the others wait.

    A 429 is a wait, not a failure: the call is sent again, as often as it takes, until `give_up_s` have passed
    without any reply. Calls of other event loops, in other threads, go through the same gate.
    """

    def __init__(
        self, name: str, patience: Patience, rng: random.Random, progress: Progress, clock: Clock = now
    ) -> None:
        """Open the gate of the endpoint `name`; `progress` shows what the user should know meanwhile."""
        self.name, self.patience, self._progress, self._waiting = name, patience, progress, 0
        self.share: Callable[[GateLesson], None] = lambda _: None
        """Called with what the gate learns, to pass it on to other processes."""
        self._pace = Pace(rng, lambda pause_s: self.share(GateLesson(name, pause_s)))
        self._breaker = Breaker(
            name,
            patience.give_up_s,
            progress.note,
            lambda why, kind: self.share(GateLesson(name, 0.0, why, kind)),
            clock,
        )
        self.retried, self.note_headers = progress.retried, self._pace.note_headers
        self._replied_at: float | None = None
        self._lock, self._has_noted_counts = threading.Lock(), False
        self._models: dict[_Who, set[str | None]] = {}
        self._answered: set[str | None] = set()
        self._shut_models: dict[str | None, tuple[str, FailureKind]] = {}
        self.hangs = False
        """Whether the last call to end got no reply in time."""
        self.last_error: str | None = None
        """What became of the last call, in words; None if the call got a reply."""

    @classmethod
    def impatient(cls) -> "Gate":
        """Return a gate that lets every call through once: a 429 is the caller's to see."""
        return cls("the endpoint", Patience(give_up_s=0.0), random.Random(0), Silent())

    @property
    def given_up(self) -> str | None:
        """Why nothing more is asked of the endpoint; None while it is asked."""
        return self._breaker.given_up

    def down_for(self, who: _Who) -> EndpointDown | None:
        """Return why a judge, or each model of the agent that was asked here, gets no more calls; else None."""
        models = [(model, self.why_down(model)) for model in self._models.get(who, ())]
        down = [why for _, why in models if why]
        return down[0] if down and (who == "judge" or len(down) == len(models)) else None

    def why_down(self, model: str | None = None) -> EndpointDown | None:
        """Return why `model` is asked nothing more; without a model, why the endpoint is; None while it is asked."""
        shut = (self.given_up, self._breaker.kind) if self.given_up else self._shut_models.get(model)
        return EndpointDown(*shut) if shut else None

    def _note_asked(self, who: _Who, model: str | None) -> None:
        if who not in self._models:
            self._models[who] = set()
            self._breaker.described = self._describe(*sorted(self._models))
        self._models[who].add(model)

    def _describe(self, *users: _Who) -> str:
        if self.name == OWN_MODEL:
            return self.name
        return f"{' and '.join(f'the {user}' for user in users)}'s endpoint {self.name}"

    def _raise_if_down(self, model: str | None) -> None:
        if down := self.why_down(model):
            raise down

    @property
    def is_down(self) -> bool:
        """Whether call after call failed and none has had a reply since."""
        return not self._breaker.closed

    @property
    def has_answered(self) -> bool:
        """Whether any call has had a reply that could be used."""
        return self._replied_at is not None

    @property
    def open(self) -> bool:
        """Whether a call may go at once."""
        return self._breaker.closed and self._pace.free

    async def send(
        self,
        call: Callable[[], Awaitable[_Reply]],
        clock: retries.TimeLimit = retries.NO_LIMIT,
        leaves: Callable[[], bool] = stays,
        *,
        model: str | None = None,
        who: _Who = "agent",
    ) -> _Reply:
        """Make a call to `model` in its turn, and again after each 429. `clock` stands still while the call waits.

        An attempt that takes longer than `request_s` ends as openai.APITimeoutError; where no reply ever came, one that
        outlives `give_up_s` does, too. Raises what `call` raises: a RateLimitError only where no reply came for
        `give_up_s`; EndpointDown once the endpoint is given up, or refused the model, or where the call would wait for
        an endpoint that is down, or got no reply in time, and `leaves`.
        """
        self._note_asked(who, model)
        began, refused = anyio.current_time(), 0
        while True:
            tries = False
            if not self.open:
                self._raise_if_down(model)
                with self._waits(clock):
                    await self._pace.wait()
                    tries = await self._breaker.wait(leaves)  # whether this call tries an endpoint that is down
            await my_turn(SENDING)
            self._raise_if_down(model)
            sent_at = self._pace.sent()
            try:
                return await self._attempt(call, clock, model, who)
            except openai.RateLimitError as exc:
                self.last_error = retries.describe_trouble(exc, self.name)
                waited_s = anyio.current_time() - max(began, self._replied_at or began)
                left_s = self.patience.give_up_s - waited_s
                named, is_judge = retries.retry_after_s(exc), who == "judge"
                if self.why_down(model) or (is_judge and not named and waited_s >= self.patience.busy_s):
                    raise
                if left_s <= 0:
                    self._breaker.give_up_refusing()
                    self._pace.end()
                    raise
                rest_s = self._pace.refused(sent_at, named, refused, left_s)
                refused += 1
            except openai.APITimeoutError:
                if not leaves():
                    raise
                rest_s = None
            finally:
                if tries:
                    self._breaker.tried()
            if rest_s is None:  # not raised above: the SDK retries what has a timeout behind it
                raise EndpointDown(f"{self.name} gave no reply in time")
            with self._waits(clock):
                await self._pace.rest(rest_s)

    def _shut_out(self, exc: openai.APIStatusError, model: str | None, who: _Who) -> bool:
        """End the endpoint where each later call would be refused as well, but `model` alone where others answered.

        Return whether the endpoint came to an end.
        """
        scope, kind = retries.shuts_out(exc), retries.read_failure(exc).kind
        if scope is None:
            return False
        why = str(retries.as_refusal(exc, model or "the default", self._describe(who), judge=who == "judge"))
        if scope == "model" and self._answered - {model}:
            self._shut_models[model] = self._breaker.dated(why), kind
            return False
        self._breaker.give_up_refused(why, kind)
        self._pace.end()
        return True

    async def _attempt(
        self, call: Callable[[], Awaitable[_Reply]], clock: retries.TimeLimit, model: str | None, who: _Who
    ) -> _Reply:
        """Make a call once; note its reply, or that there was none before the limit on the caller's time."""
        sent_at, most_s = anyio.current_time(), self.patience.request_s
        if not self.has_answered and self.patience.give_up_s:  # no longer than the endpoint is waited for
            most_s = min(most_s, max(self._breaker.left_s, _SHORTEST_ATTEMPT_S))
        try:
            with anyio.move_on_after(most_s):
                reply = await call()
                self._replied_at, self.last_error, self.hangs = anyio.current_time(), None, False
                self._answered.add(model)
                self._breaker.replied()
                self._pace.replied()
                return reply
            raise openai.APITimeoutError(_NO_REQUEST)
        except (openai.APIConnectionError, openai.InternalServerError) as exc:
            self.last_error = retries.describe_trouble(exc, self.name)
            self.hangs = isinstance(exc, openai.APITimeoutError)
            if isinstance(exc, NoReply) and exc.bill and not exc.bill.is_part:
                raise  # a model was at work: the call may be made again
            self._breaker.failed(retries.describe_briefly(exc), sent_at)
            if self.given_up:
                self._pace.end()
            raise
        except openai.APIStatusError as exc:
            self.hangs = False
            if not self._shut_out(exc, model, who):
                self._breaker.replied()  # the endpoint works, and says so
            raise
        except anyio.get_cancelled_exc_class():
            if clock.passed:
                self.hangs = True
                self._breaker.failed("no reply in time", sent_at)
            raise

    def learn(self, lesson: GateLesson) -> None:
        """Go by what the gate of another process learnt of the same endpoint; it is passed on to nobody."""
        if lesson.given_up:
            self._breaker.end(lesson.given_up, lesson.kind)
            self._pace.end()
        elif lesson.pause_s > 0:
            self._pace.pause(lesson.pause_s)

    def check_bill(self, bill: Bill) -> None:
        """Say once where a reply counts tokens as no reply can have them."""
        if bill.is_odd and not self._has_noted_counts:
            self._has_noted_counts = True
            counts = f"{self.name} counts tokens as no reply can have them (negative, in parts, too many)"
            self._progress.note(f"{counts}: such counts are left out, and of what those calls cost a part is unknown")

    @contextmanager
    def _waits(self, clock: retries.TimeLimit) -> Generator[None]:
        with self._lock:
            self._waiting += 1
            self._progress.waiting(self.name, self._waiting)
        try:
            with clock.stopped():
                yield
        finally:
            with self._lock:
                self._waiting -= 1
                self._progress.waiting(self.name, self._waiting)


class Gates:
    """The gates of a command: one for each endpoint and key, which all of the command's calls go through."""

    def __init__(self, progress: Progress, clock: Clock = now, judge_busy_s: float = math.inf) -> None:
        self._progress, self._clock, self._judge_busy_s = progress, clock, judge_busy_s
        self._gates: dict[tuple[str, str, str], Gate] = {}
        self.share: Callable[[GateLesson], None] = lambda _: None
        """Called, in any thread, with all that any gate learns."""
        self.together: list[Sequence[Gate]] = []
        """Gates of endpoints that stand in for each other."""

    @property
    def given_up(self) -> str | None:
        """Why nothing more is asked of an endpoint; None while every endpoint is asked, or another in its place."""
        return "; ".join(map(str, self._down)) or None

    @property
    def out_of_quota(self) -> bool:
        """Whether nothing more is asked of an endpoint because the account is empty."""
        return any(down.kind == "quota" for down in self._down)

    @property
    def _down(self) -> list[EndpointDown]:
        replaced = [gate for gates in self.together if not all(g.down_for("agent") for g in gates) for gate in gates]
        gates = [gate for gate in self._gates.values() if gate not in replaced]
        return [down for g in gates if (down := g.why_down() or g.down_for("judge") or g.down_for("agent"))]

    @property
    def last_errors(self) -> str | None:
        """What became of the last call to each endpoint, in words; None where all of them got a reply."""
        return "; ".join(gate.last_error for gate in self._gates.values() if gate.last_error) or None

    def of(self, endpoint: Endpoint | None, patience: Patience, rng: random.Random, tier: str = "") -> Gate:
        """Return the gate of an endpoint and a service tier; None is where the agent's own models are."""
        place = (endpoint.url, endpoint.key.get_secret_value(), tier) if endpoint else ("", "", tier)
        if (gate := self._gates.get(place)) is None:
            name = f"{gate_name(endpoint)} ({tier})" if tier else gate_name(endpoint)
            patience = replace(patience, busy_s=self._judge_busy_s)
            gate = self._gates[place] = Gate(name, patience, rng, self._progress, self._clock)
            gate.share = lambda lesson: self.share(lesson)  # noqa: PLW0108 - `share` is set anew
        return gate

    def learn(self, lesson: GateLesson) -> None:
        """Have the gates of the lesson's endpoint go by it."""
        for gate in self._gates.values():
            if gate.name == lesson.endpoint:
                gate.learn(lesson)


class EndpointState:
    """What all agent calls of a run share: the endpoint's gate, and the settings that each model refuses.

    The first call to a model with given settings goes alone: what the model refuses is left out by all later ones.
    """

    def __init__(
        self, gate: Gate, refused: RefusedSettings, *, alone_s: float = math.inf, tokens: TokenRequests | None = None
    ) -> None:
        """Leave out what is `refused`. A first call goes alone for `alone_s` at most; `tokens` None: none are asked."""
        self.tokens = tokens or TokenRequests("off", lambda _: None)
        self.gate, self.refused, self._first = gate, refused, FirstAlone(alone_s)

    def has_answered(self) -> bool:
        """Return whether any model has answered in this run."""
        return bool(self._first.answered)

    def call(
        self,
        model: str | None,
        settings: ModelSettings,
        send: Callable[[ModelSettings], Awaitable[_Reply]],
        clock: retries.TimeLimit = retries.NO_LIMIT,
        stream: bool | None = None,
        leaves: Callable[[], bool] = stays,
    ) -> Awaitable[_Reply]:
        """Send a call with those of its settings that `model` takes; `clock` stands still while the call waits.

        Unless `stream` is None, the call may ask for token ids. Raises what `send` raises; Refused when strict;
        EndpointDown as `Gate.send`, where the call `leaves` an endpoint that is down. Not a coroutine itself: the event
        loop walks through every coroutine that awaits a call at each of its turns.
        """
        kind = (model, *values_set(settings))  # the samples may send a setting that the anchor did not
        if self.tokens.wanted and stream is not None:
            kind = (*kind, *self.tokens.asked(stream=stream))

        async def work() -> _Reply:
            doubted: openai.APIStatusError | None = None
            while True:
                allowed = self.refused.allowed(model, settings)
                asked = NOTHING if stream is None or doubted else self.tokens.asked(stream=stream)
                try:
                    sending = partial(send, asking_for(allowed, asked))
                    reply = await self.gate.send(sending, clock, leaves, model=model)
                except (openai.BadRequestError, openai.UnprocessableEntityError) as exc:
                    if self.tokens.refused(exc, asked) or self.refused.learn_from_call(model, exc, settings, allowed):
                        continue
                    if not asked or self.tokens.any_came:
                        raise
                    doubted = exc  # it may be about the tokens without a word of them: the call is made once without
                else:
                    if doubted:
                        self.tokens.refuse(doubted)
                    return reply

        return work() if kind in self._first.answered else self._first.send(kind, work, clock)
