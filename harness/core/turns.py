"""Turns on an event loop: much work that becomes ready at the same time does not block the loop as a whole.

A loop runs everything that is ready before it looks at its timers and sockets again. A hundred replies that come in
together, at some milliseconds each, would keep a server's other tasks waiting for most of a second. Work that takes a
turn first is spread: in each of its rounds the loop begins so much of it as takes a few milliseconds.
"""

import asyncio
from collections import deque
from weakref import WeakKeyDictionary

SLICE_S = 0.005
"""Once the work of a round has taken so long, the rest waits for the next round."""


class Turns:
    """The turns of one loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Nobody waits."""
        self._loop = loop
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._round_began: float | None = None

    async def take(self) -> None:
        """Return when it is the caller's turn: at once, if this round of the loop has time left and nobody waits."""
        if self._round_began is None:
            self._begin_round()
        elif self._waiting or self._loop.time() - self._round_began >= SLICE_S:
            turn = self._loop.create_future()
            self._waiting.append(turn)
            await turn

    def _begin_round(self) -> None:
        self._round_began = self._loop.time()
        self._loop.call_soon(self._next_round)

    def _next_round(self) -> None:
        self._round_began = None
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():  # else whoever waited was cancelled
                turn.set_result(None)
                self._begin_round()
                return


_TURNS: WeakKeyDictionary[asyncio.AbstractEventLoop, Turns] = WeakKeyDictionary()


async def my_turn() -> None:
    """Wait for a turn on the running loop."""
    loop = asyncio.get_running_loop()
    if (turns := _TURNS.get(loop)) is None:
        turns = _TURNS[loop] = Turns(loop)
    await turns.take()
