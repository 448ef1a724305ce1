"""Progress as people see it: bars on stderr where that is a terminal, otherwise a line now and then.

`print`, logging, warnings, `os.write` and child processes all end at file descriptors 1 and 2, wherever they begin.
"""

import asyncio
import os
import select
import sys
import threading
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Self, TypeVar

from rich.ansi import AnsiDecoder
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from harness.cli.console import TerminalConsole
from harness.cli.output import say
from harness.cli.progress_line import ProgressTally
from harness.core.progress import Stage

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

    def __exit__(self, *_: object) -> None:
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


_T = TypeVar("_T")
LINE_EVERY_S = 30.0
"""Where there is no terminal: so that a log tells what happens, and is not filled."""
_DRAWN_A_SECOND = 4
_NAME, _WIDEST_BAR, _NARROWEST_BAR = 9, 40, 5


class ProgressBars(ProgressTally):
    """Draws a bar a stage, and remembers the run's folder, which the message after an interruption names.

    At the end a line stays that says what was done. What others print meanwhile goes above the bars.
    """

    def __init__(self, console: Console, *, quiet: bool) -> None:
        """Draw on `console`, or in its place on the terminal that it writes to."""
        super().__init__()
        self.folder: Path | None = None
        self._console, self._quiet = console, quiet or console.quiet
        self._drawn = not self._quiet and console.is_terminal
        self._open = ExitStack()
        self._above: Callable[[RenderableType], None] = console.print

    def opened(self, folder: Path) -> None:
        """Remember where the run is. A run that is opened again goes on: each round of batches opens it."""
        self.folder = folder
        self.go_on()

    async def around(self, work: Callable[[], Awaitable[_T]]) -> _T:
        """Return what `work` gives; where there is no terminal, print a line of progress every LINE_EVERY_S."""

        async def print_lines() -> None:
            while True:
                await asyncio.sleep(LINE_EVERY_S)
                self._console.print(self.line(), markup=False, soft_wrap=True)

        printing = None if self._quiet or self._drawn else asyncio.create_task(print_lines())
        try:
            return await work()
        finally:
            if printing:
                printing.cancel()

    def note(self, text: str) -> None:
        """Print a line above the bars."""
        if not self._quiet:
            self._above(f"note: {text}")

    def __enter__(self) -> Self:
        """Begin to draw."""
        if not self._drawn:
            return self
        console = self._console
        if os.isatty(_STDERR) and _writes_to_stderr(console):
            printed, decoder = PrintedLines(), AnsiDecoder()
            console = TerminalConsole(printed.terminal, console.encoding)
            # The colours of others stay, all else that a terminal would obey is marked.
            printed.printed_by(lambda line: console.print(decoder.decode_line(line), soft_wrap=True))
            self._open.enter_context(printed)
        self._above = console.print
        live = Live(
            get_renderable=lambda: _drawing(self, console.width),
            console=console,
            refresh_per_second=_DRAWN_A_SECOND,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._open.enter_context(live)
        return self

    def __exit__(self, *_: object) -> None:
        """Take the bars away, and leave a line that says what was done."""
        self._open.close()
        self._above = self._console.print
        if self.any_done and not self._quiet:
            self._console.print(self.summary(), soft_wrap=not self._console.is_terminal)


def _writes_to_stderr(console: Console) -> bool:
    try:
        return console.file.fileno() == _STDERR
    except (OSError, ValueError):
        return False


def _drawing(tally: ProgressTally, width: int) -> RenderableType:
    """Return a line a stage with its bar, and a line for all; each fits the width."""
    texts: list[tuple[Stage, str]] = [
        (stage, "  ".join(filter(None, (tally.count(stage), tally.rate(stage))))) for stage in tally.stages
    ]
    room = min(_WIDEST_BAR, width - _NAME - 2 - max((len(text) for _, text in texts), default=0))
    grid = _grid(3)
    for stage, text in texts:
        share = tally.share(stage)
        bar = ProgressBar(None if share is None else 1.0, share or 0, width=room, pulse=share is None)
        grid.add_row(f"{stage:>{_NAME}}", bar if room >= _NARROWEST_BAR else "", text)
    line = " " * (_NAME + 1) + ", ".join(filter(None, [tally.took(), tally.left()]))
    for part in tally.spent():  # as many as fit, from the first on
        if len(line) + 2 + len(part) <= width:
            line += f"  {part}"
    below = _grid(1)
    below.add_row(line)
    return Group(grid, below)


def _grid(columns: int) -> Table:
    """Return a table whose lines are cut where they do not fit: never wrapped."""
    grid = Table.grid(padding=(0, 1))
    for _ in range(columns):
        grid.add_column(no_wrap=True, overflow="ellipsis")
    return grid
