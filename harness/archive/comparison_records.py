"""What a comparison's folder holds beside texts and verdicts: `compare.json`, and the lines of its files."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, JsonValue, model_validator

from harness.archive import comparison_faults as faults
from harness.archive.kept_rubric import check_rubric_text
from harness.archive.layout import COMPARISON_FILE
from harness.archive.run_info import read_info_file
from harness.archive.typed_records import RecordType
from harness.core.comparisons import ComparedQuery, ComparedSide
from harness.core.gates import InterimRule
from harness.core.records import Record


class ComparisonInfo(Record):
    """`compare.json`: written once, when the comparison begins.

    A folder is a comparison if and only if it holds one, and no run.json.
    """

    schema_version: int
    id: str
    created_at: datetime
    sides: tuple[ComparedSide, ...]
    """As the user named them, and as they were when the comparison began."""
    settings: Mapping[str, JsonValue]
    judge: Mapping[str, JsonValue]
    """The judge as resolved when the comparison began: model, base_url, api."""
    rubric: str
    """The rubric's label."""
    rubric_text: str | None = None
    """The rubric's own text, whole; None where a key or a pattern of --redact stands in it."""
    rendering: Annotated[int, Field(ge=1, le=999)] = 1
    """The way in which the transcripts are written (harness.transcripts)."""
    task_from: Literal["agent", "file", "nothing"] = "agent"
    """Which task the judge is shown: the sides' own, where it is the same one; a file's (--task); or none."""
    task: str | None = None
    """The file's text; None where there is none, and where a key or a pattern of --redact stands in it."""
    pairs: Annotated[int, Field(ge=0, le=1_000_000)]
    """How many cross pairs of samples meet on each query."""
    cluster: str | None = None
    """The key of the queries' metadata by which queries are alike."""
    early_stop: InterimRule | None = None
    """With which looks a gate could stop before all queries were judged; None where it could not."""
    offline: bool
    """A side's model, or the judge, is the embedded one: the result says nothing of any LLM."""
    queries: int | None = None
    """How many queries the sides share; None where that was not known yet."""
    versions: Mapping[str, str]
    accepted: tuple[str, ...] = ()
    """What the user was warned of and went on with."""

    @model_validator(mode="after")
    def _text_has_its_fingerprint(self) -> Self:
        check_rubric_text(self.rubric, self.rubric_text)
        return self


class ComparisonHead(Record):
    """The first line of a comparison's file."""

    id: str
    created_at: datetime
    sides: tuple[ComparedSide, ...]
    """As they are now: a run that has grown since the comparison began has another basis."""
    notes: tuple[str, ...] = ()
    """What a reader must know, as far as it was known before anything was judged."""
    floors: tuple[float | None, ...] = ()
    """For each side the standard deviation of a query's win rate between equal agents, from its own judged pairs; None
    where the run has too few."""


class ComparisonFooter(Record):
    """The last line of a comparison's file: the comparison is complete."""

    queries: int


class _MatchMark(Record):
    winner: str | None = None


class ComparedMark(Record):
    """Which query a line of a comparison's file holds, and which of its matches are open."""

    query: str
    matches: tuple[_MatchMark, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether a match waits for a verdict."""
        return any(match.winner is None for match in self.matches)


COMPARISON_HEAD = RecordType("header", ComparisonHead.model_validate, faults.comparison_head_faults)
COMPARED_QUERY = RecordType("compared", ComparedQuery.model_validate, faults.compared_faults)
COMPARED_MARK = RecordType("compared", ComparedMark.model_validate)
COMPARISON_FOOTER = RecordType("footer", ComparisonFooter.model_validate)


def read_comparison_info(folder: Path) -> tuple[ComparisonInfo, str]:
    """Read `compare.json`, and return it with the sha256 (hex) of its bytes.

    Raises ArchiveDamaged if it cannot be read, NeedsUpgrade for a newer schema.
    """
    return read_info_file(folder / COMPARISON_FILE, ComparisonInfo.model_validate, faults.info_faults, "comparison")
