"""Ranked runs as training data, in Python."""

from pathlib import Path

from harness.api.archived import AnyRun, folder_of
from harness.api.arguments import door_at_once
from harness.formats.training.rules import ExportRules
from harness.formats.training.split import WHOLE, read_split
from harness.pipeline.exporting.export import ExportOptions, ExportResult, export_runs


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
    options = ExportOptions(
        rules=rules,
        split=read_split(split) if split else WHOLE,
        ranking=ranking,
        allow_offline=allow_offline,
        force=force,
    )
    return export_runs([folder_of(run, runs_dir)], Path(to), options)
