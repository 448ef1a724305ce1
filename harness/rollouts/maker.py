"""Making one rollout whose turn has come, here or wherever another maker does it; the first of a run goes ahead."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import anyio
import anyio.lowlevel

from harness.core.cost import total_cost
from harness.core.errors import Refused, UsageError
from harness.core.records import Failure, ModelCall, Query, Rollout
from harness.endpoints.breaker import LoopsEvent
from harness.endpoints.costs import Ceiling
from harness.endpoints.refused_settings import OPENS_AFTER_S
from harness.endpoints.retries import TimeLimit, as_refusal
from harness.rollouts.agent_code import NO_CONTEXT
from harness.rollouts.approval_gate import ChosenApprover
from harness.rollouts.attempt import Attempt, sampling_seed
from harness.rollouts.capture import SPAN_LOG
from harness.rollouts.checkpoints import Attempted
from harness.rollouts.model_calls import effective_settings, total_usage
from harness.rollouts.outcomes import AgentOutcome
from harness.rollouts.recorder import Recorder
from harness.rollouts.run_context import RunContext
from harness.rollouts.variation import dealt, vary_in


class FirstCall:
    """Lets one rollout go first, until its first reply: a wrong key, model or address then costs one call."""

    def __init__(self, alone_s: float = OPENS_AFTER_S) -> None:
        """Nobody has gone yet. The first goes alone for `alone_s`, and OPENS_AFTER_S, at most."""
        self._alone_s = min(alone_s, OPENS_AFTER_S)
        self._opens_at: float | None = None
        self._through = LoopsEvent()
        self.answered = False
        self.beside: Sequence[FirstCall] = (self,)
        """Those of all runs that are made side by side: they go one after another, and before all other calls."""

    async def lead_or_wait(self) -> bool:
        """Return True to the first caller in its turn, False to the others after its reply or end, or a while."""
        if leads := self._opens_at is None:
            self._opens_at = anyio.current_time() + self._alone_s
        with anyio.move_on_after(self._opens_at - anyio.current_time()):
            if not leads:
                await anyio.lowlevel.checkpoint()  # a run that has just ended begins no more
            for other in self.beside[: self.beside.index(self)] if leads else self.beside:
                await other.wait()
        return leads

    async def wait(self) -> None:
        """Wait for the leader's first reply or end."""
        await self._through.wait()

    def reply(self) -> None:
        """A reply came in, in whatever thread: all may go."""
        self.answered = True
        self._through.set()

    def over(self) -> None:
        """The leader has ended; all may go."""
        self._through.set()


class SideBySide:
    """What runs share that are made side by side: places and a ceiling. A free place goes to whoever has begun least.

    So all of them meet the same load at the same hour, and what they take can be compared. No place is given before
    each of them has asked for one, or left.
    """

    def __init__(self, runs: int, places: int, ceiling: Ceiling) -> None:
        self.sides = tuple(Alongside(self) for _ in range(runs))
        self.ceiling, self._free = ceiling, places
        for side in self.sides:
            side.first_call.beside = [each.first_call for each in self.sides]

    def give(self, freed: int = 0) -> None:
        """Give places, `freed` more than before, to those that wait."""
        self._free += freed
        while self._free and all(side.is_here for side in self.sides):
            if not (waiting := [side for side in self.sides if side.waiting]):
                return
            side = min(waiting, key=lambda side: side.begun)
            side.waiting.popleft().set()
            side.begun += 1
            self._free -= 1


@dataclass(eq=False)
class Alongside:
    """One of the runs. Each `async with` it takes a place."""

    among: SideBySide = field(repr=False)
    first_call: FirstCall = field(default_factory=FirstCall)
    waiting: deque[anyio.Event] = field(default_factory=deque[anyio.Event])
    begun: int = 0
    is_here: bool = False

    async def __aenter__(self) -> None:
        given = anyio.Event()
        self.waiting.append(given)
        self.is_here = True
        try:
            await anyio.lowlevel.checkpoint()  # those that ask at the same moment have asked before any place is given
            self.among.give()
            await given.wait()
        except BaseException:
            if given.is_set():
                self.among.give(freed=1)
            else:
                self.waiting.remove(given)
            raise

    async def __aexit__(self, *_: object) -> None:
        self.among.give(freed=1)

    def leave(self) -> None:
        """Let the others go on: this run is over."""
        self.is_here = True
        self.first_call.over()
        self.among.give()


@dataclass
class BegunRollout:
    """A rollout that begins now: it has a place, and the ceiling has room for it."""

    query: Query
    index: int
    first_call: FirstCall
    done: dict[int, Rollout]
    """Where the record goes, by its index."""
    is_late: Callable[[], bool]
    """Whether a deadline is why it is cancelled."""
    before: Attempted | None = None
    """What an attempt before has had, to go on from; None where it had no reply."""
    leads: bool = field(kw_only=True)
    """Whether the others wait for its first reply."""


