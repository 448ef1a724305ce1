"""The records of comparing: sides, cross matches, what came of each query and of each two sides.

A comparison has two sides or more, in the order in which the user named them: A, B, C. All figures of two sides speak
of the second one: a win rate of 0.62 says that B is preferred to A in 62 % of the pairs.
"""

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from harness.core.cost import Cost, cost
from harness.core.records import FailureKind, Record, Role, is_none

ForfeitedBy = Literal["first", "second", "both"]
CrossWinner = Literal["first", "second", "tie"]
WINNERS: Mapping[ForfeitedBy, CrossWinner] = {"first": "second", "second": "first", "both": "tie"}
"""By who forfeited."""
FEWEST_SHOWING = 6
"""Clusters below which nothing is shown: with five no flip of signs is rarer than 1 in 16."""
ALPHA = 0.05
_HALF = 1e-9
"""How far from one half a share counts as one half."""
_MOST_EQUAL = 0.05
"""The largest difference from one half at which two sides are called equal."""
_Z95, _Z90, _Z_EQUAL = 1.960, 1.645, 2.927
"""Standard errors of the 95 % and the 90 % interval, and what two one-sided tests at 5 % take for power 0.8."""


class ComparedRollout(Record):
    """What a comparison keeps of a rollout: enough for its figures and its page without the run that it came from."""

    index: int
    role: Role
    status: Literal["ok", "failed"]
    failure: FailureKind | None = None
    usd: float | None = None
    """What its model calls cost; None if a price is unknown."""
    usd_at_least: float | None = Field(default=None, exclude_if=is_none)
    """The part of an unknown price that is known."""
    tokens: int | None = None
    """Input and output tokens of its model calls; None if a server did not tell."""
    started_at: datetime | None = Field(default=None, exclude_if=is_none)
    """None in a comparison that an earlier version wrote."""
    duration_s: float | None = None
    steps: int = 0
    tools: tuple[str, ...] = ()
    """The names of the tools that it called, in order, each call once."""
    recipe: str | None = Field(default=None, exclude_if=is_none)
    """How `--vary` varied it, as people read it."""
    verified: float | None = None
    """Its verifiable reward: what `reward()` of the agent's file gave."""
    answer_length: int | None = None
    """Characters of its answer; None if it has none."""
    transcript: str | None = None
    """Hash of what the judge read of it."""
    path_blob: str | None = None
    """The blob with the path's text."""
    answer_blob: str | None = None
    """The blob with the answer's text."""

    @property
    def cost(self) -> Cost:
        """What its model calls cost, as far as that is known."""
        return cost(self.usd, self.usd_at_least)


class CrossMatch(Record):
    """A rollout of one side against a rollout of another side, on one query."""

    sides: tuple[int, int]
    """Slots of the two sides in the comparison, the smaller first."""
    role: Role
    """What both rollouts are: the anchors' pair has a line of its own, and is not in the win rate."""
    first: int
    """Index of the rollout of `sides[0]`."""
    second: int
    """Index of the rollout of `sides[1]`."""
    verdicts: tuple[str, ...] = ()
    """Keys of the verdicts used: one an order, repeat and juror."""
    shown_first: tuple[Literal["first", "second"], ...] = ()
    """For each of `verdicts`, whose transcript stood first."""
    scores: tuple[tuple[float, float], ...] = ()
    """For each of `verdicts`, the score of `first` and that of `second`."""
    score_first: float | None = None
    """Mean score; None while the match is open, and for a forfeit."""
    score_second: float | None = None
    winner: CrossWinner | None = None
    """None while the match is open: a verdict is missing."""
    flipped: bool = False
    """The two orders name opposite winners."""
    inconsistent: bool = False
    """One order names a winner, the other one a tie."""
    forfeit: ForfeitedBy | None = None
    """Who failed by the agent's own making, and so lost without being judged; both: a tie."""

    @property
    def outcome(self) -> float | None:
        """What the second one gets: 1 for a win, one half for a tie, 0 for a loss; None while the match is open."""
        if self.forfeit:
            return {"first": 1.0, "second": 0.0, "both": 0.5}[self.forfeit]
        return {"second": 1.0, "first": 0.0, "tie": 0.5}[self.winner] if self.winner else None


