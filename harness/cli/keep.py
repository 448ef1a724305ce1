"""The work of `merge`, one run out of several, and of `validate`: is an archive whole?"""

import shlex

from harness.archive.layout import ASIDE, find_archived, find_run
from harness.archive.reader import RunReader
from harness.cli.archived_run import runs_folder
from harness.cli.output import Caller, print_json, say
from harness.cli.piece_progress import draw_pages
from harness.core.clock import now
from harness.core.errors import ExitCode
from harness.core.wording import call, command, counted
from harness.pipeline.merging import merge_runs
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.validation import validate_comparison, validate_run
from harness.report.summary.ranking import summarize


def merge_archived(caller: Caller, runs: tuple[str, ...], output: str | None) -> None:
    """Copy the records of several runs into one, and print where it is."""
    folder = runs_folder(caller)
    merged = merge_runs([find_run(word, folder) for word in runs], output, folder, RunEnvironment(caller.environ))
    for note in () if caller.quiet else merged.notes:
        say(f"note: {note}", err=True)
    if caller.as_json:
        counts = {name: getattr(merged, name) for name in ("queries", "rollouts", "rankings")}
        print_json({"run": merged.path.name, "path": str(merged.path)} | counts | {"notes": list(merged.notes)})
    else:
        sizes = f"{counted(merged.queries, 'query', 'queries')} and {counted(merged.rollouts, 'rollout')}"
        say(f"{counted(len(runs), 'run')} merged, {sizes}: {merged.path}")
        say(f"\nnext: {command(f'show {shlex.quote(str(merged.path))}')}")
    if merged.rankings and caller.report:
        with RunReader(merged.path) as reader:
            ranking = reader.ranking()
            draw_pages(reader, ranking, summarize(reader, ranking), quiet=caller.quiet)


def validate_archived(caller: Caller, run: str, *, repair: bool) -> ExitCode:
    """Check an archive, with `repair` move damaged lines aside, and print what was found; return the exit code."""
    folder, kind = find_archived(run, runs_folder(caller))
    validation = (validate_comparison if kind == "comparison" else validate_run)(folder, now, repair=repair)
    if caller.as_json:
        print_json(
            [{"kind": f.kind, "file": str(f.path), "line": f.line, "reason": f.reason} for f in validation.findings]
        )
    else:
        for finding in validation.findings:
            say(str(finding))
        if validation.damaged:
            hint = f"{call('validate', folder, repair=True)} moves damaged lines aside"
            if any(finding.by_hand for finding in validation.remaining):
                hint = "no repair mends that: put right by hand what is named above"
            say(f"{folder}: damaged; {hint}")
        elif repair and any(finding.kind == "damage" for finding in validation.findings):
            missing = f"{call('resume', folder)} does what is missing"
            say(f"{folder}: whole, less the lines now in {ASIDE}/; {missing}")
        else:
            say(f"{folder}: whole")
    return ExitCode.DAMAGED if validation.damaged else ExitCode.DONE
