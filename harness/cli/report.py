"""`harness report`: write the page of a run or a comparison anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from harness.cli import options

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from harness.archive import ComparisonReader


@click.command()
@options.run_argument
@click.option("--ranking", metavar="ID", help="A ranking's id. [default: the newest]")
@options.setting_option("runs_dir")
@click.pass_obj
def report(environ: Mapping[str, str], run: str, ranking: str | None, runs_dir: Path | None) -> None:
    """Write the report.html of a run, or of a comparison, from its archive, and print where it is."""
    from harness.archive import ComparisonReader
    from harness.cli.archived_run import open_archived, refuse_parts_of_runs
    from harness.cli.output import say
    from harness.report import write_page

    reader = open_archived(run, runs_dir, environ)
    if isinstance(reader, ComparisonReader):
        refuse_parts_of_runs(reader, {"--ranking": ranking is not None})
        say(str(_write_comparison_page(reader)))
        return
    page = reader.folder / "report.html"
    write_page(reader, reader.ranking(ranking), page)
    say(str(page))


def _write_comparison_page(reader: ComparisonReader) -> Path:
    from harness.pipeline import comparison_of
    from harness.report import write_comparison_page

    return write_comparison_page(reader, comparison_of(reader))
