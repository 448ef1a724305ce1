"""A trajectory made elsewhere, whatever its format."""

from collections.abc import Mapping
from datetime import datetime

from pydantic import Field, JsonValue, SkipValidation

from harness.core.records import Failure, Record, Role, Step, Usage
from harness.formats.training.origins import LineOrigin
from harness.formats.turns import Turn


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
