"""An event loop whose clock jumps: a sleep takes no time, and the order of events is what it would have been."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio

_T = TypeVar("_T")


def _system_s(jump_s: float | None) -> float:
    """Return how long what was sent may be under way inside the system, before the clock jumps so far.

    A long jump may end somebody's patience, and where nothing is due a busy machine is likelier than a deadlock.
    """
    if jump_s is None:
        return 10.0
    return 0.0005 if jump_s < 1 else 0.02


class _JumpingSelector:
    """Waits for nothing: where a real selector would block, the loop's clock goes on by as much.

    What a server in the same loop sends arrives at once, but for the little time that the system takes (`_system_s`).
    """

    def __init__(self, selector: Any, loop: "VirtualTimeLoop") -> None:
        self._selector, self._loop = selector, loop

    def select(self, timeout: float | None = None) -> Any:
        ready = self._selector.select(0) or (timeout != 0 and self._selector.select(_system_s(timeout)))
        if not ready:
            assert timeout is not None, "everything waits, and nothing is due: a deadlock"
            self._loop.now += max(0.0, timeout)
        return ready or []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._selector, name)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """A loop for work whose input and output stay in the loop: its time begins at 0."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self._selector = _JumpingSelector(self._selector, self)

    def time(self) -> float:
        return self.now


def run_virtually(work: Callable[..., Awaitable[_T]], *arguments: Any) -> _T:
    """Run `work` to its end, without waiting for any of its sleeps."""
    return anyio.run(work, *arguments, backend_options={"loop_factory": VirtualTimeLoop})