class ComparedQuery(Record):
    """One query on which the sides met: one line of a comparison's file."""

    query: str
    """The content hash by which the sides' queries are matched."""
    ids: tuple[str, ...]
    """The query's id on each side."""
    text: str
    metadata: Mapping[str, JsonValue] = Field(default_factory=dict)
    rollouts: tuple[tuple[ComparedRollout, ...], ...]
    """For each side its rollouts."""
    matches: tuple[CrossMatch, ...] = ()
    left_out: tuple[int, ...] = ()
    """For each side, how many of its rollouts failed by the infrastructure's fault, and took no part."""
    failed_verdicts: tuple[str, ...] = ()
    """Keys of verdicts that were asked for and failed."""
    task_differs: bool = False
    """The sides' instructions or tools differ, so that the judge was shown neither."""

    def pairs(self, sides: tuple[int, int], role: Role = "sample") -> list[CrossMatch]:
        """Return the matches of two sides, the smaller place first: those in the win rate, or the anchors'."""
        return [match for match in self.matches if match.sides == sides and match.role == role]

    def outcome(self, sides: tuple[int, int]) -> float | None:
        """Return the mean outcome of the pairs that count, for the second side; None where no pair counts."""
        outcomes = [match.outcome for match in self.pairs(sides)]
        counted = [outcome for outcome in outcomes if outcome is not None]
        return sum(counted) / len(counted) if counted else None


class ComparedSide(Record):
    """One side of a comparison: a run."""

    label: Annotated[str, Field(pattern="^[A-Z]$")]
    """A, B, C: as the user named them."""
    run: str
    """The run's id."""
    sha256: str
    """Of the run's run.json."""
    basis: str
    """Which records of the rollouts the comparison rests on; a run that has grown since has another one."""
    agent: str
    models: tuple[str, ...] = ()
    instructions: str | None = None
    """Their text, as far as the run holds it."""
    instructions_file: str | None = None
    """The file that the run's --instructions named."""
    offline: bool = False
    only_here: int = 0
    """How many of its queries not every other side has: they are left out."""
    to_run: bool = False
    """Its rollouts were still to be run when the comparison began: resuming the comparison runs those missing."""


class Interval(Record):
    """A figure with its 95 % interval."""

    value: float
    low: float
    high: float


class SideFigures(Record):
    """What a side took and did, over the queries that the sides share. None where nothing is known."""

    label: str
    rollouts: int
    failed: Interval | None = None
    """Share of rollouts that failed by the agent's own making."""
    left_out: int = 0
    """Rollouts that failed by the infrastructure's fault."""
    usd: Interval | None = None
    """A rollout, as are the next five; `duration_p50` and `duration_p95`: what half or 95 % of them take at most."""
    usd_at_least: Interval | None = Field(default=None, exclude_if=is_none)
    """In place of `usd`, where a price is unknown: of what is known."""
    tokens: Interval | None = None
    duration_s: Interval | None = None
    duration_p50: Interval | None = Field(default=None, exclude_if=is_none)
    duration_p95: Interval | None = Field(default=None, exclude_if=is_none)
    steps: Interval | None = None
    passed: Interval | None = None
    """Mean of `reward()`."""


class Slice(Record):
    """The queries of a comparison that share a property, and the second side's win rate there."""

    key: str
    """A key of the metadata, or `uses tools`, `answer length`."""
    value: str
    queries: int
    win_rate: Interval | None = None
    """None where too few queries are in it."""
    p: float | None = None
    """By sign flips, corrected by Holm over all slices."""