class RolloutMaker(Protocol):
    """Makes rollouts whose turn has come."""

    async def make(self, begun: BegunRollout) -> None:
        """Run the agent once, keep the record in the run's store, and put it into `done`, also when cancelled.

        Raises Refused if the endpoint turned down the very first call, or a temperature in strict mode, and UsageError
        if the agent reads a context before that call and there is none: then there is no record.
        """
        ...


@dataclass(frozen=True)
class RolloutsHere:
    """Makes rollouts in this process, on this event loop."""

    run_context: RunContext
    goes_elsewhere: Callable[[Failure, Attempted | None], bool] = lambda _failure, _had: False
    """Whether a rollout that failed is made on another server, from what it has had, and leaves no record here."""
    other_is_up: Callable[[], bool] = lambda: False
    """Whether a rollout that is free to go need not wait for a server that is down."""
    on_begin: Callable[[Attempt], None] = lambda _: None
    """Called with what is about to run."""

    async def make(self, begun: BegunRollout) -> None:
        """Run the agent once, as RolloutMaker says; from the beginning where it cannot go on from an attempt before."""
        while why := await self._make(begun):
            begun.before = begun.before and begun.before.anew()
            self.run_context.progress.note(f"rollout {begun.index} of query {begun.query.id} begins anew: {why}")

    async def _make(self, begun: BegunRollout) -> str | None:
        """Make the rollout, or return why it cannot go on from what the attempt before has had."""
        run_context, query, index = self.run_context, begun.query, begun.index
        settings, start = run_context.settings, begun.before.start if begun.before else None
        recipe = start.recipe if start else dealt(settings, query.id, index)
        recorder = Recorder(
            on_reply=begun.first_call.reply,
            state=run_context.models.state,
            limit=TimeLimit(settings.timeout),
            seed=sampling_seed(run_context, query, index),
            approver=ChosenApprover(settings.approve, run_context.loaded.approve),
            greedy=index == 0 and vary_in(settings).temperature and not settings.anchor_temperature,
            effort=recipe and recipe.effort,
            policy_version=run_context.policy_version,
        )
        attempt = Attempt(run_context, query, index, recorder, run_context.clock(), before=begun.before)
        self.on_begin(attempt)
        keeper = attempt.keep_as_it_comes() if run_context.loaded.replayable else None

        def had() -> Attempted | None:
            """Return what another server can go on from; None where it cannot."""
            if not recorder.has_reply:
                return (begun.before and begun.before.anew()) or Attempted()
            return keeper.had.or_anew() if keeper and not keeper.had.is_bound else None

        recorder.goes_elsewhere = lambda: had() is not None and self.other_is_up()
        try:
            outcome = await attempt.run()
        except anyio.get_cancelled_exc_class():
            error = run_context.models.state.gate.last_error
            late = f"left: it had not ended by the deadline{f'; the last error: {error}' if error else ''}"
            how, why = ("Late", late) if begun.is_late() else ("Cancelled", "stopped before it ended")
            cancelled = AgentOutcome(failure=Failure(kind="cancelled", type=how, message=why))
            begun.done[index] = attempt.record(cancelled)
            raise
        except Refused:  # of an attempt that is forgotten nothing was spent
            SPAN_LOG.take(attempt.trace_id)
            raise
        if begun.before and (why := attempt.cannot_go_on(outcome)):
            SPAN_LOG.take(attempt.trace_id)
            return why
        if begun.leads and not begun.first_call.answered:
            calls, endpoint = recorder.calls, run_context.models.endpoint
            model = settings.model or (calls[0].model if calls else None) or "the default"
            refusal = as_refusal(outcome.error, model, endpoint.host if endpoint else "the agent's endpoint")
            if refusal:
                SPAN_LOG.take(attempt.trace_id)
                raise refusal from outcome.error
            if outcome.failure and NO_CONTEXT in outcome.failure.message:  # all others would fail likewise
                SPAN_LOG.take(attempt.trace_id)
                raise UsageError(f"agent {run_context.loaded.name!r} failed at once: {outcome.failure.message}")
            begun.first_call.over()
        if outcome.failure and self.goes_elsewhere(outcome.failure, had()):
            SPAN_LOG.take(attempt.trace_id)
            return None
        begun.done[index] = await attempt.settle(outcome)
        return None


def record_lost(
    run_context: RunContext, query: Query, index: int, failure: Failure, calls: Sequence[ModelCall] = ()
) -> Rollout:
    """Keep a rollout whose record did not come back, with the calls that were told before."""
    recorder = Recorder(state=run_context.models.state, seed=sampling_seed(run_context, query, index))
    attempt = Attempt(run_context, query, index, recorder, run_context.clock())
    told = dict[str, Any]()
    if calls:
        told |= total_cost([call.cost for call in calls]).named("price_usd")
        told |= {"calls": tuple(calls), "usage": total_usage(calls)}
        told["effective"] = effective_settings(calls, attempt.requested.temperature)
        gap = "its process ended before it could tell requests, replies and steps"
        told |= {"capture": "partial", "capture_gaps": (gap,)}
    return attempt.record(AgentOutcome(failure=failure), **told)
