"""How far work is that goes piece by piece and asks no model: a bar on a terminal, else a line now and then."""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn

from harness.archive.reader import RunReader
from harness.archive.result_files import RankingFile
from harness.cli.console import stderr
from harness.cli.progress_bars import LINE_EVERY_S
from harness.core.errors import Interrupted, call
from harness.report.summary.ranking import RankingSummary

QUICK_S = 0.5
"""Work that takes no longer shows nothing."""


@contextmanager
def shown_progress(what: str, *, quiet: bool = False) -> Generator[Callable[[int, int], None]]:
    """Give the block what it tells how many pieces are done, and of how many; `what` names them."""
    console = stderr(quiet=quiet)
    bar: Progress | None = None
    shown_next = time.monotonic() + (QUICK_S if console.is_terminal else LINE_EVERY_S)

    def show(done: int, total: int) -> None:
        nonlocal bar, shown_next
        if bar:
            bar.update(bar.task_ids[0], completed=done, total=total)
        elif console.quiet or time.monotonic() < shown_next:
            return
        elif console.is_terminal:
            columns = (what, *Progress.get_default_columns()[1:2], MofNCompleteColumn(), TimeRemainingColumn())
            bar = Progress(*columns, console=console, transient=True)
            bar.start()
            bar.add_task(what, completed=done, total=total)
        else:
            shown_next = time.monotonic() + LINE_EVERY_S
            console.print(f"{what}: {done:,} of {total:,}", markup=False, soft_wrap=True)

    try:
        yield show
    finally:
        if bar:
            bar.stop()


def draw_pages(
    reader: RunReader,
    ranking: RankingFile,
    summary: RankingSummary | None = None,
    *,
    anew: bool = False,
    quiet: bool = False,
) -> None:
    """Write the pages of a ranking into the run's folder, as `write_page` does. Raises Interrupted on Ctrl-C."""
    from harness.report.html.run_page import write_page  # which loads Jinja

    try:
        with shown_progress("pages", quiet=quiet) as on_page:
            write_page(reader, ranking, reader.folder / "report.html", summary, anew=anew, on_page=on_page)
    except KeyboardInterrupt:
        rest = call("report", reader.folder)
        raise Interrupted(f"interrupted: not all pages are written; the run is whole, and {rest} writes them") from None
