"""What agent code prints while bars are drawn: caught at the file descriptor, and printed above the bars by lines.

`print`, logging, warnings, `os.write` and child processes all end at file descriptors 1 and 2, wherever they begin.
"""

import os
import select
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Self

from harness.cli.output import say

_STDERR = 2
_PART_AFTER_S = 0.2
"""An unfinished line, such as the question of an `input()`, is shown after so long without more of it."""
_CHUNK = 65_536
_DRAINED_WITHIN_S = 2.0


class PrintedLines:
    """Takes file descriptor 2 until it ends. `terminal` is where that descriptor pointed before."""

    def __init__(self) -> None:
        """Take nothing yet."""
        self.terminal = os.dup(_STDERR)
        self._print: Callable[[str], None] = lambda _: None
        self._ending, self._drained = threading.Event(), threading.Event()
        self._rest = b""

    def printed_by(self, print_line: Callable[[str], None]) -> Self:
        """Print each line with `print_line`, which is called from a thread."""
        self._print = print_line
        return self

    def __enter__(self) -> Self:
        """Take the file descriptor."""
        sys.stderr.flush()
        reading, writing = os.pipe()
        os.dup2(writing, _STDERR)
        os.close(writing)
        threading.Thread(target=self._read, args=(reading,), name="printed lines", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the file descriptor back, with all that was written to it printed."""
        sys.stderr.flush()
        os.dup2(self.terminal, _STDERR)
        self._ending.set()
        if self._drained.wait(_DRAINED_WITHIN_S):  # else the thread may still print there
            os.close(self.terminal)

    def _read(self, reading: int) -> None:
        """Print what comes; also what comes after the bars, from a child process that still holds the descriptor."""
        while not self._ending.is_set():
            ready = select.select([reading], [], [], _PART_AFTER_S)[0]
            if ready and not self._take(os.read(reading, _CHUNK)):
                break
            if not ready:
                self._flush()
        while select.select([reading], [], [], 0)[0] and self._take(os.read(reading, _CHUNK)):
            pass
        self._flush()
        self._print = partial(say, err=True)
        self._drained.set()
        while self._take(os.read(reading, _CHUNK)):
            pass
        os.close(reading)

    def _take(self, chunk: bytes) -> bool:
        """Print the lines that `chunk` completes; return whether more may come."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            self._show(line)
        if len(self._rest) > _CHUNK:
            self._flush()
        return bool(chunk)

    def _flush(self) -> None:
        if self._rest:
            self._show(self._rest)
            self._rest = b""

    def _show(self, line: bytes) -> None:
        """Print a line; of one that was written over, as progress bars do, its last state."""
        written = line.rstrip(b"\r").rpartition(b"\r")[2]
        with suppress(OSError):  # the terminal has gone: whoever prints must not wait for it
            self._print(written.decode("utf-8", "backslashreplace"))
