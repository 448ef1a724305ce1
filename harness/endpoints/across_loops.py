"""Waiting for one another across event loops: a run of the SDK in a tool's thread has a loop of its own."""

import asyncio
from collections import deque
from contextlib import suppress


class LoopsEvent:
    """Wakes who waits, in whatever event loop; any thread may set it."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}
        self._set = False

    def is_set(self) -> bool:
        """Return whether nobody waits any more."""
        return self._set

    async def wait(self) -> None:
        """Wait until it is set."""
        woken = asyncio.Event()
        self._waiting[woken] = asyncio.get_running_loop()
        try:
            if not self._set:
                await woken.wait()
        finally:
            del self._waiting[woken]

    def set(self) -> None:
        """Wake all who wait, and let nobody wait from now on."""
        self._set = True
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        for woken, loop in list(self._waiting.items()):
            if loop is here:
                woken.set()
            else:
                with suppress(RuntimeError):  # the loop has ended, and who waited with it
                    loop.call_soon_threadsafe(woken.set)


class LoopsQueue:
    """Lets tasks of any event loop through one at a time, in the order in which they came."""

    def __init__(self) -> None:
        self._turns: deque[LoopsEvent] = deque()

    @property
    def empty(self) -> bool:
        """Whether nobody is in the queue."""
        return not self._turns

    async def __aenter__(self) -> None:
        turn = LoopsEvent()
        self._turns.append(turn)
        try:
            while self._turns[0] is not turn:
                await turn.wait()
        except BaseException:
            self._leave(turn)
            raise

    async def __aexit__(self, *_: object) -> None:
        self._leave(self._turns[0])

    def _leave(self, turn: LoopsEvent) -> None:
        self._turns.remove(turn)
        with suppress(IndexError):  # nobody else is there
            self._turns[0].set()
