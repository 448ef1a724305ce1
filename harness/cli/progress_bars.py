"""Progress as people see it: bars on stderr where that is a terminal, nothing otherwise."""

from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from harness.core.progress import Stage


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

    def opened(self, folder: Path) -> None:
        """Remember where the run is."""
        self.folder = folder

    def expect(self, stage: Stage, count: int) -> None:
        """Make a stage's bar longer."""
        self._expected[stage] = self._expected.get(stage, 0) + count
        if stage not in self._tasks:
            self._tasks[stage] = self._bars.add_task(stage, total=count)
        self._bars.update(self._tasks[stage], total=self._expected[stage])

    def done(self, stage: Stage, count: int = 1) -> None:
        """Move a stage's bar on."""
        self._bars.advance(self._tasks[stage], count)

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
