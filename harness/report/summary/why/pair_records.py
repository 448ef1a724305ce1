"""Why one of two rollouts is above the other: the records that terminal, page, JSON and Python read."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

from harness.core.rankings import Signal
from harness.core.records import Query, Role
from harness.report.summary.flags import RolloutFlag
from harness.report.summary.why.paths import Parting

SideName = Literal["a", "b"]


@dataclass(frozen=True)
class PairSide:
    """One of the two: where it stands, and what its answer was."""

    index: int
    """The rollout's number, as everywhere from 0."""
    role: Role
    place: str
    """For people: from 1, `=` before a place that several share, a dash for none."""
    rank: float | None
    score: float | None
    uncertainty: float | None
    failure: str | None
    """What kind of failure the rollout ended in; None where it ended well."""
    explanation: str | None
    """Why a listwise judge scored it so."""

    def as_json(self) -> dict[str, Any]:
        """Return it with `place` as a number, None without one, and `shared`: whether others have the same place."""
        number = self.place.removeprefix("=")
        shared = self.place.startswith("=")
        return asdict(self) | {"place": int(number) if number.isdecimal() else None, "shared": shared}


@dataclass(frozen=True)
class Meeting:
    """A match in which the two met. Scores are A's and B's, in this order."""

    number: int
    """From 1, in the order played, as `show --match` takes it."""
    round: int
    shown_first: tuple[int, ...]
    """For each verdict, the rollout that stood first."""
    scores: tuple[tuple[float, float], ...]
    """For each verdict; empty where the archive no longer has one of them."""
    mean: tuple[float, float]
    winner: int | None
    flipped: bool
    inconsistent: bool
    repeated: bool
    """The pair had met before, and its scores were used again."""


@dataclass(frozen=True)
class DimensionLead:
    """A dimension of the rubric: the mean marks of A and B over the verdicts of their matches."""

    name: str
    marks: tuple[float, float]
    decided: bool
    """Whether it is one of the few that the matches were won on."""

    @property
    def difference(self) -> float:
        """A less B."""
        return self.marks[0] - self.marks[1]


@dataclass(frozen=True)
class JudgeSentence:
    """What the judge said of one side, in a sentence, and where."""

    text: str
    match: int
    """The number of the match."""
    shown_first: int
    """The rollout that stood first when the judge said so."""
    opponent: int


@dataclass(frozen=True)
class CommonOpponent:
    """A rollout that both met: by what mean scores each of the two won or lost."""

    index: int
    a: tuple[float, float]
    """Mean scores of A and of the opponent, over their matches."""
    b: tuple[float, float]


@dataclass(frozen=True)
class MeetingOffer:
    """What would make the two meet: the command to type, and how many judge calls it buys."""

    command: str
    calls: int
    portable: str
    """The same command with the run's id alone: no path of this machine."""


@dataclass(frozen=True)
class PairExplanation:
    """Why A stands above B, or B above A, in one ranking of one query."""

    run: str
    ranking: str
    offline: bool
    query: Query
    topology: str
    estimator: str
    score_name: str
    signal: Signal
    listwise: bool
    a: PairSide
    b: PairSide
    difference: float | None
    """A less B: in score points by a fit of all judged calls, `pooled` or `margins`; else of the scores."""
    sd: float | None
    """Posterior standard deviation of the difference."""
    p_above: float | None
    """Posterior probability that A is above B."""
    matches: tuple[Meeting, ...]
    dimensions: tuple[DimensionLead, ...]
    first_parting: Parting | None
    """Where their paths part; None where both take the same tool calls."""
    judge: tuple[JudgeSentence | None, JudgeSentence | None]
    """Of A and of B."""
    flags: tuple[RolloutFlag, ...]
    common: tuple[CommonOpponent, ...]
    """Whom both met; only where the two never did."""
    cycles: tuple[tuple[int, ...], ...] = ()
    """Circles of wins that both are part of."""
    meet: MeetingOffer | None = None
    by_differences: float | None = None
    """A less B as the differences of marks alone have it; None where `pooled` did not make the places."""
    unable: str = ""
    """Why no rescoring makes the two meet, where they never did."""

    @property
    def above(self) -> SideName | None:
        """Which of the two has the better place; None where they share one, or one of them has none."""
        ranks = self.a.rank, self.b.rank
        if ranks[0] is None or ranks[1] is None or ranks[0] == ranks[1]:
            return None
        return "a" if ranks[0] < ranks[1] else "b"

    def as_json(self) -> dict[str, Any]:
        """Return what `harness why --json` prints. Ranks and rollouts count from 0."""
        return {
            "run": self.run,
            "ranking": self.ranking,
            "offline": self.offline,
            "query": self.query.id,
            "topology": self.topology,
            "estimator": self.estimator,
            "score_name": self.score_name,
            "signal": self.signal,
            "a": self.a.as_json(),
            "b": self.b.as_json(),
            "difference": self.difference,
            "sd": self.sd,
            "p_above": self.p_above,
            "by_differences": self.by_differences,
            "matches": [asdict(meeting) for meeting in self.matches],
            "dimensions": {lead.name: lead.difference for lead in self.dimensions},
            "decided_by": [lead.name for lead in self.dimensions if lead.decided],
            "first_parting": self.first_parting and self.first_parting.as_json(),
            "judge": {side: said and asdict(said) for side, said in zip("ab", self.judge, strict=True)},
            "flags": [
                {"rollout": f.rollout, **f.flag.model_dump(mode="json"), "caps": f.caps, "judge_marks": f.judge_marks}
                for f in self.flags
            ],
            "common": [asdict(opponent) for opponent in self.common],
            "cycles": [list(cycle) for cycle in self.cycles],
            "meet": self.meet and {"command": self.meet.command, "calls": self.meet.calls},
            "unable": self.unable or None,
        }
