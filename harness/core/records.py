"""The frozen records that every room speaks.

They hold plain values only: ids instead of objects, tuples instead of lists, None for "not told". A record is
what the archive keeps, so a field that is added needs a default and none is ever renamed.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Discriminator, Field, JsonValue, Tag, TypeAdapter

Role = Literal["anchor", "sample"]
Side = Literal["A", "B"]
Winner = Literal["A", "B", "tie"]
Signal = Literal["ok", "weak", "none"]

AGENT_FAILURES = frozenset(
    {
        "timeout",
        "max_turns",
        "output",
        "guardrail",
        "refusal",
        "truncated",
        "content_filter",
        "tool",
        "context_length",
        "approval",
    }
)
"""Failure kinds of the agent's own making; every other kind is the infrastructure's (DESIGN §5)."""

FailureKind = Literal[
    "timeout",
    "max_turns",
    "output",
    "guardrail",
    "refusal",
    "truncated",
    "content_filter",
    "tool",
    "context_length",
    "approval",
    "api",
    "quota",
    "network",
    "cancelled",
    "internal",
]


class Record(BaseModel):
    """The base of all records: frozen, and tolerant of fields that a later version added."""

    model_config = ConfigDict(frozen=True, extra="ignore", ser_json_inf_nan="null", allow_inf_nan=False)


def digest(value: Any) -> str:
    """Return the sha256 (hex) of `value` as canonical JSON: sorted keys, no spaces, UTF-8."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


class Failure(Record):
    """Why something did not work out: a kind to count by, the exception's type, its message."""

    kind: FailureKind
    type: str
    message: str
    turn: int | None = None


class Usage(Record):
    """Tokens of one or more model calls; None where the endpoint did not tell."""

    requests: int = 0
    input: int | None = None
    cached: int | None = None
    output: int | None = None
    reasoning: int | None = None

    def __add__(self, other: Self) -> "Usage":
        """Add two usages; what only one side told counts as that side told it."""

        def both(a: int | None, b: int | None) -> int | None:
            return b if a is None else a if b is None else a + b

        return Usage(
            requests=self.requests + other.requests,
            input=both(self.input, other.input),
            cached=both(self.cached, other.cached),
            output=both(self.output, other.output),
            reasoning=both(self.reasoning, other.reasoning),
        )

    @property
    def tokens(self) -> int | None:
        """Input plus output tokens, None if neither was told."""
        return None if self.input is None and self.output is None else (self.input or 0) + (self.output or 0)


class Query(Record):
    """What the agent is asked. `reference` is the expected answer, where the user has one.

    `items` are the SDK's input items (a history, images, files), where the query is more than a text; `text` is then
    what people and judges read of them.
    """

    id: str
    text: str
    items: tuple[Mapping[str, JsonValue], ...] | None = None
    reference: str | None = None
    metadata: Mapping[str, JsonValue] = Field(default_factory=dict)
    redacted: bool = False
    """What was asked is no longer here as it was: something that must not be kept was taken out."""

    def agent_input(self) -> Any:
        """Return what the SDK's runner is given: the text, or a fresh list of the items."""
        return self.text if self.items is None else [json.loads(json.dumps(dict(i))) for i in self.items]


class Step(Record):
    """One step on the way to the answer: a tool call, or reasoning or text that led to none."""

    kind: Literal["reasoning", "tool", "handoff", "message", "guardrail"]
    reasoning: str | None = None
    tool_name: str | None = None
    tool_input: str | None = None
    tool_output: str | None = None
    tool_type: Literal["function", "hosted", "mcp", "agent"] | None = None
    agent: str | None = None
    call_id: str | None = None
    error: str | None = None
    server: str | None = None
    """The MCP server that a tool belongs to."""
    inner: tuple["Step", ...] = ()
    """The steps of an agent that was used as a tool."""
    started_at: datetime | None = None
    duration_s: float | None = None


class Trajectory(Record):
    """What a rollout did: the query, the steps in order, the final output."""

    query: str
    path: tuple[Step, ...] = ()
    answer: str = ""
    answer_type: Literal["text", "json"] = "text"


class Sampling(Record):
    """The settings asked for. The temperature of an imported rollout may not be known."""

    temperature: float | None
    top_p: float | None = None
    seed: int | None = None
    model: str | None = None


class ModelCall(Record):
    """One model call as it was really made: what was sent, what the reply said of itself."""

    model: str | None = None
    replied_model: str | None = None
    temperature: float | None = None
    replied_temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    error: str | None = None
    """What an attempt without a reply ended in; the attempt after it is the retry."""
    raw: int | None = None
    """Which of the rollout's raw calls it is; None for an attempt without a reply, or one that only spans tell of."""
    agent: str | None = None
    """The agent that made it."""


class Effective(Record):
    """The settings that really reached the model calls of a rollout."""

    uniform: bool
    """Every call carried the requested temperature, and no reply contradicted it."""
    temperature: float | None = None
    models: tuple[str, ...] = ()
    exceptions: tuple[str, ...] = ()


