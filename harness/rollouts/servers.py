"""Several servers of one model: each rollout goes to the one that has the fewest, and stays there.

A server whose rollouts fail for the server's own reasons fails them fast, and would have the fewest at any time. It
rests, ever longer; then one rollout tries it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import anyio

from harness.core.errors import Refused
from harness.core.records import Failure
from harness.endpoints.gate import Gate
from harness.rollouts.attempt import RunContext
from harness.rollouts.maker import BegunRollout, RolloutsHere
from harness.rollouts.recorder import Recorder

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
        """Run the agent as RolloutMaker says, on the server with the fewest rollouts; on another if none replied."""
        left = list(self._servers)
        while begun.index not in begun.done:
            server = fewest_outstanding(left, anyio.current_time())
            left.remove(server)
            await self._make_on(server, begun, [other for other in left if not other.gate.given_up])

    async def _make_on(self, server: ServerAtWork, begun: BegunRollout, left: Sequence[ServerAtWork]) -> None:

        def may_go() -> bool:
            return not begun.is_late() and not server.run_context.stop.asked

        def other_is_up() -> bool:
            return may_go() and any(not other.is_down for other in left)

        def goes_elsewhere(failure: Failure, recorder: Recorder) -> bool:
            if not (left and may_go() and not recorder.has_reply and failure.kind in _OF_THE_SERVER):
                return False
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
    left = [server for server in servers if not server.gate.given_up] or servers
    if ready := [server for server in left if server.may_serve(now)]:
        return min(ready, key=lambda server: server.outstanding)
    return min(left, key=lambda server: (server.rests_until, server.outstanding))
