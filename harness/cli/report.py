"""`harness report`: write the page of a run or a comparison anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from harness.cli import options
from harness.cli.comparison_files import ComparisonFiles, file_options
from harness.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from harness.archive.comparison_reader import ComparisonReader


@click.command()
@options.run_argument
@click.option("--ranking", metavar="ID", help="A ranking's id. [default: the newest]")
@file_options
@options.setting_option("runs_dir")
@click.pass_obj
def report(
    environ: Mapping[str, str],
    run: str,
    ranking: str | None,
    markdown: Path | None,
    csv: Path | None,
    runs_dir: Path | None,
) -> None:
    """Write the report.html of a run, or of a comparison, from its archive, and print where it is."""
    from harness.archive.reader import RunReader
    from harness.cli.archived_run import open_archived, refuse_parts_of_runs
    from harness.cli.output import say
    from harness.cli.page_drawing import draw_pages

    reader = open_archived(run, runs_dir, environ)
    if not isinstance(reader, RunReader):
        refuse_parts_of_runs(reader, {"--ranking": ranking is not None})
        say(str(_write_comparison(reader, ComparisonFiles(markdown, csv))))
        return
    if markdown or csv:
        raise UsageError(f"{'--markdown' if markdown else '--csv'} writes a comparison, and {reader.info.id} is a run")
    draw_pages(reader, reader.ranking(ranking), anew=True)
    say(str(reader.folder / "report.html"))


def _write_comparison(reader: ComparisonReader, files: ComparisonFiles) -> Path:
    from harness.pipeline.comparing.outcome import comparison_of
    from harness.report.html.comparison_page import write_comparison_page

    comparison = comparison_of(reader)
    files.write(reader, comparison)
    return write_comparison_page(reader, comparison)
