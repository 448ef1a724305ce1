"""Why one of two rollouts is above the other: the records, and their sentences, of which none ends with a full stop."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from harness.core.branch_point import BranchPoint
from harness.core.errors import counted
from harness.core.rankings import Signal
from harness.core.records import Query, Role, Step
from harness.core.workspace_files import ChangedFile
from harness.report.summary.credit import CreditedRollout
from harness.report.summary.match_verdicts import RolloutFlag
from harness.report.text import beginning, fixed, probability
from harness.rollouts.states import plain_arguments

_MOST_CELLS = 4_000_000
"""Of the table that finds the longest common subsequence: two paths of 2,000 steps. Longer ones stand as they come."""

Key = tuple[str, ...]
StepPair = tuple[int | None, int | None]
"""Where a step stands in A's path and in B's, from 0; None where the other has no such step."""


@dataclass(frozen=True)
class ToolCall:
    """A tool call of a path: the step's number, from 1, the tool, and what it was given."""

    step: int
    tool: str
    input: str | None


@dataclass(frozen=True)
class Parting:
    """The first tool call that differs: what each side did there. None: that side had made its last call."""

    call: int
    """Which of the tool calls, from 1."""
    a: ToolCall | None
    b: ToolCall | None
    before: ToolCall | None
    """A's call before, which B made as well; None where the very first differs."""

    def as_json(self) -> dict[str, Any]:
        """Return what `harness why --json` has as `first_parting`."""
        return {"call": self.call, "a": self.a and asdict(self.a), "b": self.b and asdict(self.b)}


def first_parting(a: Sequence[Step], b: Sequence[Step]) -> Parting | None:
    """Return the first tool call, or handoff, in which two paths differ by name or input; None if they never do."""
    ours, theirs = list(_tool_calls(a)), list(_tool_calls(b))
    same = _same_at_the_start([key for key, _ in ours], [key for key, _ in theirs])
    if same == len(ours) == len(theirs):
        return None
    calls = [calls[same][1] if same < len(calls) else None for calls in (ours, theirs)]
    return Parting(call=same + 1, a=calls[0], b=calls[1], before=ours[same - 1][1] if same else None)


def _tool_calls(path: Sequence[Step]) -> Iterator[tuple[Key, ToolCall]]:
    for number, step in enumerate(path, 1):
        if _is_call(step):
            yield step_key(step), ToolCall(number, step.tool_name or step.kind, step.tool_input)


def _is_call(step: Step) -> bool:
    return step.kind in {"tool", "handoff"}


def step_key(step: Step) -> Key:
    """Return what makes two steps the same: tool name and input; without a tool, the kind."""
    if not _is_call(step):
        return (step.kind,)
    return (step.kind, step.tool_name or "", plain_arguments(step.tool_input or ""))


def aligned_steps(a: Sequence[Step], b: Sequence[Step]) -> list[StepPair]:
    """Return steps in order: those of a longest common subsequence side by side; in it tool calls weigh most."""
    keys = [step_key(step) for step in a], [step_key(step) for step in b]
    start = _same_at_the_start(*keys)
    end = _same_at_the_start(keys[0][start:][::-1], keys[1][start:][::-1])
    common = _common(keys[0][start : len(a) - end], keys[1][start : len(b) - end])
    both = [*((i, i) for i in range(start)), *((i + start, j + start) for i, j in common)]
    both += [(len(a) - end + i, len(b) - end + i) for i in range(end)]
    places: list[StepPair] = []
    i = j = 0
    for k, m in [*both, (len(a), len(b))]:
        places += [*((at, None) for at in range(i, k)), *((None, at) for at in range(j, m)), (k, m)]
        i, j = k + 1, m + 1
    return places[:-1]


