"""Changes to the process that only a rollout's or a replay's own tasks notice, undone after the last of them.

The SDK has no way to give one run a runner, MCP servers or trace processors of its own, so what all runs use has to be
changed. Each changed function looks at a context variable, which only the tasks concerned have set, and otherwise does
what the original does: all other runs of the process are as they would be without.
"""

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager


class ProcessGuard:
    """Counts the users of one change."""

    def __init__(self, install: Callable[[], Callable[[], None]], renew: Callable[[], None] | None = None) -> None:
        """`install` makes the change and returns what undoes it. `renew` makes the change again where it was lost."""
        self._install, self._renew = install, renew
        self._undo: Callable[[], None] | None = None
        self._users = 0
        self._lock = threading.Lock()

    @contextmanager
    def in_use(self) -> Generator[None]:
        """Keep the change for as long as this lasts."""
        with self._lock:
            if self._undo is None:
                self._undo = self._install()
            elif self._renew:
                self._renew()
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if not self._users:
                    self._undo()
                    self._undo = None
