"""Rolling out: one query, N runs of the agent, each isolated, each ending in a record, each at the freest server.

A server whose rollouts fail for the server's own reasons fails them fast, and would have the fewest at any time. It
rests, ever longer; then one rollout tries it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace

import anyio

from harness.core.cost import Cost
from harness.core.errors import OutOfQuota, Refused, option
from harness.core.records import Failure, Group, Query, Rollout
from harness.core.sync import start_child
from harness.core.turns import BEGINNING, my_turn
from harness.endpoints.gate import Gate
from harness.rollouts.attempt import Attempt
from harness.rollouts.capture import SPAN_LOG, check_tracing
from harness.rollouts.checkpoints import OF_THE_REQUEST, Attempted
from harness.rollouts.maker import BegunRollout, FirstCall, RolloutMaker, RolloutsHere
from harness.rollouts.recorder import Recorder
from harness.rollouts.run_context import RunContext

_FIRST_REST_S = 1.0
_LONGEST_REST_S = 60.0
_OF_THE_SERVER = frozenset({"api", "network", "quota"})
"""What a rollout fails of that another server might have given a reply to."""


@dataclass
class ServerAtWork:
    """A server, with the rollouts that it serves now."""

    run_context: RunContext
    outstanding: int = 0
    failures: int = 0
    """Rollouts that the server failed, one after the other."""
    rests_until: float = -math.inf

    @property
    def gate(self) -> Gate:
        """The gate of the server."""
        return self.run_context.models.state.gate

    @property
    def is_down(self) -> bool:
        """Whether call after call failed, or the last one hung, and none has had a reply since."""
        return self.gate.is_down or self.gate.hangs

    def may_serve(self, now: float) -> bool:
        """Tell whether a rollout may come: to a server that works, or alone to one that has rested."""
        return not (self.failures or self.is_down) or (now >= self.rests_until and not self.outstanding)

    def served(self, kind: str | None, now: float) -> None:
        """Note how a rollout ended: what it failed of, None where it ended well."""
        if kind not in {*_OF_THE_SERVER, "cancelled"}:
            self.failures = 0
        elif kind != "cancelled" and now >= self.rests_until:  # else it rests already, for what began with this one
            self.rests_until = now + min(_FIRST_REST_S * 2 ** min(self.failures, 10), _LONGEST_REST_S)
            self.failures += 1


class RolloutsOnServers:
    """Makes rollouts in this process, each on one of several servers."""

    def __init__(self, run_context: RunContext) -> None:
        self._servers = [
            ServerAtWork(replace(run_context, models=source, configs={})) for source in run_context.alternatives
        ]

    async def make(self, begun: BegunRollout) -> None:
        """Run the agent as RolloutMaker says, on the server with the fewest rollouts; on another if that one fails."""
        left = list(self._servers)
        while begun.index not in begun.done:
            server = fewest_outstanding(left, anyio.current_time())
            left.remove(server)
            await self._make_on(server, begun, [other for other in left if not other.gate.down_for("agent")])

    async def _make_on(self, server: ServerAtWork, begun: BegunRollout, left: Sequence[ServerAtWork]) -> None:

        def may_go() -> bool:
            return not begun.is_late() and not server.run_context.stop.asked

        def other_is_up() -> bool:
            return may_go() and any(not other.is_down for other in left)

        def goes_elsewhere(failure: Failure, had: Attempted | None) -> bool:
            if not (left and may_go() and had is not None and failure.kind in _OF_THE_SERVER):
                return False
            if had.calls and failure.type in OF_THE_REQUEST:
                return False
            begun.before = had if had.calls or had.start else None
            self._note(server, failure.kind, failure.message)
            return True

        server.outstanding += 1
        try:
            await RolloutsHere(server.run_context, goes_elsewhere, other_is_up).make(begun)
        except Refused as exc:  # of the whole run's first call, or as in strict mode
            if not left or not begun.leads or begun.first_call.answered:
                raise
            self._note(server, "api", str(exc))
        finally:
            server.outstanding -= 1
        if rollout := begun.done.get(begun.index):
            server.served(rollout.failure.kind if rollout.failure else None, anyio.current_time())

    def _note(self, server: ServerAtWork, kind: str, why: str) -> None:
        """Note that a rollout goes elsewhere; the user reads of it when the server begins to fail."""
        progress, endpoint = server.run_context.progress, server.run_context.models.endpoint
        if not server.failures and endpoint:
            progress.note(f"{endpoint.host} rests, and other servers are asked: {why}")
        progress.retried()
        server.served(kind, anyio.current_time())


def fewest_outstanding(servers: Sequence[ServerAtWork], now: float) -> ServerAtWork:
    """Return the server that may serve and has the fewest rollouts; if none may, the one that rested longest."""
    left = [server for server in servers if not server.gate.down_for("agent")] or servers
    if ready := [server for server in left if server.may_serve(now)]:
        return min(ready, key=lambda server: server.outstanding)
    return min(left, key=lambda server: (server.rests_until, server.outstanding))


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
    limiter: AbstractAsyncContextManager[None]
    first_call: FirstCall
    maker: RolloutMaker

    async def roll_out(
        self,
        query: Query,
        kept: Sequence[Rollout] = (),
        watch: GroupWatch = UNWATCHED,
        indices: Sequence[int] | None = None,
    ) -> Group:
        """Run the agent once for each of `indices` on `query`, less those `kept`: 0 is the anchor, the others sample.

        None stands for as many as `settings.n`, the anchor among them.
        All are in the store when this returns. One that --max-cost or --budget leaves no room for, or that comes after
        the endpoint was given up or the user asked to stop, is not begun. With a deadline, those under way are left, as
        failed, once two thirds of the time are over and two have ended well, or at the deadline. Raises Refused if the
        very first call was turned down, or a temperature in strict mode; OutOfQuota once the account is empty.
        """
        check_tracing()
        done, shown = {r.index: r for r in kept}, self.run_context.store.redact.record(query)
        missing = [i for i in (range(self.run_context.settings.n) if indices is None else indices) if i not in done]
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
        """Make a rollout, unless a ceiling has no room, the endpoint was given up or the user asked to stop."""
        ceiling = self.run_context.ceiling
        cost, made = Cost(), 0

        def is_late() -> bool:
            return anyio.current_time() >= self._waits_until(done)

        before, calls = self.run_context.attempts_before(query.id, index), self.run_context.calls
        start = before.start if before else None
        had = before.bought if before else 0
        expected = max(1, len(start.next_requests) - had) if start else 0
        if not await calls.begin(expected):
            self.run_context.progress.note(f"{option('budget')} has no room for rollout {index}: it is not begun")
            self.first_call.over()
            return
        if self.run_context.stop.asked or self.run_context.given_up or not await ceiling.begin("agent"):
            calls.end(expected)
            if leads:
                self.first_call.over()
            return
        try:
            await my_turn(index + 1 if self.run_context.deadline.is_set else BEGINNING)  # else a free place goes first
            await self.maker.make(BegunRollout(query, index, self.first_call, done, is_late, before, leads=leads))
            await self.run_context.store.commit()
            if (failure := done[index].failure) and failure.kind == "quota":
                why = f"the endpoint says that the quota is used up ({failure.message})"
                raise OutOfQuota(self.run_context.given_up or why)
            cost = done[index].cost
            if start:
                made = sum(call.raw is not None for call in done[index].calls) - start.branch.call - had
        finally:
            calls.end(expected, made)
            ceiling.end("agent", cost)

    async def fingerprint(self, query: Query, index: int) -> str | None:
        """Return the fingerprint that a rollout would have now, stopping it before its first model call."""
        recorder = Recorder(state=self.run_context.models.state, stop_before_first_call=True)
        attempt = Attempt(self.run_context, query, index, recorder, self.run_context.clock())
        await attempt.run()
        SPAN_LOG.take(attempt.trace_id)
        return recorder.fingerprint