def _same_at_the_start(a: Sequence[Key], b: Sequence[Key]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _common(a: Sequence[Key], b: Sequence[Key]) -> list[tuple[int, int]]:
    """Return the places of a longest common subsequence, by weight; nothing for paths too long to compare."""
    if not a or not b or len(a) * len(b) > _MOST_CELLS:
        return []
    call = min(len(a), len(b)) + 1
    weights = [1 if len(key) == 1 else call for key in a]
    best = [[0] * (len(b) + 1)]
    for key, weight in zip(reversed(a), reversed(weights), strict=True):
        below, row = best[-1], [0] * (len(b) + 1)
        for j in range(len(b) - 1, -1, -1):
            row[j] = max(below[j], row[j + 1], below[j + 1] + weight if key == b[j] else 0)
        best.append(row)
    best.reverse()
    pairs: list[tuple[int, int]] = []
    i = j = 0
    while i < len(a) and j < len(b):
        if a[i] == b[j] and best[i][j] == best[i + 1][j + 1] + weights[i]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            i += 1
        else:
            j += 1
    return pairs


_LEVEL = 1e-9
"""Mean scores that differ by less differ by how sums are rounded."""


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
    files: tuple[ChangedFile, ...] = ()
    """What became of the files in its workspace."""
    branch: BranchPoint | None = None
    """Where it was taken up from another rollout; None for a rollout from its beginning."""

    @property
    def name(self) -> str:
        """What a sentence calls the side: `rollout 3`, with words for the anchor and for a branch."""
        words = self.branch.role if self.branch else self.role if self.role == "anchor" else ""
        return f"rollout {self.index}" + (f" ({words})" if words else "")

    def as_json(self) -> dict[str, Any]:
        """Return it with `place` as a number, None without one, and `shared`: whether others have the same place."""
        number = self.place.removeprefix("=")
        place = int(number) if number.isdecimal() else None
        files, branch = [file.model_dump(mode="json") for file in self.files], self.branch
        given = {"files": files, "branch": branch and branch.model_dump(mode="json")}
        shown = {name: value for name, value in (asdict(self) | given).items() if value or name not in given}
        return shown | {"place": place, "shared": self.place.startswith("=")}


@dataclass(frozen=True)
class Meeting:
    """A match in which the two met. Scores are A's and B's, in this order."""

    number: int
    """From 1, in the order played, as `show --match` takes it."""
    round: int
    shown_first: tuple[int, ...]
    """For each verdict, the rollout that stood first."""
    scores: tuple[tuple[float, float], ...]
    """For each verdict."""
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
    credit: tuple[CreditedRollout, CreditedRollout] | None = None
    """What the steps of A and of B were worth; None where that cannot be read."""
    unable: str = ""
    """Why no rescoring makes the two meet, where they never did."""

    @property
    def above(self) -> Literal["a", "b"] | None:
        """Which of the two has the better place; None where they share one, or one of them has none."""
        if self.a.rank is None or self.b.rank is None or self.a.rank == self.b.rank:
            return None
        return "a" if self.a.rank < self.b.rank else "b"

    @property
    def standing_sentence(self) -> str:
        """How the two stand: who is above, by places."""
        a, b = self.a, self.b
        if self.above is None:
            if a.rank is not None and a.rank == b.rank:
                return f"{a.name} and {b.name} share place {a.place.lstrip('=')}"
            without = " and ".join(side.name for side in (a, b) if side.rank is None)
            return f"{a.name} and {b.name}: no place for {without}"
        high, low = (a, b) if self.above == "a" else (b, a)
        return f"#{high.place.lstrip('=')} {high.name} stands above #{low.place.lstrip('=')} {low.name}"

    @property
    def lead_sentence(self) -> str:
        """By how much one side leads and how sure that is; "" where nothing compares them."""
        if self.difference is None:
            return ""
        high, low = (self.a, self.b) if self.difference >= 0 else (self.b, self.a)
        lead = fixed(abs(self.difference))
        if self.sd is None or self.p_above is None:
            return f"{high.name} leads by {lead} ({self.score_name})"
        if abs(self.difference) < _LEVEL:
            return f"level by all judged calls, ± {fixed(self.sd)} score points"
        sure = probability(max(self.p_above, 1 - self.p_above))
        sentence = (
            f"{high.name} leads by {lead} ± {fixed(self.sd)} score points, by all judged calls of the group, and is "
            f"above {low.name} with a probability of {sure}"
        )
        alone = self.by_differences
        if alone is None or alone * self.difference > 0 or abs(alone) < _LEVEL:
            return sentence
        ahead = f"{(self.a if alone > 0 else self.b).name} leads by {fixed(abs(alone))}"
        return f"{sentence}; the level of the marks decides: by their differences alone, {ahead}"

    @property
    def matches_sentence(self) -> str:
        """Whether and how they met: who won, and whether the swap changed the winner."""
        if self.listwise:
            return "one judge scored the group as a list: the two met in no match"
        played = [meeting for meeting in self.matches if not meeting.repeated]
        if not played:
            return "the two never met"
        times = {1: "once", 2: "twice"}.get(len(played), f"{len(played)} times")
        again = " (and once more on the same scores)" if len(played) < len(self.matches) else ""
        lead = sum(meeting.mean[0] - meeting.mean[1] for meeting in played) / len(played)
        level, ahead = abs(lead) < _LEVEL, "a" if lead > 0 else "b"
        won = "a tie" if level else f"{(self.a if lead > 0 else self.b).name} ahead by {fixed(abs(lead))}"
        surprise = "" if level or self.above in (None, ahead) else "; the matches with others turn it round"
        return f"they met {times}{again}: {won}, {_swap(played)}{surprise}"

    @property
    def parting_sentence(self) -> str:
        """Where the two paths part."""
        parting = self.first_parting
        if parting is None:
            return "both paths take the same tool calls"
        if parting.before is None:
            return "the paths part at the first tool call"
        tool = beginning(parting.before.tool, 80)
        return f"the paths part at tool call {parting.call}, after {tool} with the same input"

    @property
    def credit_sentences(self) -> list[str]:
        """Which step decided, of each of the two of which that can be told."""
        return [rollout.sentence for rollout in self.credit or () if rollout.sentence]

    @property
    def meeting_sentence(self) -> str:
        """What makes the two meet; "" where they have met."""
        if self.unable:
            return f"nothing makes them meet: {self.unable}"
        if self.meet is None:
            return ""
        if not self.meet.calls:
            return "the verdicts on them are there, and no judge call makes them meet"
        return f"{counted(self.meet.calls, 'judge call')} make{'s' if self.meet.calls == 1 else ''} them meet"

    def as_json(self) -> dict[str, Any]:
        """Return what `harness why --json` prints. Ranks and rollouts count from 0."""
        return {
            **{name: getattr(self, name) for name in ("run", "ranking", "offline")},
            "query": self.query.id,
            **{name: getattr(self, name) for name in ("topology", "estimator", "score_name", "signal")},
            "a": self.a.as_json(),
            "b": self.b.as_json(),
            **{name: getattr(self, name) for name in ("difference", "sd", "p_above", "by_differences")},
            "matches": [asdict(meeting) for meeting in self.matches],
            "dimensions": {lead.name: lead.difference for lead in self.dimensions},
            "decided_by": [lead.name for lead in self.dimensions if lead.decided],
            "first_parting": self.first_parting and self.first_parting.as_json(),
            "judge": {side: said and asdict(said) for side, said in zip("ab", self.judge, strict=True)},
            "flags": [{"rollout": flag.rollout} | flag.as_json() for flag in self.flags],
            "common": [asdict(opponent) for opponent in self.common],
            "decisive": {
                side: (step := rollout.decisive) and step.as_json()
                for side, rollout in zip("ab", self.credit or (CreditedRollout(-1),) * 2, strict=True)
            },
            "cycles": [list(cycle) for cycle in self.cycles],
            "meet": self.meet and {"command": self.meet.command, "calls": self.meet.calls},
            "unable": self.unable or None,
        }


def _swap(played: list[Meeting]) -> str:
    """Return whether the two orders agree, over all matches: each order may have been a match of its own."""
    if len({first for meeting in played for first in meeting.shown_first}) < 2:
        return "judged in one order only"
    by_first: dict[int, float] = {}
    for meeting in played:
        for first, (a, b) in zip(meeting.shown_first, meeting.scores, strict=True):
            by_first[first] = by_first.get(first, 0.0) + a - b
    leads = {(lead > _LEVEL) - (lead < -_LEVEL) for lead in by_first.values()}
    if any(meeting.flipped for meeting in played) or {1, -1} <= leads:
        return "the swap changed the winner"
    if leads == {0}:
        return "both orders call it a tie"
    if any(meeting.inconsistent for meeting in played) or 0 in leads:
        return "one order calls it a tie"
    return "the swap did not change the winner"


def call_words(call: ToolCall | None) -> str:
    """Return what a side did where the paths part."""
    return "no further tool call" if call is None else f"step {call.step}, {call.tool}: {call.input or 'no input'}"
