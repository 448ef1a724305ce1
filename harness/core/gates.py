"""The records of gates: the forecast, each analysis, and what a gate says."""

from typing import Annotated, Literal

from pydantic import Field

from harness.core.comparisons import Comparison
from harness.core.records import Record, is_none

GateFinding = Literal["not worse", "worse", "cannot tell"]
LengthLead = Literal["by length alone", "perhaps by length"]
"""What longer answers may have made of a lead."""


class InterimRule(Record):
    """How a comparison stops before all queries are judged: as soon as an analysis tells."""

    looks: Annotated[int, Field(ge=2, le=8)]
    margin: Annotated[float, Field(gt=0, lt=0.5)]


GateStop = Literal["nothing judged", "judge failed", "quota", "max cost", "refused", "interrupted"]


class Forecast(Record):
    """How probably an agent that is as good as the baseline passes a gate."""

    probability: float
    queries: int
    """How many are judged at most; of queries in clusters, how many count as independent."""
    margin: float
    looks: int
    spread: float
    """Standard deviation of a query's win rate between equal agents."""
    spread_from: Literal["runs", "default"]
    """Where the spread comes from: pairs of the baseline judged in its own run, or the default."""
    desired: float = 0.8
    queries_desired: int | None = None
    """How many queries let an equal agent pass with the probability `desired`; None where a million are too few."""


class InterimAnalysis(Record):
    """What the queries that were judged up to an analysis said."""

    queries: int
    critical: float
    """How many standard errors the interval takes, before Student's t."""
    win_rate: float
    interval: tuple[float, float]
    finding: GateFinding
    labels: int | None = Field(default=None, exclude_if=is_none)
    """Of how many labels, where people's rate decides: `win_rate` and `interval` are then people's."""


class GateResult(Record):
    """What a gate says: what `harness gate --json` prints."""

    finding: GateFinding
    passed: bool
    """Whether the command exits with 0."""
    sentence: str
    margin: float
    """How far below one half the interval of the win rate may reach."""
    reasons: tuple[str, ...] = ()
    """Why the gate cannot tell, besides the interval."""
    forecast: Forecast
    looks: tuple[InterimAnalysis, ...]
    planned_looks: int
    comparison: Comparison


class UndecidedGate(Record):
    """What `harness gate --json` prints where a refusal, an outage or a limit leaves it without a finding."""

    finding: None = None
    passed: Literal[False] = False
    stopped: GateStop
    """Why there is no finding: `judge failed` midway, or `nothing judged` at all."""
    sentence: str
    comparison: Comparison | None = None
    """What was compared so far; None where nothing was."""
