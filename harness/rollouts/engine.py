"""Rolling out: one query, N runs of the agent, each isolated, each ending in a record whatever happens."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import anyio

from harness.core.errors import OutOfQuota
from harness.core.records import Group, Query, Rollout
from harness.core.tracebacks import start_child
from harness.core.turns import BEGINNING, my_turn
from harness.rollouts.attempt import Attempt, RunContext
from harness.rollouts.capture import SPAN_LOG, check_tracing
from harness.rollouts.maker import BegunRollout, FirstCall, RolloutMaker
from harness.rollouts.recorder import Recorder


@dataclass(frozen=True)
class GroupWatch:
    """What is called for whoever waits for a group while it is rolled out."""

    placed: Callable[[], None] = lambda: None
    """No rollout of the group waits for a place any more."""
    ended: Callable[[Group], None] = lambda _: None
    """A rollout has ended and is in the store: the group so far, with what was kept of it."""


UNWATCHED = GroupWatch()


@dataclass(frozen=True)
class Engine:
    """Rolls out queries on one agent, at most `limiter`'s number of rollouts at a time."""

    run_context: RunContext
    limiter: anyio.CapacityLimiter
    first_call: FirstCall
    maker: RolloutMaker

    async def roll_out(self, query: Query, kept: Sequence[Rollout] = (), watch: GroupWatch = UNWATCHED) -> Group:
        """Run the agent `settings.n` times on `query`, less those `kept`: index 0 is the anchor, the others sample.

        All are in the store when this returns. One that --max-cost leaves no room for, or that comes after the endpoint
        was given up or the user asked to stop, is not begun. With a deadline, those under way are left, as failed, once
        two thirds of the time are over and two have ended well, or at the deadline. Raises Refused if the very first
        call was turned down, or a temperature in strict mode; OutOfQuota once the account is empty.
        """
        check_tracing()
        done, shown = {r.index: r for r in kept}, self.run_context.store.redact.record(query)
        missing = [i for i in range(self.run_context.settings.n) if i not in done]
        in_line = set(missing)
        self.run_context.progress.expect("rollouts", len(missing))

        def so_far() -> Group:
            return Group(query=shown, rollouts=tuple(done[i] for i in sorted(done)))

        async def roll_out_one(index: int) -> None:
            try:
                async with self.limiter:
                    in_line.discard(index)
                    if not in_line:
                        watch.placed()
                    leads = await self.first_call.lead_or_wait()
                    await self._attempt(query, index, done, leads=leads)
            finally:
                self.run_context.progress.done("rollouts")
            tasks.cancel_scope.deadline = self._waits_until(done)
            if index in done:
                watch.ended(so_far())

        async with anyio.create_task_group() as tasks:
            tasks.cancel_scope.deadline = self._waits_until(done)
            for index in missing:
                start_child(tasks, roll_out_one, index)
        return so_far()

    def _waits_until(self, done: Mapping[int, Rollout]) -> float:
        """Return the time until which rollouts are waited for: two that can be compared are waited for longest."""
        deadline = self.run_context.deadline
        ended_well = sum(rollout.status == "ok" for rollout in done.values())
        return deadline.at if ended_well < 2 else deadline.rollouts_at

    async def _attempt(self, query: Query, index: int, done: dict[int, Rollout], *, leads: bool) -> None:
        """Make a rollout, unless the ceiling has no room, the endpoint was given up or the user asked to stop."""
        ceiling = self.run_context.ceiling
        usd: float | None = 0.0

        def is_late() -> bool:
            return anyio.current_time() >= self._waits_until(done)

        if self.run_context.stop.asked or self.run_context.given_up or not await ceiling.begin("agent"):
            if leads:
                self.first_call.over()
            return
        try:
            await my_turn(index + 1 if self.run_context.deadline.is_set else BEGINNING)  # else a free place goes first
            await self.maker.make(BegunRollout(query, index, self.first_call, done, is_late, leads=leads))
            await self.run_context.store.commit()
            if (failure := done[index].failure) and failure.kind == "quota":
                raise OutOfQuota(f"the endpoint says that the quota is used up ({failure.message})")
            usd = done[index].price_usd
        finally:
            ceiling.end("agent", usd)

    async def fingerprint(self, query: Query, index: int) -> str | None:
        """Return the fingerprint that a rollout would have now, stopping it before its first model call."""
        recorder = Recorder(state=self.run_context.models.state, stop_before_first_call=True)
        attempt = Attempt(self.run_context, query, index, recorder, self.run_context.clock())
        await attempt.run()
        SPAN_LOG.take(attempt.trace_id)
        return recorder.fingerprint
