"""An event loop whose clock jumps: a sleep takes no time, and the order of events is what it would have been."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio

_T = TypeVar("_T")


class _JumpingSelector:
    """Waits for nothing: where a real selector would block, the loop's clock goes on by as much."""

    def __init__(self, selector: Any, loop: "VirtualTimeLoop") -> None:
        self._selector, self._loop = selector, loop

    def select(self, timeout: float | None = None) -> Any:
        ready = self._selector.select(0)
        if not ready:
            assert timeout is not None, "everything waits, and nothing is due: a deadlock"
            self._loop.now += max(0.0, timeout)
        return ready

    def __getattr__(self, name: str) -> Any:
        return getattr(self._selector, name)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """A loop for work without real input and output: its time begins at 0."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self._selector = _JumpingSelector(self._selector, self)

    def time(self) -> float:
        return self.now


def run_virtually(work: Callable[..., Awaitable[_T]], *arguments: Any) -> _T:
    """Run `work` to its end, without waiting for any of its sleeps."""
    return anyio.run(work, *arguments, backend_options={"loop_factory": VirtualTimeLoop})
