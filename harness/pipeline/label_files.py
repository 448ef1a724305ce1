"""Labels of answers: those of a file that a user names, else those of the run."""

from pathlib import Path

from harness.archive.reader import RunReader
from harness.core.wording import before_colon
from harness.formats.labelled_pairs import CONTROL, LabelledPair, pairs_in_text, read_pairs
from harness.report.summary.truths import AnswerLabel


def answer_labels(reader: RunReader, path: Path | None) -> list[AnswerLabel]:
    """Return the labels of a file, else those of the run; none where it has none.

    Raises UsageError naming line and fault; ArchiveDamaged where the run's file cannot be read.
    """
    if path:
        pairs = read_pairs(path, before_colon("labels"))
    else:
        pairs = pairs_in_text(reader.labels() or "", str(reader.folder / "labels.jsonl"))
    return [_answer_label(pair) for pair in pairs]


def _answer_label(pair: LabelledPair) -> AnswerLabel:
    a, b = (side.answer for side in pair.sides)
    return AnswerLabel(pair.query, a, b, pair.label, pair.query_id, pair.rollouts, pair.kind == CONTROL)
