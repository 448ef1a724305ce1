"""Changes to the process that only a replay's own tasks notice: made for the first replay, undone after the last.

The SDK has no way to give one run a runner or MCP servers of its own, so a replay has to change what all runs use. Each
changed function looks at a context variable, which only the replay's own tasks have set, and otherwise does what the
original does: a live run beside a replay runs as if there were no replay.
"""

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager


class ProcessGuard:
    """Counts the users of one change."""

    def __init__(self, install: Callable[[], Callable[[], None]]) -> None:
        """`install` makes the change and returns what undoes it."""
        self._install = install
        self._undo: Callable[[], None] | None = None
        self._users = 0
        self._lock = threading.Lock()

    @contextmanager
    def in_use(self) -> Generator[None]:
        """Keep the change for as long as this lasts."""
        with self._lock:
            if self._undo is None:
                self._undo = self._install()
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if not self._users:
                    self._undo()
                    self._undo = None
