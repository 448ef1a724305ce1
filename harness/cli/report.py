"""`harness report`: write a run's page anew."""

from typing import Annotated

import typer

from harness.cli import options as o


def report(
    run: o.Run = "last",
    ranking: Annotated[str | None, typer.Option(help="A ranking's id. [default: the newest]")] = None,
    runs_dir: o.RunsDir = None,
) -> None:
    """Write a run's report.html from its archive, and print where it is."""
    from harness.cli.showing import report_command

    report_command(run=run, ranking=ranking, runs_dir=runs_dir)
