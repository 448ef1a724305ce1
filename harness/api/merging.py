"""One run out of several, in Python."""

from collections.abc import Sequence
from pathlib import Path

from harness.api.archived import AnyRun, Run, folder_of, parent_of
from harness.api.arguments import door_at_once
from harness.api.outside import surroundings_of
from harness.archive.reader import RunReader
from harness.core.clock import Clock, now
from harness.core.progress import Progress
from harness.pipeline.merging.merge import merge_runs
from harness.report.html.run.page import write_page


@door_at_once
def merge(
    runs: Sequence[AnyRun],
    *,
    output: str | Path | None = None,
    runs_dir: str | Path | None = None,
    progress: Progress | None = None,
    clock: Clock = now,
) -> Run:
    """Make one run of several runs of one agent, judge, rubric and settings, as `harness merge` does.

    `output` is its name in `runs_dir`, or a path; None: an id. Nothing is asked or bought, and `runs` stay as they are.
    Each ranking that all have and have finished becomes one of all groups; `progress` gets a note on what is left out.

    Raises UsageError for runs that differ, or have a query in common; ArchiveLocked for one that is being written to;
    ArchiveDamaged, CannotWrite.
    """
    parent, run_env = parent_of(runs_dir), surroundings_of(progress, clock)
    folders = [folder_of(run, runs_dir) for run in runs]
    merged = merge_runs(folders, None if output is None else str(output), parent, run_env)
    for note in merged.notes:
        run_env.progress.note(note)
    made = Run(merged.path)
    if merged.rankings:
        with RunReader(merged.path) as reader:
            write_page(reader, reader.ranking(), made.page)
    return made
