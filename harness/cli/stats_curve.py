"""`harness stats --curve`: accuracy against judge calls, from a round robin that is there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.cli.console import stdout
from harness.cli.new_files import refuse_existing, write_new
from harness.cli.output import print_json, say
from harness.pipeline.labelling import answer_labels
from harness.report.csv import curve_csv
from harness.report.html.curve_svg import curve_svg
from harness.report.json import curve_json
from harness.report.summary.curve import judging_curve, round_robin_of
from harness.report.terminal.judges import curve_lines

if TYPE_CHECKING:
    from pathlib import Path

    from harness.archive.reader import RunReader
    from harness.report.summary.curve import CurveTruth


@dataclass(frozen=True)
class CurveRequest:
    """What the options of a curve ask for."""

    ranking: str | None
    seed: int
    truth: CurveTruth | None
    against: str | None
    labels: Path | None
    csv: Path | None
    svg: Path | None
    force: bool


def show_curve(reader: RunReader, asked: CurveRequest, *, as_json: bool) -> None:
    """Print the curve of a run's round robin, and write the files that were asked for.

    Raises UsageError, NothingRankable, CannotWrite.
    """
    files = [path for path in (asked.csv, asked.svg) if path]
    for path in files if not asked.force else ():
        refuse_existing(path)
    ranking = round_robin_of(reader, asked.ranking)
    against = reader.ranking(asked.against) if asked.against else None
    labels = answer_labels(reader, asked.labels)
    curve = judging_curve(reader, ranking, truth=asked.truth, against=against, labels=labels, seed=asked.seed)
    for path, text in ((asked.csv, curve_csv), (asked.svg, curve_svg)):
        if path:
            write_new(path, text(curve), force=asked.force)
    if as_json:
        print_json({"run": reader.info.id, "path": str(reader.folder)} | curve_json(curve))
        return
    console = stdout()
    for line in curve_lines(curve, console.width):
        console.print(line)
    for path in files:
        say(f"{path}: written", err=True)
