"""`harness ls`: the runs, comparisons and improvements there are."""

from pathlib import Path

from harness.archive.reader import RunReader
from harness.archive.run_info import Archived, linked_runs, list_archived
from harness.cli.archived_run import runs_folder
from harness.cli.console import print_lines
from harness.cli.output import Caller, print_json, say
from harness.core.errors import ArchiveDamaged, ExitCode, HarnessError, NeedsUpgrade, TooOld, call
from harness.report.terminal import runs


def ls(caller: Caller) -> None:
    """Print the runs, comparisons and improvements, oldest first."""
    folder = runs_folder(caller)
    infos: list[dict[str, object]] = []
    rows: list[runs.RunLine] = []
    unreadable: dict[Path, HarnessError] = {}
    links = linked_runs(folder)
    for archived in list_archived(folder):
        path = archived.folder
        try:
            line = _line(archived)
            rows.append(line)
            if caller.as_json:  # which takes its time
                left_out = {"rubric_text", "instructions", "task", "root", "train", "held_out"}
                infos.append(line.info.model_dump(mode="json", exclude=left_out) | line.figures)
        except ArchiveDamaged as exc:  # one bad run must not hide the rest
            unreadable[path] = exc
            infos.append({"id": path.name, "damaged": str(exc)})
        except (NeedsUpgrade, TooOld) as exc:
            unreadable[path] = exc
            infos.append({"id": path.name, "needs" if isinstance(exc, NeedsUpgrade) else "too_old": exc.version})
    if caller.as_json:
        print_json(infos)
    elif rows or unreadable or links:
        print_lines(lambda width: (*(runs.runs_table(rows, width) if rows else ()), *runs.unreadable_lines(unreadable)))
        for link in links:
            say(f"damaged: {link}", err=True)
        for path in (path for path, error in unreadable.items() if error.exit_code is ExitCode.DAMAGED):
            say(f"{path.name} is damaged: {call('validate', path)} tells more", err=True)
    else:
        say(f"no runs in {folder}/ yet; make one with {call('run', agent='search')}")


def _line(archived: Archived) -> runs.RunLine:
    """Return the line of one of them. Raises ArchiveDamaged, NeedsUpgrade, TooOld."""
    if archived.kind == "run":
        with RunReader(archived.folder) as run:
            return runs.run_line(run)
    if archived.kind == "improvement":
        from harness.archive.improve_folder import ImproveFolder

        return runs.improvement_line(ImproveFolder(archived.folder))
    from harness.archive.comparison_reader import ComparisonReader

    with ComparisonReader(archived.folder) as comparison:
        return runs.comparison_line(comparison)
