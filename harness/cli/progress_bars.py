"""Progress as people see it: bars on stderr where that is a terminal, otherwise a line now and then."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from harness.cli.progress_line import ProgressTally
from harness.core.progress import Stage
from harness.core.records import Usage

_T = TypeVar("_T")
LINE_EVERY_S = 30.0
"""Where there is no terminal: so that a log tells what happens, and is not filled."""


class ProgressBars:
    """Draws a bar a stage, and remembers the run's folder, which the message after an interruption names."""

    def __init__(self, console: Console, *, quiet: bool) -> None:
        """Draw on `console`."""
        self.folder: Path | None = None
        self._bars = Progress(
            TextColumn("{task.description:>9}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            disable=quiet or not console.is_terminal,
            transient=True,
        )
        self._tasks: dict[Stage, TaskID] = {}
        self._expected: dict[Stage, int] = {}
        self._tally = ProgressTally()
        self._lines = not quiet and not console.is_terminal

    def opened(self, folder: Path) -> None:
        """Remember where the run is."""
        self.folder = folder

    def expect(self, stage: Stage, count: int) -> None:
        """Make a stage's bar longer."""
        self._tally.expect(stage, count)
        self._expected[stage] = self._expected.get(stage, 0) + count
        if stage not in self._tasks:
            self._tasks[stage] = self._bars.add_task(stage, total=count)
        self._bars.update(self._tasks[stage], total=self._expected[stage])

    def done(self, stage: Stage, count: int = 1) -> None:
        """Move a stage's bar on."""
        self._tally.done(stage, count)
        self._bars.advance(self._tasks[stage], count)

    def kept(self, stage: Stage, usage: Usage, usd: float | None, *, failed: bool) -> None:
        """Count what a rollout or a verdict took."""
        self._tally.kept(stage, usage, usd, failed=failed)

    def waiting(self, place: str, calls: int) -> None:
        """Remember how many calls wait for an endpoint."""
        self._tally.waiting(place, calls)

    async def around(self, work: Callable[[], Awaitable[_T]]) -> _T:
        """Return what `work` gives; where there is no terminal, print a line of progress every LINE_EVERY_S."""
        printing = asyncio.create_task(self._print_lines()) if self._lines else None
        try:
            return await work()
        finally:
            if printing:
                printing.cancel()

    async def _print_lines(self) -> None:
        began = asyncio.get_running_loop().time()
        while True:
            await asyncio.sleep(LINE_EVERY_S)
            self._bars.console.print(self._tally.line(asyncio.get_running_loop().time() - began), markup=False)

    def note(self, text: str) -> None:
        """Print a line above the bars."""
        self._bars.console.print(f"note: {text}")

    def __enter__(self) -> Self:
        """Begin to draw."""
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the bars away."""
        self._bars.stop()
