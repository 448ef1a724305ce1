"""An event loop whose clock jumps: a sleep takes no time, and the order of events is what it would have been."""

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio

_T = TypeVar("_T")


THREAD_S = 2.0
"""Real seconds for which the clock stands while a thread is at work for the loop."""


def _system_s(jump_s: float | None) -> float:
    """Return how long what was sent may be under way inside the system, before the clock jumps so far.

    A long jump may end somebody's patience, and where nothing is due a busy machine is likelier than a deadlock.
    """
    if jump_s is None:
        return 10.0
    return 0.0005 if jump_s < 1 else 0.02


class _JumpingSelector:
    """Waits for nothing: where a real selector would block, the loop's clock goes on by as much.

    What a server in the same loop sends arrives at once (see `create_connection`); what a thread or another server
    sends has the little time of `_system_s`.
    """

    def __init__(self, selector: Any, loop: "VirtualTimeLoop") -> None:
        self._selector, self._loop = selector, loop

    def select(self, timeout: float | None = None) -> Any:
        ready = self._selector.select(0) or (timeout != 0 and self._selector.select(self._patience_s(timeout)))
        if not ready:
            assert timeout is not None, "everything waits, and nothing is due: a deadlock"
            self._loop.now += max(0.0, timeout)
        return ready or []

    def _patience_s(self, jump_s: float | None) -> float:
        begun = self._loop.threads.values()
        return max(_system_s(jump_s), max(begun, default=0.0) + THREAD_S - time.monotonic())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._selector, name)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """A loop for work whose input and output stay in the loop: its time begins at 0."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self._selector = _JumpingSelector(self._selector, self)
        self.threads = dict[asyncio.Future[Any], float]()
        """What threads do for the loop, and when each began, in real seconds."""
        self._servers = dict[tuple[str, int], Callable[[], asyncio.BaseProtocol]]()

    def time(self) -> float:
        return self.now

    def run_in_executor(self, executor: Any, func: Any, *arguments: Any) -> Any:
        done = super().run_in_executor(executor, func, *arguments)
        self.threads[done] = time.monotonic()
        done.add_done_callback(self.threads.pop)
        return done

    async def create_server(self, protocol_factory: Any, *where: Any, **options: Any) -> asyncio.Server:
        server = await super().create_server(protocol_factory, *where, **options)
        self._servers |= {opened.getsockname()[:2]: protocol_factory for opened in server.sockets}
        return server

    async def create_connection(self, protocol_factory: Any, *where: Any, **options: Any) -> Any:
        """Connect to a server of this loop by a pair of sockets: a busy system delivers TCP late."""
        serve = self._servers.get(where[:2])
        if serve is None:
            return await super().create_connection(protocol_factory, *where, **options)
        ours, its = socket.socketpair()
        await self.connect_accepted_socket(serve, its)
        return await super().create_connection(protocol_factory, sock=ours)


def run_virtually(work: Callable[..., Awaitable[_T]], *arguments: Any) -> _T:
    """Run `work` to its end, without waiting for any of its sleeps."""
    return anyio.run(work, *arguments, backend_options={"loop_factory": VirtualTimeLoop})
