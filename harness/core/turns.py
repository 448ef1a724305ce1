"""Turns on an event loop: much work that becomes ready at the same time does not block the loop as a whole.

A loop runs everything that is ready before it looks at its timers and sockets again. A hundred replies that come in
together, at some milliseconds each, would keep a server's other tasks waiting for most of a second. Work that takes a
turn first is spread: in each of its rounds the loop begins so much of it as takes a few milliseconds.

Where there is more work than time, what is under way goes on before more is begun, and the first rollouts of all
groups begin before the second: many groups then have some rollouts that ended, instead of many that have not.
"""

import asyncio
import heapq
from collections.abc import Generator
from contextlib import contextmanager
from itertools import count
from weakref import WeakKeyDictionary

import anyio

from harness.core.sync import WithoutFrames

SLICE_S = 0.005
"""Once the work of a round has taken so long, the rest waits for the next round."""
MOST_IN_A_ROUND = 4
"""So many begin in a round at most: what each does after it has waited for something takes time as well."""
SENDING = -2
"""The rank of what sends a request: the endpoint works on it while the loop goes on with the rest."""
BEGINNING = -1
"""The rank of a rollout that takes a free place: the first request of one goes before the next one begins."""
UNDER_WAY = 0
"""The rank of work that goes on with something; before a deadline, rollout k of a group begins with rank k + 1."""
JUDGED = 1
"""The rank of a judge's reply where there is no deadline: a reply to a rollout goes before, for it may free a place."""
JUDGING = 3
"""The rank of a verdict that begins: two rollouts come before it."""
CUT_EVERY_S = 0.0005
"""Of work that a deadline ends, the next piece is left so much later: to leave a call takes about as long."""
CUTS_WITHIN_S = 0.2
"""A deadline is late by so much at most."""


class Turns:
    """The turns of one loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Nobody waits."""
        self._loop = loop
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._numbers = count()
        self._round_began: float | None = None
        self._begun = 0
        self.timed = 0
        """How many pieces of work have a deadline now."""

    async def take(self, rank: int) -> None:
        """Return when it is the caller's turn: at once, if this round of the loop has time left and nobody waits.

        Of those that wait the lowest rank comes first, and of one rank whoever came first.
        """
        if self._round_began is None:
            self._begin_round()
        elif self._waiting or self._begun == MOST_IN_A_ROUND or self._is_over():
            turn = self._loop.create_future()
            heapq.heappush(self._waiting, (rank, next(self._numbers), turn))
            await turn
        else:
            self._begun += 1

    def _begin_round(self) -> None:
        self._round_began, self._begun = self._loop.time(), 1
        self._loop.call_soon(self._next_round)

    def _is_over(self) -> bool:
        return self._round_began is not None and self._loop.time() - self._round_began >= SLICE_S

    def _next_round(self) -> None:
        """Give the next turn. After a long one the loop first does what it put off: due timers, replies."""
        if self._waiting and self._is_over():
            self._loop.call_later(0, self._give_turn)
        else:
            self._give_turn()

    def _give_turn(self) -> None:
        self._round_began = None
        while self._waiting:
            *_, turn = heapq.heappop(self._waiting)
            if not turn.done():  # else whoever waited was cancelled
                turn.set_result(None)
                self._begin_round()
                return


_TURNS: WeakKeyDictionary[asyncio.AbstractEventLoop, Turns] = WeakKeyDictionary()


async def my_turn(rank: int = UNDER_WAY) -> None:
    """Wait for a turn on the running loop."""
    await _turns().take(rank)


@contextmanager
def until(deadline: float) -> Generator[None]:
    """Leave the block at the deadline, or a little later: blocks that many tasks are in are left one after another.

    The loop would leave all of them in one round, and be blocked meanwhile.
    """
    turns = _turns()
    late_s = min(turns.timed * CUT_EVERY_S, CUTS_WITHIN_S)
    turns.timed += 1
    try:
        with anyio.CancelScope(deadline=deadline + late_s), WithoutFrames():
            yield
    finally:
        turns.timed -= 1


def _turns() -> Turns:
    loop = asyncio.get_running_loop()
    if (turns := _TURNS.get(loop)) is None:
        turns = _TURNS[loop] = Turns(loop)
    return turns
