"""`harness ls`: the runs and comparisons there are."""

from __future__ import annotations

import shlex
from pathlib import Path

from harness.archive.layout import Archived, linked_runs, list_archived
from harness.archive.reader import RunReader
from harness.cli.archived_run import runs_folder
from harness.cli.console import print_lines
from harness.cli.options import Caller
from harness.cli.output import print_json, say
from harness.core.errors import ArchiveDamaged, ExitCode, HarnessError, NeedsUpgrade, TooOld
from harness.core.wording import command
from harness.report.terminal.runs import RunLine, comparison_line, run_line, runs_table, unreadable_lines


def ls(caller: Caller) -> None:
    """Print the runs and comparisons, oldest first."""
    folder = runs_folder(caller)
    infos: list[dict[str, object]] = []
    rows: list[RunLine] = []
    unreadable: dict[Path, HarnessError] = {}
    links = linked_runs(folder)
    for archived in list_archived(folder):
        path = archived.folder
        try:
            rows.append(_line(archived))
            infos.append(_members(rows[-1]) if caller.as_json else {})  # which takes its time
        except ArchiveDamaged as exc:  # one bad run must not hide the rest
            unreadable[path] = exc
            infos.append({"id": path.name, "damaged": str(exc)})
        except (NeedsUpgrade, TooOld) as exc:
            unreadable[path] = exc
            infos.append({"id": path.name, "needs" if isinstance(exc, NeedsUpgrade) else "too_old": exc.version})
    if caller.as_json:
        print_json(infos)
    elif rows or unreadable or links:
        print_lines(lambda width: (*runs_table(rows, width), *unreadable_lines(unreadable)))
        for link in links:
            say(f"damaged: {link}", err=True)
        for path, error in unreadable.items():
            if error.exit_code is ExitCode.DAMAGED:
                say(f"{path.name} is damaged: `{command(f'validate {shlex.quote(str(path))}')}` tells more", err=True)
    else:
        say(f"no runs in {folder}/ yet; make one with `{command('run --agent search')}`")


def _line(archived: Archived) -> RunLine:
    if archived.kind == "comparison":
        from harness.archive.comparison_reader import ComparisonReader

        with ComparisonReader(archived.folder) as reader:
            return comparison_line(reader)
    with RunReader(archived.folder) as reader:
        return run_line(reader)


def _members(line: RunLine) -> dict[str, object]:
    return line.info.model_dump(mode="json", exclude={"rubric_text", "instructions", "task"}) | line.figures
