"""Labelled pairs of answers for `judges` and `stats --curve`: those of a file, else those of the run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from harness.cli import options

if TYPE_CHECKING:
    from pathlib import Path

    from harness.archive import RunReader
    from harness.report import AnswerLabel

labels_option = click.option(
    "--labels",
    type=options.FILE,
    metavar="FILE",
    help="Labelled pairs of answers, as `doctor --judge --pairs` reads them. [default: labels.jsonl of the run]",
)


def answer_labels(reader: RunReader, path: Path | None) -> list[AnswerLabel]:
    """Return the labels of a file, else those of the run; none where it has none. Raises UsageError."""
    text = None if path else reader.labels()
    if path is None and text is None:
        return []
    from harness.doctor import pairs_in_text, read_pairs  # which takes its time
    from harness.report import AnswerLabel

    pairs = read_pairs(path, "--labels") if path else pairs_in_text(text or "", str(reader.folder / "labels.jsonl"))
    return [AnswerLabel(pair.query, pair.sides[0].answer, pair.sides[1].answer, pair.label) for pair in pairs]
