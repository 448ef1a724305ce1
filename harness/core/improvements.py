"""The records of an improvement: lessons, candidates, what a round proposed, and what came of it all.

A candidate is a set of texts, its parts: the starting agent's instructions, and whatever else `--parts` names.
TextCandidate 0 is the agent as it was. All win rates speak of a candidate against candidate 0.
"""

from collections.abc import Mapping
from datetime import datetime
from math import comb
from typing import Literal, Self

from pydantic import Field, JsonValue

from harness.core.comparisons import Interval
from harness.core.cost import Cost, cost
from harness.core.errors import counted
from harness.core.gates import LengthLead
from harness.core.records import Query, Record, Usage, is_none, whole_percent

INSTRUCTIONS = "instructions"
"""The part that is the starting agent's instructions."""


class PairLesson(Record):
    """What a pair of rollouts teaches: which one was better on a query, by how much, and why."""

    query: str
    """What was asked."""
    better: int
    """The candidate of the better rollout; of a tie, of either one."""
    worse: int
    lead: float
    """Score points."""
    decided_by: tuple[str, ...] = ()
    """The dimensions that decided."""
    marks: Mapping[str, float] = Field(default_factory=dict)
    """The worse one's mean mark in each dimension, 0 to 10."""
    better_did: str | None = None
    """Its first tool call that the other did not make; None where the paths do not part."""
    worse_did: str | None = None
    said_of_better: str | None = None
    """A sentence of the judge."""
    said_of_worse: str | None = None
    verdicts: tuple[str, ...] = ()
    """The keys of the verdicts that this rests on."""

    @property
    def text(self) -> str:
        """What whoever writes instructions reads of it."""
        lines = [f"Asked: {self.query}"]
        of = f", in {' and '.join(self.decided_by)}" if self.decided_by else ""
        lines.append(f"One answer was better by {self.lead:.1f} points{of}." if self.lead else "Both were as good.")
        lines += [f"The better one then did: {self.better_did}. The other: {self.worse_did}."] * bool(self.better_did)
        lines += [f"Said of the better one: {self.said_of_better}"] * bool(self.said_of_better)
        lines += [f"Said of the other: {self.said_of_worse}"] * bool(self.said_of_worse)
        lines.append(
            "Marks of the other, of 10: " + ", ".join(f"{name} {mark:.1f}" for name, mark in self.marks.items())
        )
        return "\n".join(lines)


class TextCandidate(Record):
    """Texts that stand in place of the agent's own."""

    number: int
    round: int
    """In which it was written; 0 for the agent as it was."""
    parents: tuple[int, ...] = ()
    """Two, where it merges two candidates."""
    parts: Mapping[str, str]


class Proposal(Record):
    """What a round wrote: kept as soon as it is paid for, so that no reply is bought twice."""

    round: int
    parent: int
    lessons: tuple[PairLesson, ...] = ()
    children: tuple[TextCandidate, ...] = ()
    refused: tuple[str, ...] = ()
    """Why a text that was proposed became no candidate: one reason each."""
    usage: Usage = Usage.model_construct()
    price_usd: float | None = 0.0
    price_usd_at_least: float | None = Field(default=None, exclude_if=is_none)

    @property
    def cost(self) -> Cost:
        """What the proposer's calls cost, as far as that is known."""
        return cost(self.price_usd, self.price_usd_at_least)


class ImproveRules(Record):
    """How candidates are sought."""

    rounds: int = Field(default=6, ge=1, le=100)
    children: int = Field(default=3, ge=1, le=20)
    """So many candidates a round writes from its parent; one more merges two."""
    batch: int = Field(default=8, ge=1, le=1000)
    """Queries that a round adds."""
    parts: tuple[str, ...] = (INSTRUCTIONS,)
    looks: int = Field(default=1, ge=1, le=8)
    """Of the gate."""
    proposer_model: str | None = None
    gate_judge_model: str | None = None

    @property
    def matches(self) -> int:
        """How many cross matches, each on one query, a round plays at most."""
        return self.batch * (self.children + 1)

    @property
    def least(self) -> Self:
        """The same rules where the search ends as soon as it may, and a round writes one candidate."""
        return self.model_copy(update={"rounds": min(self.rounds, 2), "children": 0})

    def takes(self, train: int, n: int) -> tuple[int, int]:
        """Return how many rollouts, `n` a query, and pairs of rollouts all rounds take on so many queries, at most."""
        batch = min(self.batch, train)
        return self.rounds * n * batch * (self.children + 2), self.rounds * (n * self.matches + batch * comb(n, 2))


