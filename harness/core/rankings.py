"""The records of judging and ranking: verdicts, matches, places, and the ranking of a group."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, JsonValue, Tag, TypeAdapter

from harness.core.cost import Cost, cost
from harness.core.records import BUILT_LATER, Failure, PaidCall, Record, Usage, is_empty, is_none

Signal = Literal["ok", "weak", "none"]
SecondOpinion = Literal["margins", "pooled"]
"""The fit beside an estimator: behind `margin`, and behind the probabilities where the estimator has none."""
FIT_VERSION = 6
"""Which version of the fits gives rankings their probabilities: a ranking's head names it."""


class Match(Record):
    """Two rollouts compared: mean score a side over the verdicts used."""

    round: int
    """0 for the anchor's seeding matches, 1 and up for the rounds of the topology."""
    a: int
    b: int
    verdicts: tuple[str, ...]
    """Keys of the verdicts used, one an order and repeat; with a jury one an order, repeat and juror."""
    shown_first: tuple[int, ...]
    """For each of `verdicts`, the rollout that stood first."""
    score_a: float
    score_b: float
    winner: int | None
    """The higher score; None for a tie."""
    flipped: bool
    """The two orders name opposite winners."""
    inconsistent: bool
    """One order names a winner, the other a tie."""
    repeated: bool = False
    """The pair had met before in this tournament, and its scores were used again."""
    scores: tuple[tuple[float, float], ...]
    """For each of `shown_first`, what that verdict gave the side shown first, and the other."""
    cut: bool = False
    """An answer was cut to fit --judge-budget: the judge did not see the whole of it."""
    jurors: tuple[Annotated[int, Field(ge=0, lt=1000)], ...] = Field(default=(), exclude_if=is_empty)
    """For each of `verdicts`, the seat of the juror who gave it, from 0; empty with a single judge."""
    features: tuple[tuple[float, ...], ...] = Field(default=(), exclude_if=is_empty)
    """Of `a` and of `b`, what the judge may lean to (AnswerFeatures); empty where its leanings are not known."""


class Ranked(Record):
    """One rollout's place. `rank` 0 is best; ties share the average; None where it could not be ranked."""

    index: int
    score: float | None = None
    rank: float | None = None
    reward: float | None = None
    advantage: float | None = None
    uncertainty: float | None = None
    """Posterior standard deviation: of `score` where a fit ranks (margins, bt, pooled), else of `margin`."""
    margin: float | None = None
    """The second opinion's estimate (`GroupRanking.secondary_fit`): score points above the group's mean.

    With --judge-when tied, above the mean of its class of equal reward.
    """
    p_best: float | None = None
    """Posterior probability of being the best of those that ended well; None where no two scores differ."""
    p_above_mean: float | None = None
    """Posterior probability of being above their mean."""
    verified: float | None = None
    """The rollout's verifiable reward, if it has one."""
    explanation: str | None = None
    """Why a listwise judge scored it so."""

    @property
    def order(self) -> tuple[bool, float, float, int]:
        """What rollouts are listed by: rank, then p_best, then index; those without a rank last, by index."""
        return self.rank is None, self.rank or 0.0, 0.0 if self.rank is None else -(self.p_best or 0.0), self.index


class Agreement(Record):
    """How far two jurors agree on the same items (matches; with a listwise judge, pairs of rollouts)."""

    jurors: tuple[str, str]
    items: int
    kappa: float | None
    """Cohen's kappa on the winners (first, second, tie); None where neither ever varied."""
    spearman: float | None
    """Rank correlation of the margins; None where one juror's are all equal, or with less than two items."""


class ImportedLine(Record):
    """A line of training data that was imported, and what its folder says is behind it."""

    sha256: str
    """Of the line, without its line break."""
    run: str
    ranking: str
    query: str
    rollouts: tuple[int, ...]
    records: str
    """The sha256 of the records of ranking and rollouts."""


