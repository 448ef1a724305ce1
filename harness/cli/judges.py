"""`harness judges`: the rankings of one run side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from harness.cli import options
from harness.cli.labels import labels_option

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


@click.command()
@options.run_argument
@click.option("--ranking", "rankings", metavar="ID", multiple=True, help="Only these rankings, by id. [default: all]")
@labels_option
@options.setting_option("runs_dir")
@options.json_option
@options.wide_option
@click.pass_obj
def judges(
    environ: Mapping[str, str],
    run: str,
    rankings: Sequence[str],
    labels: Path | None,
    runs_dir: Path | None,
    *,
    as_json: bool,
) -> None:
    """Show the judges of a run side by side: which one to take, and for how much.

    A column for each judge, rubric and design that ranked the run: agreement with labels and with reward(), flips, own
    noise, the pull of length, calls and cost; and Kendall's tau of each two. Reads the archive alone.
    """
    from harness.cli.archived_run import open_run
    from harness.cli.console import stdout
    from harness.cli.output import print_json
    from harness.core.errors import UsageError
    from harness.core.wording import call
    from harness.pipeline.label_files import answer_labels
    from harness.report.json import judges_json
    from harness.report.summary.judges import judges_side_by_side
    from harness.report.terminal.judges import side_by_side_lines

    reader = open_run(run, runs_dir, environ)
    chosen = [reader.ranking(name) for name in dict.fromkeys(rankings)] or reader.rankings()
    side = judges_side_by_side(reader, chosen, answer_labels(reader, labels))
    if len(side.rankings) < 2:
        how = call("rescore", reader.typed_name, judge_model="MODEL")
        count = "one ranking only" if side.rankings else "no ranking that ranks anything"
        raise UsageError(f"run {reader.info.id} has {count}, and nothing to put beside it; make another with {how}")
    if as_json:
        print_json({"run": reader.info.id, "path": str(reader.folder)} | judges_json(side))
        return
    console = stdout()
    for line in side_by_side_lines(side, console.width):
        console.print(line)