class ImproveQuote(Record):
    """What an improvement takes, counts at most, and what its gate can see."""

    train: int
    held_out: int
    agent_runs: int
    judge_calls: int
    proposals: int
    cost_usd: tuple[float, float] | None
    """At least and at most, without the proposer; None where a price is unknown."""
    gate_usd: float | None
    """What the gate takes of it at least."""
    seen_gain: float
    """The win rate that the gate shows half of the time."""
    judge: str
    agent_at: str
    offline: bool


class ImproveInfo(Record):
    """`improve.json`: written once, when the improvement begins."""

    schema_version: int = 1
    id: str
    created_at: datetime
    agent: str
    agent_word: str | None = None
    """What named the agent, so that `resume` finds it again; None for one given from Python."""
    key: str
    """Names texts, queries, rules and judge: the same call goes on with the improvement."""
    rules: ImproveRules
    root: Mapping[str, str]
    """The parts of the agent as it was."""
    train: tuple[Query, ...]
    held_out: tuple[Query, ...]
    """The gate's queries, which no candidate meets before."""
    split: bool
    """Whether they were split off the training queries, by a hash of what they ask."""
    judge: str
    rubric: str
    offline: bool
    max_cost: float | None = None
    versions: Mapping[str, JsonValue] = Field(default_factory=dict)


class CandidateStanding(TextCandidate):
    """A candidate, and what the training matches say of it."""

    p_best: float
    worth: Interval
    """Its win rate against candidate 0 on a query like these."""
    front: bool = False
    """Whether it is the best on some of the queries."""
    dropped: bool = False


class RoundResult(Record):
    """Where a round left the search."""

    round: int
    parent: int
    children: tuple[int, ...] = ()
    best: int
    worth: Interval
    """Of the best."""
    matches: int
    refused: tuple[str, ...] = ()
    lessons: tuple[PairLesson, ...] = ()
    spent: float

    @property
    def words(self) -> str:
        """What a user reads of it as it ends."""
        refused = f", {len(self.refused)} refused" if self.refused else ""
        value, low, high = map(whole_percent, (self.worth.value, self.worth.low, self.worth.high))
        won = f"candidate {self.best} wins {value} % [{low}, {high}] against the original"
        written = counted(len(self.children), "candidate")
        return (
            f"round {self.round}: {written} written{refused}; {won if self.best else 'the original is the best so far'}"
        )


class SecondJudge(Record):
    """What the gate's second judge says."""

    judge: str
    win_rate: float
    interval: tuple[float, float]
    better: bool


ImproveOutcome = (
    LengthLead | Literal["better", "not better", "refused by the second judge", "no candidate", "undecided"]
)


class Improvement(Record):
    """What an improvement came to: what `harness improve --json` prints and `harness.improve` returns."""

    improvement: str
    path: str
    offline: bool
    outcome: ImproveOutcome
    accepted: bool
    sentence: str
    best: int
    standings: tuple[CandidateStanding, ...]
    rounds: tuple[RoundResult, ...]
    stopped: str
    """Why no further round was played."""
    gate_queries: int
    win_rate: Interval | None = None
    """Of the best candidate on the held-out queries; None where it did not come to the gate."""
    at_equal_length: Interval | None = None
    second: SecondJudge | None = None
    losses: tuple[str, ...] = ()
    """Held-out queries that the candidate lost, the worst first, ten at most."""
    comparison: str | None = None
    """The folder of the gate's comparison."""
    spent: float
    """USD in all, as far as prices are known."""
    exact: bool = True
    rollouts: int
    verdicts: int
    proposals: int
    diff: str = ""
    """Unified, from the agent's own texts to the candidate's."""
    instructions: str = ""
    """What `--instructions` reads: the best candidate's parts."""
