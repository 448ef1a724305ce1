"""How far work is that goes piece by piece and asks no model: a bar on a terminal, else a line now and then."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from harness.cli.console import stderr
from harness.cli.progress_bars import LINE_EVERY_S
from harness.core.errors import Interrupted
from harness.core.wording import command

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from harness.archive.rankings import RankingFile
    from harness.archive.reader import RunReader
    from harness.report.summary.ranking import RankingSummary

QUICK_S = 0.5
"""Work that takes no longer shows nothing."""


@contextmanager
def shown_progress(what: str, *, quiet: bool = False) -> Generator[Callable[[int, int], None]]:
    """Give the block what it tells how many pieces are done, and of how many; `what` names them."""
    pieces = PieceProgress(what, stderr(quiet=quiet))
    try:
        yield pieces.show
    finally:
        pieces.close()


class PieceProgress:
    """Shows how far the work is, once it has taken a while."""

    def __init__(self, what: str, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin now by `clock`, which is in seconds."""
        self._what, self._console, self._clock = what, console, clock
        self._next = clock() + (QUICK_S if console.is_terminal else LINE_EVERY_S)
        self._bar: Progress | None = None

    def show(self, done: int, total: int) -> None:
        """Note how far the work is."""
        if self._console.quiet:
            return
        if self._bar:
            self._bar.update(self._bar.task_ids[0], completed=done, total=total)
        elif self._clock() >= self._next:
            self._show_late(done, total)

    def _show_late(self, done: int, total: int) -> None:
        if self._console.is_terminal:
            self._bar = _bar(self._what, self._console)
            self._bar.start()
            self._bar.add_task(self._what, completed=done, total=total)
            return
        self._next = self._clock() + LINE_EVERY_S
        self._console.print(f"{self._what}: {done:,} of {total:,}", markup=False, soft_wrap=True)

    def close(self) -> None:
        """Take the bar away."""
        if self._bar:
            self._bar.stop()


def _bar(what: str, console: Console) -> Progress:
    from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = (what, *Progress.get_default_columns()[1:2], MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True)


def draw_pages(
    reader: RunReader,
    ranking: RankingFile,
    summary: RankingSummary | None = None,
    *,
    anew: bool = False,
    quiet: bool = False,
) -> None:
    """Write the pages of a ranking into the run's folder, as `write_page` does. Raises Interrupted on Ctrl-C."""
    from harness.report.html.run_page import write_page

    try:
        with shown_progress("pages", quiet=quiet) as on_page:
            write_page(reader, ranking, reader.folder / "report.html", summary, anew=anew, on_page=on_page)
    except KeyboardInterrupt:
        rest = command(f"report {shlex.quote(str(reader.folder))}")
        raise Interrupted(
            f"interrupted: not all pages are written; the run is whole, and `{rest}` writes them"
        ) from None