class Rollout(Record):
    """One run of the agent. `trajectory` goes as far as the run got, also when it failed."""

    run: str
    query: str
    index: int
    role: Role
    requested: Sampling
    effective: Effective
    calls: tuple[ModelCall, ...] = ()
    raw_calls: str | None = None
    """Blob with every request and reply, from which the SDK's objects can be rebuilt (harness.rollouts.raw)."""
    status: Literal["ok", "failed"]
    failure: Failure | None = None
    clean_up_error: str | None = None
    """What the agent's own clean-up ended in; the rollout's result stands beside it."""
    verified: float | None = None
    """What the agent's own `reward(rollout, query)` gave; None without one, or where it could not tell."""
    verify_error: str | None = None
    """What `reward` raised, or gave that is no number."""
    trajectory: Trajectory
    usage: Usage = Usage()
    price_usd: float | None = None
    fingerprint: str | None = None
    started_at: datetime
    duration_s: float
    retries: int = 0
    """Model calls that were tried again after a failure of the endpoint's."""
    tool_names: tuple[str, ...] = ()
    instructions: str | None = None
    mcp_tools: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    """The tools that each MCP server listed, by the server's name: a replay needs no server then."""
    origin: str | None = None
    """The format that it was imported from; None for a rollout made here."""
    origin_id: str | None = None
    given_reward: float | None = None
    """The reward that came with an imported rollout."""
    metadata: Mapping[str, JsonValue] = Field(default_factory=dict)
    """What else came with an imported rollout."""


FlagKind = Literal[
    "leaked_reasoning",
    "repetition",
    "empty_answer",
    "echoes_query",
    "too_long",
    "addresses_judge",
    "forged_fence",
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
    raw_replies: tuple[str, ...] = ()
    """Blobs: the judge's reply, and before it the one that needed repair."""
    usage: Usage = Usage()
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
VERDICT: TypeAdapter[AnyVerdict] = TypeAdapter(Verdict)


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
    scores: tuple[tuple[float, float], ...] = ()
    """For each of `shown_first`, what that verdict gave the side shown first, and the other."""
    cut: bool = False
    """An answer was cut to fit --judge-budget: the judge did not see the whole of it."""


class Ranked(Record):
    """One rollout's place. `rank` 0 is best; ties share the average; None where it could not be ranked."""

    index: int
    score: float | None = None
    rank: float | None = None
    reward: float | None = None
    advantage: float | None = None
    uncertainty: float | None = None
    """Posterior standard deviation: of `score` where a fit ranks (margins, bt), else of `margin`."""
    margin: float | None = None
    """The `margins` estimate over the same calls: score points above the group's mean."""
    p_best: float | None = None
    """Posterior probability of being the best of those that ended well; None where no two scores differ."""
    p_above_mean: float | None = None
    """Posterior probability of being above their mean."""
    verified: float | None = None
    """The rollout's verifiable reward, if it has one."""
    explanation: str | None = None
    """Why a listwise judge scored it so."""


class Agreement(Record):
    """How far two jurors agree on the same items (matches; with a listwise judge, pairs of rollouts)."""

    jurors: tuple[str, str]
    items: int
    kappa: float | None
    """Cohen's kappa on the winners (first, second, tie); None where neither ever varied."""
    spearman: float | None
    """Rank correlation of the margins; None where one juror's are all equal, or with less than two items."""


class GroupRanking(Record):
    """The ranking of one query's rollouts, one line of a rankings file."""

    query: str
    topology: str
    estimator: str
    status: Literal["complete", "incomplete"]
    signal: Signal
    matches: tuple[Match, ...] = ()
    rollouts: tuple[Ranked, ...] = ()
    failed_verdicts: tuple[str, ...] = ()
    """Keys of verdicts that were asked for and failed: their matches stayed open."""
    judged: int = 0
    """Verdicts bought now."""
    reused: int = 0
    """Distinct verdicts used that were there before."""
    spared: int = 0
    """Planned judge calls that were not made because they could not change who is best."""
    judge_usage: Usage = Usage()
    """What the verdicts bought now took, failed ones and repair turns included."""
    judge_usd: float | None = 0.0
    notes: tuple[str, ...] = ()
    reward_from: Literal["rank", "score"] = "rank"
    first_side: float | None = None
    """What standing first is worth in this group, in score points, by the `margins` fit; with its posterior sd."""
    first_side_sd: float | None = None
    sigma: float | None = None
    """Noise of one call's margin, in score points."""
    reliability: float | None = None
    """1 - mean posterior variance / variance of the margins, not below 0; `signal` is weak where it is low."""
    verdicts: tuple[str, ...] = ()
    """Keys of the listwise verdicts it rests on; a match names its own."""
    absent_verdicts: tuple[str, ...] = ()
    """Keys of jurors' verdicts that failed where the other jurors' stood in."""
    agreement: tuple[Agreement, ...] = ()
    """One for each two jurors."""
    basis: str = ""
    """Which records of the rollouts it rests on (`Group.basis`): with others on disk it is out of date."""


class Group(Record):
    """A query and its rollouts, in index order."""

    query: Query
    rollouts: tuple[Rollout, ...]

    @property
    def basis(self) -> str:
        """Name just these records of the rollouts."""
        return basis_of((r.index, r.status, r.started_at) for r in self.rollouts)


def basis_of(rollouts: Iterable[tuple[int, str, datetime]]) -> str:
    """Return a hash of the index, status and start of rollouts, in index order: another attempt is another start."""
    return digest([[index, status, at.isoformat()] for index, status, at in rollouts])
