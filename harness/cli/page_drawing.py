"""A run's page and those of its queries, drawn under a bar, and Ctrl-C meanwhile."""

import shlex

from harness.archive.rankings import RankingFile
from harness.archive.reader import RunReader
from harness.cli.piece_progress import shown_progress
from harness.core.errors import Interrupted
from harness.core.wording import command
from harness.report.html.run_page import write_page
from harness.report.summary.ranking import RankingSummary


def draw_pages(
    reader: RunReader,
    ranking: RankingFile,
    summary: RankingSummary | None = None,
    *,
    anew: bool = False,
    quiet: bool = False,
) -> None:
    """Write the pages of a ranking into the run's folder, as `write_page` does. Raises Interrupted on Ctrl-C."""
    try:
        with shown_progress("pages", quiet=quiet) as on_page:
            write_page(reader, ranking, reader.folder / "report.html", summary, anew=anew, on_page=on_page)
    except KeyboardInterrupt:
        rest = command(f"report {shlex.quote(str(reader.folder))}")
        raise Interrupted(
            f"interrupted: not all pages are written; the run is whole, and `{rest}` writes them"
        ) from None
