"""Group commit: whoever waits for the disk at the same time waits for one fsync.

The fsync waits for the loop's next turn, so that all who end in this one share it: a wait for the disk lets the
processor's caches go cold, which costs more than the fsync does. Where the disk is quick (most SSDs: a fifth of a
millisecond) it is then made on the loop, for a hop to a thread and back costs as much CPU as all the rest of archiving
a rollout. Where it has lately been slow, it is made in a worker thread: the event loop goes on, and all that is written
meanwhile shares the next one.
"""

import asyncio
import time
from collections.abc import Callable

import anyio

SLOW_S = 0.002
"""From here on the loop must not wait for the disk."""


class GroupCommit:
    """Makes what was added durable, by `sync`, which may be called from another thread."""

    def __init__(self, sync: Callable[[], None]) -> None:
        """Nothing is added yet."""
        self._sync = sync
        self._added = self._safe = 0
        self._took_s = 0.0
        self._flush: asyncio.Task[None] | None = None

    def add(self) -> None:
        """Something was written, and is not yet safe."""
        self._added += 1

    async def commit(self) -> None:
        """Wait until all that was added before is safe. Raises OSError for all that waited, if the disk fails.

        A cancelled caller waits all the same: what it wrote is paid for.
        """
        mine = self._added
        while self._safe < mine:
            if self._flush is None or self._flush.done():
                self._flush = asyncio.create_task(self._soon())
                self._flush.add_done_callback(_heard)
            flush = self._flush
            with anyio.CancelScope(shield=True):
                await asyncio.wait([flush])
            if not flush.cancelled():  # else somebody cancelled whatever task there was: it is made anew
                flush.result()

    async def _soon(self) -> None:
        await asyncio.sleep(0)
        added = self._added
        if self._took_s < SLOW_S:
            self._timed()
        else:
            await asyncio.to_thread(self._timed)
        self._safe = max(self._safe, added)

    def _timed(self) -> None:
        began = time.perf_counter()
        self._sync()
        self._took_s = 0.5 * self._took_s + 0.5 * (time.perf_counter() - began)


def _heard(flush: asyncio.Task[None]) -> None:
    """Take note of an error that nobody waits for any more; the next commit meets it again."""
    if not flush.cancelled():
        flush.exception()
