"""What a run has taught of its judge, as a record that is kept with a ranking and lent to other groups."""

import json
import math
from datetime import datetime
from typing import Annotated, Any, Literal, Self, cast

from pydantic import Field, ValidationError, model_validator

from harness.core.errors import UsageError, on_a_line
from harness.core.records import Record, digest, is_none

LEAST_LOG_VARIANCE, LARGEST_LOG_VARIANCE = -60.0, 20.0
"""A judge without any noise of a kind is learnt as one of nearly none: the logarithm then lies far below 0."""
_LogVariance = Annotated[float, Field(ge=LEAST_LOG_VARIANCE, le=LARGEST_LOG_VARIANCE)]
_Points = Annotated[float, Field(ge=-1e5, le=1e5)]
_Share = Annotated[float, Field(ge=0, le=1)]
_Lean = Annotated[float, Field(ge=-100, le=100)]
_Text = Annotated[str, Field(min_length=1, max_length=2000)]
_Count = Annotated[int, Field(ge=0, le=10**12)]
_REASON = 300
WIDTHS_OF_NOISE = (0.0, 0.3, 0.5, 0.8, 1.2)
"""How far the logarithms of the groups' noise variances may lie apart, as standard deviations."""
_Root = Annotated[float, Field(ge=-10, le=10)]
"""What is learnt has a variance of at most 10 (harness.ranking.pooled): less is known only by who makes it up."""


class JudgeParameters(Record):
    """The parameters of `pooled` (docs/estimators.md): variances by their logarithm, in points out of 10."""

    log_quality_var: _LogVariance
    """Of the rollouts of a query."""
    log_level_var: _LogVariance
    """Of the queries' levels."""
    log_side_var: _LogVariance
    """Of the first-side effect, from query to query."""
    log_preference_noise: _LogVariance
    """Of half the difference of two orders' margins."""
    log_position_noise: _LogVariance
    """Of the mean of two orders' margins."""
    log_level_noise: _LogVariance
    level_share: Annotated[float, Field(ge=-10, le=10)]
    """How much of a mark's absolute level is real: 1 all, 0 none."""
    level: _Points
    first_side: _Points
    """What standing first is worth."""

    @property
    def values(self) -> tuple[float, ...]:
        """The parameters in order."""
        return tuple(getattr(self, name) for name in JudgeParameters.model_fields)


class JudgeLeanings(Record):
    """What probes show a judge to give for each feature of an answer (AnswerFeatures), beside its worth."""

    calls: Annotated[int, Field(ge=1, le=10**6)]
    """How many verdicts on probes it rests on."""
    points: tuple[_Lean, _Lean, _Lean]
    """Score points of a margin for a unit of length, formatting and talk of itself."""
    root: tuple[tuple[_Root], tuple[_Root, _Root], tuple[_Root, _Root, _Root]]
    """The lower Cholesky factor of their covariance."""

    @property
    def sds(self) -> tuple[float, ...]:
        """How well the points are known, as standard deviations."""
        return tuple(math.hypot(*row) for row in self.root)

    @property
    def are_shown(self) -> bool:
        """Whether one of the points lies two standard deviations or more from nothing."""
        return any(abs(points) >= 2 * sd for points, sd in zip(self.points, self.sds, strict=True))


class ProbedJudge(Record):
    """What a run's probes show of a judge, and of which judge, rubric and rendering that holds."""

    at: datetime
    judge: _Text
    rubric: _Text
    rendering: Annotated[int, Field(ge=1, le=999)]
    leanings: JudgeLeanings
    verdicts: tuple[str, ...]
    """Keys of the verdicts on the probes."""


