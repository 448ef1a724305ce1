"""Where a line of training data came from: the line, what `sources.jsonl` beside its file says, and a group's lines."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Literal

from pydantic import Field, JsonValue, SkipValidation, ValidationError

from harness.core.errors import UsageError, on_a_line
from harness.core.rankings import ImportedLine, Signal
from harness.core.records import Failure, Record, Role, Step, Usage
from harness.core.user_files import is_file, text_lines
from harness.formats.json_values import first_fault, parse_json
from harness.formats.training.candidates import RankedGroup
from harness.formats.turns import Turn

SOURCES = "sources.jsonl"
SOURCE_KEY = "source"
"""Where the metadata of an imported rollout without a ranking hold what is behind its line."""
LineFormat = Literal["groups", "art", "sft", "dpo", "openai-preference"]


@dataclass(frozen=True)
class LineOrigin:
    """What trajectories of one line have in common. Lines of one query with one `key` are one group."""

    format: LineFormat
    key: str
    signal: Signal = "ok"
    judge: str | None = None
    line: ImportedLine | None = None
    """What is behind the line, where a file beside it says so and the line is as it was."""


def line_hash(text: str) -> str:
    """Return the sha256 (hex) of a line, with its line break or without."""
    return sha256(text.rstrip("\r\n").encode()).hexdigest()


def sources_beside(path: Path) -> Callable[[int, str], ImportedLine | None]:
    """Return what says of a line of a file, by its number and text, what is behind it: None where nobody knows.

    Raises UsageError naming the line of `sources.jsonl` that cannot be read.
    """
    beside = path.with_name(SOURCES)
    sources: dict[int, ImportedLine] = {}
    for number, text in text_lines(beside, on_a_line(beside)) if is_file(beside) else ():
        try:
            fields = parse_json(text) if text.strip() else None
            if isinstance(fields, Mapping) and fields.get("file") == path.name and "sha256" in fields:
                sources[int(str(fields.get("line")))] = ImportedLine.model_validate(fields)
        except ValueError as exc:
            reason = first_fault(exc) if isinstance(exc, ValidationError) else on_a_line(exc)
            raise UsageError(f"{on_a_line(beside)}:{number}: {reason}") from None

    def source_of(number: int, text: str) -> ImportedLine | None:
        source = sources.get(number)
        return source if source and source.sha256 == line_hash(text) else None

    return source_of


def lines_behind(group: RankedGroup) -> Iterator[ImportedLine]:
    """Yield the lines that a group was imported from, of which it is known what is behind them."""
    yield from group.ranked.lines
    for rollout in group.group.rollouts:
        if rollout.origin and SOURCE_KEY in rollout.metadata:
            try:
                line = ImportedLine.model_validate(rollout.metadata[SOURCE_KEY])
            except ValidationError:
                continue  # a file of others had such a key for something else
            yield line


class ImportedTrajectory(Record):
    """One trajectory as read. What the file does not say is None."""

    format: str
    query: str
    query_id: str | None = None
    id: str | None = None
    path: tuple[Step, ...] = ()
    answer: str = ""
    index: int | None = None
    """The rollout's number in its group; None to count it."""
    content: str | None = None
    """A hash by which a rollout that comes again in its group is known."""
    role: Role | None = None
    reward: float | None = None
    advantage: float | None = None
    uncertainty: float | None = None
    line: SkipValidation[LineOrigin | None] = None
    """The line of training data that it stood on, which says its place; None for a trajectory alone."""
    reference: str | None = None
    metadata: Mapping[str, JsonValue] = Field(default_factory=dict)
    instructions: str | None = None
    tool_names: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    temperature: float | None = None
    usage: Usage = Usage()
    price_usd: float | None = None
    failure: Failure | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    turns: SkipValidation[tuple[Turn, ...]] = ()
    """The messages as they came; none where a format holds steps alone."""
    apart: str = ""
    """The run that it was exported from: its rollouts of a query are no group with those of another run."""
    unplaced: tuple[str, ...] = ()
    """What else stood there, and no record has a place for, each thing by its name."""
