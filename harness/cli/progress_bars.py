"""A command under way: Ctrl-C becomes an error, logs are silenced, bars or lines on stderr tell how far it is.

`print`, logging, warnings, `os.write` and child processes all end at file descriptors 1 and 2, wherever they begin.
"""

import asyncio
import gc
import logging
import os
import resource
import select
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Generator
from contextlib import ExitStack, chdir, contextmanager, nullcontext, redirect_stdout, suppress
from functools import partial
from pathlib import Path
from typing import Self, TypeVar

import anyio
from rich.ansi import AnsiDecoder
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from harness.cli.console import TerminalConsole, stderr
from harness.cli.output import Caller, say
from harness.cli.progress_line import ProgressTally
from harness.core.errors import Interrupted
from harness.core.progress import NO_DEADLINE, Deadline, Stage, StopSign
from harness.core.sync import alone
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.trust import what_is_kept

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

    def __init__(self, console: Console) -> None:
        """Draw on `console`, or in its place on the terminal that it writes to."""
        super().__init__()
        self.folder: Path | None = None
        self._console, self._drawn = console, not console.quiet and console.is_terminal
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

        printing = None if self._console.quiet or self._drawn else asyncio.create_task(print_lines())
        try:
            return await work()
        finally:
            if printing:
                printing.cancel()

    def note(self, text: str) -> None:
        """Print a line above the bars."""
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
        if self.any_done:
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


_LOGGERS = ("openai", "openai.agents", "stamina", "httpx", "httpx2")
_OBJECTS_BEFORE_A_LOOK = 10_000
"""So many new objects before the garbage collector looks at them, where rollouts are made."""
_OPEN_FILES = 10_240
"""As many as macOS lets a process have. Each call in flight takes one, and the usual limit there is 256."""
_TURNS = 3
"""Turns of the event loop in which a signal is read, handled, and followed."""


def run_interruptible(
    work: Callable[[], Awaitable[_T]], bars: ProgressBars, stop: StopSign, grace_s: float = 0.0
) -> _T:
    """Run `work`. The first Ctrl-C sets `stop` and lets what is under way end for `grace_s`; a second cancels it.

    Raises Interrupted, saying what is kept.
    """
    try:
        with stdout_for_results(), chdir("."):  # a tool may have gone elsewhere
            result = anyio.run(until_stopped, partial(bars.around, work), stop, grace_s)
        if not stop.asked:
            return result
    except (KeyboardInterrupt, asyncio.CancelledError):
        pass
    raise Interrupted(f"interrupted. {what_is_kept(bars.folder)}") from None


def run_under_bars(
    work: Callable[[RunEnvironment], Awaitable[_T]],
    caller: Caller,
    *,
    grace_s: float = 0.0,
    deadline: Deadline = NO_DEADLINE,
    rolls_out: bool = False,
) -> _T:
    """Run `work` as `run_interruptible` does, with its progress on stderr. Raises Interrupted."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= soft < _OPEN_FILES and not 0 <= hard < _OPEN_FILES:
        resource.setrlimit(resource.RLIMIT_NOFILE, (_OPEN_FILES, hard))
    with ProgressBars(stderr(quiet=caller.quiet)) as bars, little_garbage() if rolls_out else nullcontext():
        run_env = RunEnvironment(caller.environ, progress=bars, deadline=deadline)
        return run_interruptible(partial(work, run_env), bars, run_env.stop, grace_s)


def run_silently(work: Callable[[RunEnvironment], Awaitable[_T]], caller: Caller) -> _T:
    """Run what is over soon, such as a quote, without progress. Raises Interrupted."""
    run_env = RunEnvironment(caller.environ)
    with ProgressBars(stderr(quiet=True)) as bars:
        return run_interruptible(partial(work, run_env), bars, run_env.stop)


@contextmanager
def little_garbage() -> Generator[None]:
    """Keep garbage from piling up while rollouts are made: an agent's tools leave classes, which refer to themselves.

    What is there by now stays to the end. Set aside, it costs the garbage collector no time, so that it can look at
    the rest ten times as often as in a short command (`cli/app.py`). A large run takes ten megabytes less by that.
    """
    before = gc.get_threshold()
    sets_aside = not gc.get_freeze_count()  # else it was done, and is not undone here
    if sets_aside:
        gc.freeze()
    gc.set_threshold(_OBJECTS_BEFORE_A_LOOK, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        if sets_aside:
            gc.unfreeze()  # the last look of the process is at everything


async def until_stopped(work: Callable[[], Awaitable[_T]], stop: StopSign, grace_s: float) -> _T:
    """Return what `work` gives. The first Ctrl-C sets `stop`; a second one, or the end of the grace, cancels it."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task, "this runs in a task"  # noqa: S101 - for the type checker

    def on_interrupt() -> None:
        if stop.asked or not grace_s:
            task.cancel()
            return
        stop.asked = True
        say(f"stopping: what is under way may end, for {grace_s:g} s at most (--grace); Ctrl-C again ends it", err=True)
        loop.call_later(grace_s, task.cancel)

    loop.add_signal_handler(signal.SIGINT, on_interrupt)
    try:
        result = await alone(work())
        for _ in range(_TURNS):  # a Ctrl-C may have come while something held the loop up to the end, such as Ray
            await asyncio.sleep(0)
        return result
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        if stop.asked:  # a further Ctrl-C while the loop is closed would be a traceback
            signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def stdout_for_results() -> Generator[None]:
    """Send to stderr what an agent's code prints, writes to file descriptor 1, or lets its child processes write."""
    sys.stdout.flush()
    try:
        kept = os.dup(1)
    except OSError:  # the process was started without a stdout
        kept = None
    try:
        if kept is not None:
            os.dup2(2, 1)
        # A tool may close what it prints to.
        with open(_STDERR, "w", 1, "utf-8", "backslashreplace", closefd=False) as printed, redirect_stdout(printed):
            yield
    finally:
        if kept is not None:
            os.dup2(kept, 1)
            os.close(kept)


def silence_logs(*, verbose: bool = False) -> None:
    """Keep the SDK's and the retry library's own log off stderr: what matters of it is in the records."""
    if verbose:
        logging.getLogger("arena-harness").setLevel(logging.INFO)
        if logging.lastResort:
            logging.lastResort.setLevel(logging.INFO)
        return
    for name in _LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
