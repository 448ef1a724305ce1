"""`harness ls`: the runs and comparisons there are."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.archive.reader import RunReader
from harness.archive.run_info import linked_runs, list_archived, list_improvements
from harness.cli.archived_run import runs_folder
from harness.cli.console import print_lines
from harness.cli.output import Caller, print_json, say
from harness.core.errors import ArchiveDamaged, ExitCode, HarnessError, NeedsUpgrade, TooOld, call
from harness.report.terminal.runs import RunLine, comparison_line, run_line, runs_table, unreadable_lines


def ls(caller: Caller) -> None:
    """Print the runs and comparisons, oldest first, and then the improvements."""
    folder = runs_folder(caller)
    infos: list[dict[str, object]] = []
    rows: list[RunLine] = []
    unreadable: dict[Path, HarnessError] = {}
    links = linked_runs(folder)
    for archived in list_archived(folder):
        path = archived.folder
        try:
            if archived.kind == "run":
                with RunReader(path) as run:
                    line = run_line(run)
            else:
                from harness.archive.comparison_reader import ComparisonReader

                with ComparisonReader(path) as comparison:
                    line = comparison_line(comparison)
            rows.append(line)
            if caller.as_json:  # which takes its time
                left_out = {"rubric_text", "instructions", "task"}
                infos.append(line.info.model_dump(mode="json", exclude=left_out) | line.figures)
        except ArchiveDamaged as exc:  # one bad run must not hide the rest
            unreadable[path] = exc
            infos.append({"id": path.name, "damaged": str(exc)})
        except (NeedsUpgrade, TooOld) as exc:
            unreadable[path] = exc
            infos.append({"id": path.name, "needs" if isinstance(exc, NeedsUpgrade) else "too_old": exc.version})
    improvements = [_improvement(path) for path in list_improvements(folder)]
    if caller.as_json:
        print_json([*infos, *improvements])
    elif rows or unreadable or links or improvements:
        print_lines(lambda width: (*(runs_table(rows, width) if rows else ()), *unreadable_lines(unreadable)))
        for link in links:
            say(f"damaged: {link}", err=True)
        for path in (path for path, error in unreadable.items() if error.exit_code is ExitCode.DAMAGED):
            say(f"{path.name} is damaged: {call('validate', path)} tells more", err=True)
        _say_improvements(improvements)
    else:
        say(f"no runs in {folder}/ yet; make one with {call('run', agent='search')}")


def _say_improvements(improvements: Sequence[Mapping[str, object]]) -> None:
    for one in improvements:
        say(f"improvement {one['id']}: {one.get('damaged') or one['outcome'] or 'not finished'}")


def _improvement(path: Path) -> dict[str, object]:
    """Return what is known of an improvement at a glance."""
    from harness.archive.improve_folder import ImproveFolder

    try:
        kept = ImproveFolder(path)
        info, result = kept.info(), kept.result()
    except HarnessError as exc:
        return {"id": path.name, "kind": "improvement", "damaged": str(exc)}
    outcome = result.outcome if result else None
    return {"id": path.name, "kind": "improvement", "agent": info.agent, "judge": info.judge, "outcome": outcome}
