"""The records of judging: what a judge said of two transcripts, or of a list of them, with what it cost."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, JsonValue, Tag, TypeAdapter

from harness.core.records import BUILT_LATER, Failure, Record, Usage, is_none

Side = Literal["A", "B"]
Winner = Literal["A", "B", "tie"]

FlagKind = Literal[
    "leaked_reasoning",
    "repetition",
    "empty_answer",
    "echoes_query",
    "too_long",
    "addresses_judge",
    "forged_fence",
    "hidden_text",
]
"""What the harness looks for in a transcript by itself (harness.judging.flags)."""


class Flag(Record):
    """Something in what the judge was shown that the harness found by itself: what, in which block, the place."""

    kind: FlagKind
    place: Literal["path", "answer"]
    detail: str = ""


class Cap(Record):
    """A mark that was lowered because of a flag, as the rubric says: `given` by the judge, counted as `most`."""

    dimension: str
    flag: FlagKind
    given: int
    most: int


class SideScores(Record):
    """One side of a verdict. `combined` is recomputed from `dimensions`, never taken from the judge."""

    dimensions: Mapping[str, int]
    """The marks that count: the judge's own, but for those in `caps`."""
    path: int | None
    answer: int | None
    combined: float
    flags: tuple[Flag, ...] = ()
    caps: tuple[Cap, ...] = ()


class _Bought(Record):
    key: str
    query: str
    rubric: str
    """`name@version`, and the first twelve digits of the fingerprint."""
    judge: str
    repeat: int = 0
    """Which of several verdicts on the very same question it is (--judge-repeats)."""
    cut: tuple[Side, ...] = ()
    """The sides whose answer was cut to fit --judge-budget."""
    source: str | None = None
    """The run that it was bought in, where that is another one (--reuse)."""
    form: str | None = None
    """How the reply was asked for: json_schema, json_object or text."""
    tier: str | None = Field(default=None, exclude_if=is_none)
    """The service tier that gave the last reply, as the endpoint says; None where no other than the ordinary was asked
    for, or where the endpoint says nothing."""
    raw_replies: tuple[str, ...] = ()
    """Blobs: the judge's reply, and before it the one that needed repair."""
    usage: Usage = Usage.model_construct()
    price_usd: float | None = None
    started_at: datetime
    duration_s: float


class _VerdictBase(_Bought):
    first: str
    """Hash of the transcript shown as A."""
    second: str


class Judged(_VerdictBase):
    """A verdict that came out: scores of both sides, by dimension."""

    status: Literal["ok"] = "ok"
    a: SideScores
    b: SideScores
    winner: Winner
    analysis: Mapping[str, str] = Field(default_factory=dict)
    claims: Mapping[str, JsonValue] = Field(default_factory=dict)
    """What the judge claimed of overalls, combined scores and winner where its own scores say otherwise."""
    repaired: bool = False


class SideScore(Record):
    """What one side of a verdict came to."""

    combined: float


class PairScores(Record):
    """What rankings and figures take of a `Judged`, read from its line alone: no marks, no words, no flags."""

    key: str
    judge: str
    repeat: int = 0
    cut: tuple[Side, ...] = ()
    source: str | None = None
    started_at: datetime
    duration_s: float
    first: str
    second: str
    status: Literal["ok"]
    a: SideScore
    b: SideScore
    winner: Winner
    claims: Mapping[str, JsonValue] = Field(default_factory=dict)
    repaired: bool = False


PairJudgment = Judged | PairScores
"""A verdict on a pair that came out, whole or as far as rankings go by it."""


class Unjudged(_VerdictBase):
    """A verdict that failed: it has no winner and no score that anything could read by mistake."""

    status: Literal["failed"] = "failed"
    failure: Failure


class _ListBase(_Bought):
    transcripts: tuple[str, ...]
    """Hashes of the transcripts in the order shown; equal transcripts are shown once."""


class Scored(_ListBase):
    """A listwise verdict that came out: one score from 0 to 1 for each of `transcripts`, and why."""

    status: Literal["ok"] = "ok"
    scores: tuple[float, ...]
    explanations: tuple[str, ...]
    repaired: bool = False


class Unscored(_ListBase):
    """A listwise verdict that failed: no score."""

    status: Literal["failed"] = "failed"
    failure: Failure


AnyVerdict = Judged | Unjudged | Scored | Unscored


def _verdict_kind(value: Any) -> str:
    """Name the record that a line of the verdicts segment holds: a pair's or a list's, by what was shown."""
    if isinstance(value, Mapping):
        members: Mapping[str, Any] = value  # pyright: ignore[reportUnknownVariableType]
        return ("list-" if "transcripts" in members else "pair-") + str(members.get("status"))
    return ("list-" if isinstance(value, _ListBase) else "pair-") + str(getattr(value, "status", None))


Verdict = Annotated[
    Annotated[Judged, Tag("pair-ok")]
    | Annotated[Unjudged, Tag("pair-failed")]
    | Annotated[Scored, Tag("list-ok")]
    | Annotated[Unscored, Tag("list-failed")],
    Discriminator(_verdict_kind),
]
VERDICT: TypeAdapter[AnyVerdict] = TypeAdapter(Verdict, config=BUILT_LATER)
