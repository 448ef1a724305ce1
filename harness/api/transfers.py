"""Ranked runs as training data, in Python."""

from collections.abc import Sequence
from pathlib import Path

from harness.api.archived import AnyRun, Run, find_folder, runs_parent
from harness.api.outside import door_at_once, read_run_env
from harness.archive.reader import RunReader
from harness.core.clock import Clock, now
from harness.core.progress import Progress
from harness.formats.training.rules import WHOLE, ExportRules, read_split
from harness.pipeline.exporting.export import ExportOptions, ExportResult, export_runs
from harness.pipeline.merging import merge_runs
from harness.report.html.run_page import write_page


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

    `output` is its name in `runs_dir`, or a path; None: an id. Nothing is bought, and `runs` stay as they are. Rankings
    that all have finished become ones of all groups; `progress` gets a note on what is left out. Raises UsageError for
    runs that differ or share a query; ArchiveLocked, ArchiveDamaged, CannotWrite.
    """
    parent, run_env = runs_parent(runs_dir), read_run_env(progress, clock)
    folders = [find_folder(run, runs_dir) for run in runs]
    merged = merge_runs(folders, None if output is None else str(output), parent, run_env)
    for note in merged.notes:
        run_env.progress.note(note)
    made = Run(merged.path)
    if merged.rankings:
        with RunReader(merged.path) as reader:
            write_page(reader, reader.ranking(), made.page)
    return made


@door_at_once
def export_run(
    run: AnyRun,
    to: Path | str,
    rules: ExportRules,
    *,
    split: str | None = None,
    ranking: str | None = None,
    allow_offline: bool = False,
    force: bool = False,
    runs_dir: str | Path | None = None,
) -> ExportResult:
    """Write a ranked run as training data into the folder `to`, as `harness export` does.

    `split` names the shares of a split by query: "train=0.9,test=0.1". The result lists the files, and counts what was
    left out; where nothing is left, there is no file. Raises NothingRankable for a run without ranking, UsageError,
    CannotWrite, ArchiveDamaged.
    """
    shares = read_split(split) if split else WHOLE
    options = ExportOptions(rules=rules, split=shares, ranking=ranking, allow_offline=allow_offline, force=force)
    return export_runs([find_folder(run, runs_dir)], Path(to), options)
