"""Rolling out: one query, N runs of the agent, each isolated, each ending in a record whatever happens."""

import asyncio
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import anyio

from harness.core.errors import OutOfQuota, Refused
from harness.core.records import Failure, Group, Query, Rollout
from harness.core.tracebacks import start_child
from harness.core.turns import my_turn
from harness.endpoints import OPENS_AFTER_S, TimeLimit, refusal_of
from harness.rollouts.approvals import ChosenApprover
from harness.rollouts.attempt import AgentOutcome, Attempt, RunContext, sampling_seed
from harness.rollouts.capture import check_tracing, log_kept
from harness.rollouts.recorder import Recorder
from harness.rollouts.sdk_runner import runner_kept

_CANCELLED = AgentOutcome(failure=Failure(kind="cancelled", type="Cancelled", message="stopped before it ended"))
_LATE = "left: it had not ended by the deadline"
_A_PAIR = 2


class FirstCall:
    """Lets one rollout go first, until its first reply is in.

    A wrong key, model or address then costs one call, and is one error of the whole run instead of N failed rollouts.
    """

    def __init__(self, alone_s: float = OPENS_AFTER_S) -> None:
        """Nobody has gone yet. The first goes alone for `alone_s`, and OPENS_AFTER_S, at most."""
        self._alone_s = min(alone_s, OPENS_AFTER_S)
        self._opens_at: float | None = None
        self._through = anyio.Event()
        self.answered = False

    async def lead_or_wait(self) -> bool:
        """Return True to the first caller at once, False to the others once a reply is in or the leader has ended.

        The others do not wait for long, all of them together: a leader that hangs must not hold them up.
        """
        if self._opens_at is None:
            self._opens_at = anyio.current_time() + self._alone_s
            return True
        with anyio.move_on_after(self._opens_at - anyio.current_time()):
            await self._through.wait()
        return False

    def reply(self) -> None:
        """A reply came in: all may go."""
        self.answered = True
        self._through.set()

    def over(self) -> None:
        """The leader has ended; all may go."""
        self._through.set()


def on_this_thread(function: Callable[[], None]) -> Callable[[], None]:
    """Return what has this thread's event loop call `function`, from whatever thread it is called itself."""
    thread, loop = threading.get_ident(), asyncio.get_running_loop()

    def call() -> None:
        if threading.get_ident() == thread:
            function()
        else:
            loop.call_soon_threadsafe(function)

    return call


@contextmanager
def sdk_in_hand() -> Generator[None]:
    """Keep the SDK's runner and tracing as rollouts need them until this ends; runs of the user's own notice nothing.

    Every rollout sees to that by itself. Around all of them, this stops what outlives its rollout: a thread of a tool.
    """
    with runner_kept(), log_kept():
        yield


@dataclass(frozen=True)
class Engine:
    """Rolls out queries on one agent, at most `limiter`'s number of rollouts at a time."""

    run_context: RunContext
    limiter: anyio.CapacityLimiter
    first_call: FirstCall

    async def roll_out(self, query: Query, kept: Sequence[Rollout] = ()) -> Group:
        """Run the agent `settings.n` times on `query`, less those `kept`: index 0 is the anchor, the others sample.

        Every rollout is in the store when this returns, failed ones with their cause and steps so far. A rollout that
        --max-cost leaves no room for, or that comes after the endpoint was given up or the user asked to stop, is not
        begun, and not in the group. With a deadline, those under way are left once two thirds of the time are over and
        two have ended well, or at the deadline, and are in the group as failed. Raises Refused if the endpoint turned
        the very first call down, or a temperature in strict mode; OutOfQuota once the account is empty.
        """
        check_tracing()
        done = {r.index: r for r in kept}
        missing = [i for i in range(self.run_context.settings.n) if i not in done]
        self.run_context.progress.expect("rollouts", len(missing))

        async def roll_out_one(index: int) -> None:
            try:
                async with self.limiter:
                    leads = await self.first_call.lead_or_wait()
                    await self._within_ceiling(query, index, done, leads=leads)
            finally:
                self.run_context.progress.done("rollouts")
            tasks.cancel_scope.deadline = self._waits_until(done)

        async with anyio.create_task_group() as tasks:
            tasks.cancel_scope.deadline = self._waits_until(done)
            for index in missing:
                start_child(tasks, roll_out_one, index)
        return Group(query=self.run_context.store.redact.record(query), rollouts=tuple(done[i] for i in sorted(done)))

    def _waits_until(self, done: Mapping[int, Rollout]) -> float:
        """Return the time until which rollouts are waited for: two that can be compared are waited for longest."""
        deadline = self.run_context.deadline
        ended_well = sum(rollout.status == "ok" for rollout in done.values())
        return deadline.at if ended_well < _A_PAIR else deadline.rollouts_at

    async def _within_ceiling(self, query: Query, index: int, done: dict[int, Rollout], *, leads: bool) -> None:
        ceiling, state = self.run_context.ceiling, self.run_context.models.state
        usd: float | None = 0.0
        if self.run_context.stop.asked or state.given_up or not await ceiling.begin("agent"):
            if leads:
                self.first_call.over()
            return
        try:
            await self._attempt(query, index, done, leads=leads)
            usd = done[index].price_usd
        finally:
            ceiling.end("agent", usd)

    async def fingerprint(self, query: Query, index: int) -> str | None:
        """Return the fingerprint that a rollout would have now, stopping it before its first model call."""
        recorder = Recorder(state=self.run_context.models.state, stop_before_first_call=True)
        attempt = Attempt(self.run_context, query, index, recorder, self.run_context.clock())
        await attempt.run()
        attempt.drop()
        return recorder.fingerprint

    async def _attempt(self, query: Query, index: int, done: dict[int, Rollout], *, leads: bool) -> None:
        await my_turn(index + 1)
        seed = sampling_seed(self.run_context, query, index)
        recorder = Recorder(
            on_reply=on_this_thread(self.first_call.reply),
            state=self.run_context.models.state,
            limit=TimeLimit(self.run_context.settings.timeout),
            seed=seed,
            approver=ChosenApprover(self.run_context.settings.approve, self.run_context.loaded.approve),
            greedy=index == 0,
        )
        attempt = Attempt(self.run_context, query, index, recorder, self.run_context.clock())
        try:
            outcome = await attempt.run()
        except anyio.get_cancelled_exc_class():
            late = anyio.current_time() >= self._waits_until(done)
            done[index] = attempt.record(_late(self.run_context) if late else _CANCELLED)
            raise
        except Refused:
            attempt.drop()
            raise
        if leads:
            self._raise_if_refused(attempt, outcome)
            self.first_call.over()
        done[index] = rollout = await attempt.settle(outcome)
        await self.run_context.store.commit()
        if rollout.failure and rollout.failure.kind == "quota":
            raise OutOfQuota(f"the endpoint says that the quota is used up ({rollout.failure.message})")

    def _raise_if_refused(self, attempt: Attempt, outcome: AgentOutcome) -> None:
        if self.first_call.answered:
            return
        calls, endpoint = attempt.recorder.calls, self.run_context.models.endpoint
        model = self.run_context.settings.model or (calls[0].model if calls else None) or "the default"
        refusal = refusal_of(outcome.error, model, endpoint.host if endpoint else "the agent's endpoint")
        if refusal:
            attempt.drop()
            raise refusal from outcome.error


def _late(run_context: RunContext) -> AgentOutcome:
    error = run_context.models.state.last_error
    message = f"{_LATE}; the last error: {error}" if error else _LATE
    return AgentOutcome(failure=Failure(kind="cancelled", type="Late", message=message))
