"""`harness report`: write a run's page anew."""

from collections.abc import Mapping
from pathlib import Path

import click

from harness.cli import options


@click.command()
@options.run_argument
@click.option("--ranking", metavar="ID", help="A ranking's id. [default: the newest]")
@options.setting_option("runs_dir")
@click.pass_obj
def report(environ: Mapping[str, str], run: str, ranking: str | None, runs_dir: Path | None) -> None:
    """Write a run's report.html from its archive, and print where it is."""
    from harness.cli.archived_run import open_run
    from harness.cli.output import say
    from harness.report import write_page

    reader = open_run(run, runs_dir, environ)
    page = reader.folder / "report.html"
    write_page(reader, reader.ranking(ranking), page)
    say(str(page))
