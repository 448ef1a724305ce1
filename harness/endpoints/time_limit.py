"""A limit on time that stands still while its work waits for what is no fault of the work."""

import asyncio
import math
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Protocol, cast

import anyio

from harness.core.tracebacks import WithoutFrames


class Stoppable(Protocol):
    """A clock that a wait at an endpoint's gate stops."""

    @property
    def passed(self) -> bool:
        """Whether the time was over."""
        ...

    def stopped(self) -> AbstractContextManager[None]:
        """Stand still for as long as the context lasts."""
        ...


class _NoLimit:
    passed = False

    def stopped(self) -> AbstractContextManager[None]:
        return nullcontext()


NO_LIMIT: Stoppable = _NoLimit()
"""The clock of work that may take as long as it takes."""


class TimeLimit:
    """Cancels what runs `within` it after so many seconds, waits that are not counted aside."""

    def __init__(self, seconds: float) -> None:
        """Set the limit; the clock begins with `within`."""
        self.seconds = seconds
        self._scope: anyio.CancelScope | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._left_s = seconds
        self._stops = 0

    @property
    def passed(self) -> bool:
        """Whether the time was over."""
        return self._scope is not None and self._scope.cancel_called

    @property
    def spent_s(self) -> float:
        """The seconds that count so far."""
        if self._scope is None:
            return 0.0
        left_s = self._left_s if self._stops else self._scope.deadline - anyio.current_time()
        return self.seconds - left_s

    def within(self) -> AbstractContextManager[None, bool]:
        """Run the block for `seconds` at most; work that is cut off ends without an error."""
        return cast("AbstractContextManager[None, bool]", self._within())

    @contextmanager
    def _within(self) -> Generator[None]:
        self._scope = anyio.CancelScope(deadline=anyio.current_time() + self.seconds)
        self._loop = asyncio.get_running_loop()
        with self._scope, WithoutFrames():
            yield

    @contextmanager
    def stopped(self) -> Generator[None]:
        """Stand still. Of waits that overlap, the last to end lets the clock go on."""
        if self._scope and not self._stops:
            self._left_s = self._scope.deadline - anyio.current_time()
            self._scope.deadline = math.inf
        self._stops += 1
        try:
            yield
        finally:
            self._stops -= 1
            if self._scope and not self._stops:
                self._scope.deadline = anyio.current_time() + self._left_s

    @contextmanager
    def stopped_from_afar(self) -> Generator[None]:
        """Stand still, for work in another thread's event loop: the clock's own loop stops it, and lets it go on."""
        stop = ExitStack()
        self._soon(lambda: stop.enter_context(self.stopped()))
        try:
            yield
        finally:
            self._soon(stop.close)

    def _soon(self, act: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # the loop has ended, and the work within the limit with it
            if self._loop:
                self._loop.call_soon_threadsafe(act)


@dataclass(frozen=True)
class FromAfar:
    """A clock as work in another thread's event loop stops it."""

    limit: TimeLimit

    @property
    def passed(self) -> bool:
        """Whether the time was over."""
        return self.limit.passed

    def stopped(self) -> AbstractContextManager[None]:
        """Stand still for as long as the context lasts."""
        return self.limit.stopped_from_afar()