class JudgeProfile(Record):
    """What the groups of a ranking teach of one judge, and of which judge, rubric and rendering that holds."""

    version: Literal[1] = 1
    judge: _Text
    """Who judges, as it stands in verdicts."""
    judge_hash: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    """`hash_of_judge(judge)`."""
    rubric: _Text
    """`name@version` with the fingerprint, as it stands in verdicts."""
    rendering: Annotated[int, Field(ge=1, le=999)]
    """The way in which the judge's transcripts are written."""
    groups: Annotated[int, Field(ge=1, le=10**12)]
    calls: _Count
    parameters: JudgeParameters
    """The mode of their posterior."""
    root: tuple[tuple[_Root, ...], ...]
    """The lower Cholesky factor of their covariance, row i with i + 1 numbers: whatever it holds, a covariance."""
    at_ends: _Share = 0.0
    """Share of the scores that lie at an end of the scale."""
    converged: bool = True
    noise_widths: tuple[_Share, ...] | None = None
    """How probable each of WIDTHS_OF_NOISE is; None in profiles that were learnt before it was."""
    leanings: JudgeLeanings | None = Field(default=None, exclude_if=is_none)
    """None where no probe was judged."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.judge_hash != hash_of_judge(self.judge):
            raise ValueError("judge_hash is not the hash of the judge's name")
        if [len(row) for row in self.root] != list(range(1, 1 + len(JudgeParameters.model_fields))):
            raise ValueError(f"root is no lower triangle of {len(JudgeParameters.model_fields)} rows")
        if any(row[-1] <= 0 for row in self.root):
            raise ValueError("the diagonal of root is not above 0")
        widths, few = self.noise_widths, len(WIDTHS_OF_NOISE)
        if widths is not None and (len(widths) != few or not math.isclose(math.fsum(widths), 1, abs_tol=1e-6)):
            raise ValueError(f"noise_widths are not {few} shares of 1")
        return self

    def sd(self, name: str) -> float:
        """Return the standard deviation of a parameter."""
        row = self.root[list(JudgeParameters.model_fields).index(name)]
        return math.sqrt(math.fsum(value * value for value in row))

    def mismatch(self, judge: str, rubric: str, rendering: int) -> str | None:
        """Return why the profile does not hold for another judging, naming both; None where it does."""
        if self.judge != judge:
            return f"it is of the judge {self.judge}, and this judge is {judge}"
        if self.rubric != rubric:
            return f"it is by the rubric {self.rubric}, and this rubric is {rubric}"
        if self.rendering != rendering:
            return f"it is of transcripts written in way {self.rendering}, and these are written in way {rendering}"
        return None


def profile_in(text: str, name: str) -> JudgeProfile:
    """Return the profile in a JSON text: the record itself, or an object that holds it as `record`.

    Raises UsageError, one line that begins with `name`, for any other text.
    """
    try:
        members: Any = json.loads(text)
        holder = cast("dict[str, Any]", members) if isinstance(members, dict) else {}
        return JudgeProfile.model_validate_json(json.dumps(holder.get("record", members)))
    except ValidationError as exc:
        reason = _first_fault(exc)
    except json.JSONDecodeError as exc:
        reason = f"it is no JSON (line {exc.lineno}, column {exc.colno})"
    except RecursionError:
        reason = "nested too deep"
    except ValueError as exc:
        reason = str(exc)
    raise UsageError(f"{name}: this is no judge's profile: {on_a_line(reason)[:_REASON]}")


def _first_fault(exc: ValidationError) -> str:
    """Return what is wrong first with a record, and where."""
    first = exc.errors(include_input=False, include_url=False)[0]
    place, fault = ".".join(map(str, first["loc"])), first["msg"].removeprefix("Value error, ")
    match first["type"]:
        case "missing":
            return f"it has no {place}"
        case "extra_forbidden":
            return f"{place} belongs to no profile"
        case "model_type":
            return f"{place or 'it'} is no JSON object"
        case _:
            return f"{place}: {fault[:1].lower()}{fault[1:]}" if place else fault


def hash_of_judge(judge: str) -> str:
    """Return the hash by which a profile names its judge."""
    return digest(["judge", judge])