class GroupRanking(Record):
    """The ranking of one query's rollouts, one line of a rankings file."""

    query: str
    topology: str
    estimator: str
    status: Literal["complete", "incomplete"]
    signal: Signal
    provisional: bool = False
    """Whether it is told anew once `pooled` has learnt the judge from all groups of the ranking.

    Ranked by `pooled` itself its places may change; beside another estimator only probabilities and signal may.
    """
    secondary_fit: SecondOpinion = "margins"
    """The fit behind `margin`, and, where the estimator has no fit of its own, behind probabilities and signal."""
    matches: tuple[Match, ...] = ()
    rollouts: tuple[Ranked, ...] = ()
    failed_verdicts: tuple[str, ...] = ()
    """Keys of verdicts that were asked for and failed: their matches stayed open."""
    judged: int = 0
    """Verdicts bought now."""
    reused: int = 0
    """Distinct verdicts used that were there before."""
    saved_calls: int = 0
    """Planned judge calls that were not made because they could not change who is best."""
    judge_usage: Usage = Usage.model_construct()
    """What the verdicts bought now took, failed ones and repair turns included."""
    judge_usd: float | None = 0.0
    judge_usd_at_least: float | None = Field(default=None, exclude_if=is_none)
    """The part of an unknown price that is known."""
    notes: tuple[str, ...] = ()
    reward_from: Literal["rank", "score"] = "rank"
    first_side: float | None = None
    """What standing first is worth in this group, in score points, by the fit behind `signal`; with its sd."""
    first_side_sd: float | None = None
    sigma: float | None = None
    """Noise of one call's margin, in score points."""
    reliability: float | None = None
    """1 - mean posterior variance / variance of that fit's estimates, at least 0."""
    p_value: float | None = Field(default=None, exclude_if=is_none)
    """How often rollouts that are all equally good would look at least as different to this judge in these matches.

    `signal` is weak where it is high. None by `margins`, whose `signal` is weak where the reliability is low.
    """
    verdicts: tuple[str, ...] = ()
    """Keys of the listwise verdicts it rests on; a match names its own."""
    absent_verdicts: tuple[str, ...] = ()
    """Keys of jurors' verdicts that failed where the other jurors' stood in."""
    agreement: tuple[Agreement, ...] = ()
    """One for each two jurors."""
    origin: str | None = None
    """The format that it was imported from; None for a ranking made here."""
    judge: str | None = None
    """Who judged an imported group, as its file says."""
    pairs: tuple[tuple[int, int], ...] = ()
    """The better and the worse rollout of each imported preference, in the order of the file."""
    lines: tuple[ImportedLine, ...] = ()
    """The lines that it was imported from, of which it is known what is behind them."""
    basis: str = ""
    """Which records of the rollouts it rests on (`Group.basis`): with others on disk it is out of date."""

    @property
    def judge_cost(self) -> Cost:
        """What was bought for it cost, as far as that is known."""
        return cost(self.judge_usd, self.judge_usd_at_least)


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
    "unsupported",
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


class Citation(Record):
    """What a judge cites for a reason, one of the remarks in a verdict's `analysis`, and whether it stands there."""

    reason: str
    side: str
    step: int | None
    """From 1, as in transcripts; None for the answer."""
    quote: str
    found: bool


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
    calls: tuple[PaidCall, ...] = Field(default=(), exclude_if=is_empty)
    """The model calls behind `raw_replies`, in the same order."""
    usage: Usage = Usage.model_construct()
    price_usd: float | None = None
    price_usd_at_least: float | None = Field(default=None, exclude_if=is_none)
    """The part of an unknown price that is known."""
    started_at: datetime
    duration_s: float

    @property
    def cost(self) -> Cost:
        """What its replies cost, as far as that is known."""
        return cost(self.price_usd, self.price_usd_at_least)


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
    citations: tuple[Citation, ...] = Field(default=(), exclude_if=is_empty)
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