class PeoplesRate(Record):
    """What people would say of two sides, by their labels and the judge's verdicts. It speaks of the second side."""

    labels: int
    """Labelled pairs."""
    clusters: int
    """Clusters with a label."""
    rate: Interval | None = None
    """The win rate as people would have it; None, as is all that follows, below six labelled clusters."""
    p: float | None = None
    """That a difference as great comes by chance: how wide an interval just holds one half."""
    trust: float | None = None
    """Lambda of PPI++: from 0, labels alone, to 1, the judge's word and what it is wrong by."""
    effective_labels: float | None = None
    """How many labels alone would give as narrow an interval."""
    more_labels: int | None = None
    """About how many more labels narrow the interval to 5 points on either side; None where all pairs would not do."""
    agreement: Interval | None = None
    """The share of pairs on which the judge says what people say; a tie of one of them counts one half."""


class JudgeCalibration(Record):
    """What a comparison's labels were held against. The labels are people's, and hold for any judge; this does not."""

    judge: str
    rubric: str
    rendering: int
    """The way in which the transcripts were written for the judge."""
    labels: int
    """Labels about two answers that are compared, of all that there are."""
    of: int


class SideResult(Record):
    """What one side's matches against another say. Every figure speaks of the second side of `sides`."""

    sides: tuple[str, str]
    queries: int
    """Queries with at least one pair that counts."""
    clusters: int
    """Of queries, which are what is drawn again and counted: without --cluster as many as queries."""
    pairs: int
    """Pairs of samples that count: judged, or lost by a failure."""
    better: int
    """Queries on which the mean of the pairs' outcomes is above one half."""
    worse: int
    tied: int
    win_rate: float
    """Mean over queries of the share of pairs that the second side won; a tie counts one half."""
    interval: tuple[float, float]
    """Of 95 %, for `win_rate`."""
    method: Literal["bootstrap", "t"]
    """How the intervals were made: a percentile bootstrap over clusters, below 30 clusters a t interval by cluster."""
    p: float
    """That a difference as great comes by chance: signs of the clusters flipped."""
    margin: Interval | None = None
    """Mean difference of the scores, in score points; None without scores."""
    flips: int = 0
    """Judged pairs of which the two orders name opposite winners."""
    both_orders: int = 0
    """Judged pairs that were judged in both orders."""
    length_controlled: Interval | None = None
    """The win rate at equal length of the answers; None where it cannot be fitted."""
    forfeits: tuple[int, int] = (0, 0)
    """Pairs that a side lost by its own failure: the first, the second one."""
    without_forfeits: Interval | None = None
    """The win rate without them; None where there are none, or nothing is left."""
    unjudged: int = 0
    """Pairs that stayed open."""
    bounds: tuple[float, float] = (0.0, 0.0)
    """The win rate with all open pairs lost, and with all of them won."""
    anchors: Interval | None = None
    """The win rate of the anchors' pairs; None without any."""
    detectable: float | None = None
    """The smallest difference from one half that so many clusters show with power 0.8; None where none is so great."""
    enough_queries: int | None = None
    """About how many queries would show a difference of this size with power 0.8; None where it is shown, or is 0."""
    floor: float | None = None
    """Standard deviation of a query's win rate between equal agents: from the first side against itself."""
    floor_from: Literal["runs", "default"] = "default"
    """Where the floor comes from: pairs of the first side judged in its own run, or the default."""
    p_holm: float | None = None
    """With more than two sides: `p` corrected by Holm, of people's rate where there is one."""
    run_together: bool | None = Field(default=None, exclude_if=is_none)
    """Whether the sides were run at the same time: else their times cannot be compared. None: not known."""
    slower_p50: Interval | None = Field(default=None, exclude_if=is_none)
    """Seconds by which `duration_p50` of the second side lies above that of the first, of sides that ran together."""
    slower_p95: Interval | None = Field(default=None, exclude_if=is_none)
    """The same of `duration_p95`."""
    people: PeoplesRate | None = Field(default=None, exclude_if=is_none)
    """What people would say; None without a label. Where it has a rate, the conclusion goes by that."""

    @property
    def deciding(self) -> Interval:
        """The win rate that the conclusion goes by: people's, else the judge's."""
        low, high = self.interval
        return (self.people and self.people.rate) or Interval(value=self.win_rate, low=low, high=high)

    @property
    def deciding_p(self) -> float:
        """The p of that rate."""
        by_people = self.people and self.people.p
        return self.p if by_people is None else by_people

    @property
    def open_pairs_decide(self) -> bool:
        """Whether one half lies between the win rate with all open pairs lost and that with all of them won."""
        return bool(self.unjudged) and _holds_half(self.bounds)

    @property
    def shown(self) -> Literal["better", "worse"] | None:
        """What is shown of the second side.

        The interval leaves out one half, the open pairs cannot turn that round, and among more than two sides `p_holm`
        is at most 0.05.
        """
        by_chance = self.p_holm is not None and self.p_holm > ALPHA
        rate = self.deciding
        if by_chance or self.open_pairs_decide or not leaves_out_half(self.clusters, (rate.low, rate.high)):
            return None
        return "better" if rate.value > 0.5 else "worse"

    @property
    def equal_within(self) -> int | None:
        """In how few whole percentage points of one half the 90 % interval lies (TOST); None beyond five points.

        Open pairs count as all lost and as all won. The 95 % interval is scaled as a normal one: rather too wide.
        """
        if self.clusters < FEWEST_SHOWING:
            return None
        rate = self.deciding
        shifts = [bound - self.win_rate if self.unjudged else 0.0 for bound in self.bounds]
        ends = zip((rate.low, rate.high), shifts, strict=True)
        reach = max(abs(rate.value + shift - 0.5 + _Z90 / _Z95 * (end - rate.value)) for end, shift in ends)
        return max(1, math.ceil(100 * reach - _HALF)) if reach <= _MOST_EQUAL else None

    @property
    def deciding_queries(self) -> int | None:
        """About how many queries would show this difference, or that none is above 5 points (power 0.8); else None."""
        if self.shown or self.equal_within or (self.people and self.people.rate):
            return None
        low, high = self.interval
        numbers = [] if self.enough_queries is None else [self.enough_queries]
        if (room := _MOST_EQUAL - abs(self.win_rate - 0.5)) > _HALF:
            numbers.append(math.ceil(self.queries * ((high - low) / 2 / _Z95 * _Z_EQUAL / room) ** 2))
        if not numbers or (self.unjudged and min(numbers) <= self.queries):  # the open pairs would decide
            return None
        return max(self.queries + 1, min(numbers))


