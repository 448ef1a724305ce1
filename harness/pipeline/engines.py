"""What a run needs of whatever rolls out: the engine of this process, or one whose rollouts run elsewhere."""

from collections.abc import Sequence
from typing import Protocol

from harness.core.records import Group, Query, Rollout
from harness.rollouts.engine import UNWATCHED, GroupWatch


class RolloutEngine(Protocol):
    """Rolls out queries. It is called for many queries at a time, and lets them in by places of its own, in order."""

    async def roll_out(self, query: Query, kept: Sequence[Rollout] = (), watch: GroupWatch = UNWATCHED) -> Group:
        """Run the agent on `query`, less the rollouts that are `kept`, and return all of them.

        Every rollout is in the store of the run when this returns, failed ones with their cause, and so are the texts
        that the records name. Rollouts that --max-cost, an endpoint that was given up, or an interruption left out are
        not in the group. `watch.placed()` is due as soon as no rollout of the query waits for a place any more: the
        next query begins then. `watch.ended(group)` may be called with the group so far after each rollout that is in
        the store. Raises Refused where the endpoint turned the very first call down, OutOfQuota.
        """
        ...

    async def fingerprint(self, query: Query, index: int) -> str | None:
        """Return the fingerprint that rollout `index` of `query` would have now, without a model call."""
        ...
