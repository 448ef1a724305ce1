"""The imported lines behind a group: its ranking names them, or each of its rollouts does."""

from collections.abc import Iterator

from pydantic import ValidationError

from harness.core.rankings import ImportedLine
from harness.core.records import Rollout
from harness.formats.training.candidates import RankedGroup
from harness.formats.training_lines.origins import SOURCE_KEY


def lines_behind(group: RankedGroup) -> Iterator[ImportedLine]:
    """Yield the lines that a group was imported from, of which it is known what is behind them."""
    yield from group.ranked.lines
    for rollout in group.group.rollouts:
        if rollout.origin and (line := _line_of(rollout)):
            yield line


def _line_of(rollout: Rollout) -> ImportedLine | None:
    """Return the line that a rollout's metadata name; None where a file of others had such a key for something else."""
    try:
        return ImportedLine.model_validate(rollout.metadata[SOURCE_KEY]) if SOURCE_KEY in rollout.metadata else None
    except ValidationError:
        return None