def leaves_out_half(clusters: int, interval: tuple[float, float]) -> bool:
    """Tell whether the interval of a share over six clusters or more lies wholly above one half, or wholly below."""
    return clusters >= FEWEST_SHOWING and not _holds_half(interval)


def _holds_half(ends: tuple[float, float]) -> bool:
    low, high = ends
    return low - _HALF <= 0.5 <= high + _HALF


class Strength(Record):
    """A side's strength among more than two, by Bradley and Terry: log odds of a win, their mean 0."""

    label: str
    strength: Interval
    beaten_by: tuple[str, ...] = ()
    """Sides shown to win against it that cost no more a rollout and are no slower (p95), as far as that can be told."""


class Comparison(Record):
    """What `harness compare --json` prints and `harness.compare` returns: for the same comparison the same bytes."""

    comparison: str
    """The comparison's id."""
    path: str
    offline: bool
    sides: tuple[ComparedSide, ...]
    judge: str
    rubric: str
    status: Literal["complete", "incomplete"]
    sentence: str
    """For two sides: what a person should take home."""
    results: tuple[SideResult, ...]
    """One for each two sides; for two sides one."""
    strengths: tuple[Strength, ...] = ()
    figures: tuple[SideFigures, ...] = ()
    slices: tuple[Slice, ...] = ()
    calibration: JudgeCalibration | None = Field(default=None, exclude_if=is_none)
    """Of `people` in the results; None without labels."""
    notes: tuple[str, ...] = ()
    """What a reader must know: a family shared with the judge, failures left out, another rubric in the runs."""
