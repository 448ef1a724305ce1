"""`harness ls`: the runs and comparisons there are."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from harness.cli import options
from harness.core.errors import ArchiveDamaged, ExitCode, HarnessError, NeedsUpgrade, TooOld
from harness.core.wording import command

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from harness.archive.layout import Archived
    from harness.report.terminal.runs import ComparisonRow, RunLine


@click.command()
@options.setting_option("runs_dir")
@options.json_option
@options.wide_option
@click.pass_obj
def ls(environ: Mapping[str, str], runs_dir: Path | None, *, as_json: bool) -> None:
    """List the runs and comparisons, oldest first."""
    from harness.archive.layout import linked_runs, list_archived
    from harness.cli.archived_run import runs_folder
    from harness.cli.console import stdout
    from harness.cli.output import print_json, say
    from harness.report.terminal.runs import runs_table, unreadable_lines

    folder = runs_folder(runs_dir, environ)
    infos: list[dict[str, object]] = []
    rows: list[RunLine | ComparisonRow] = []
    unreadable: dict[Path, HarnessError] = {}
    links = linked_runs(folder)
    for archived in list_archived(folder):
        path = archived.folder
        try:
            rows.append(_line(archived))
            infos.append(_members(rows[-1]) if as_json else {})  # which takes its time
        except ArchiveDamaged as exc:  # one bad run must not hide the rest
            unreadable[path] = exc
            infos.append({"id": path.name, "damaged": str(exc)})
        except (NeedsUpgrade, TooOld) as exc:
            unreadable[path] = exc
            infos.append({"id": path.name, "needs" if isinstance(exc, NeedsUpgrade) else "too_old": exc.version})
    if as_json:
        print_json(infos)
    elif rows or unreadable or links:
        console = stdout()
        for line in (*runs_table(rows, console.width), *unreadable_lines(unreadable)):
            console.print(line)
        for link in links:
            say(f"damaged: {link}", err=True)
        for path, error in unreadable.items():
            if error.exit_code is ExitCode.DAMAGED:
                say(f"{path.name} is damaged: `{command(f'validate {shlex.quote(str(path))}')}` tells more", err=True)
    else:
        say(f"no runs in {folder}/ yet; make one with `{command('run --agent search')}`")


def _line(archived: Archived) -> RunLine | ComparisonRow:
    from harness.archive.reader import RunReader
    from harness.report.terminal.runs import comparison_row, run_line

    if archived.kind == "comparison":
        from harness.archive.comparison_reader import ComparisonReader

        with ComparisonReader(archived.folder) as reader:
            return comparison_row(reader)
    with RunReader(archived.folder) as reader:
        return run_line(reader)


def _members(line: RunLine | ComparisonRow) -> dict[str, object]:
    return line.info.model_dump(mode="json", exclude={"rubric_text", "instructions", "task"}) | line.figures
