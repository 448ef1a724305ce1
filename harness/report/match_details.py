"""Matches with all that is known of them: both transcripts, every mark, what the judge said; and those that failed."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.archive import RunReader
from harness.core.rankings import GroupRanking, Match
from harness.core.records import Group, Rollout
from harness.core.verdicts import Judged, SideScores, Unjudged, Unscored
from harness.report.bracket import Bracket, flags_of, score_of
from harness.report.excerpts import Shown, excerpt
from harness.report.flagged import cap_words, flag_words
from harness.report.summary import Verdicts
from harness.report.text import words
from harness.transcripts import TokenBudget, transcribe


@dataclass(frozen=True)
class Side:
    """One rollout of a match."""

    rollout: Rollout
    score: float
    won: bool
    shown: Shown


@dataclass(frozen=True)
class Marks:
    """A line of the score table: one pair an order, in the order of the match's sides, and the mean."""

    label: str
    pairs: tuple[tuple[float | None, float | None], ...]
    mean: tuple[float, float] | None
    overall: bool = False


@dataclass(frozen=True)
class Order:
    """One order of a match and what the judge said in it."""

    first: int
    second: int
    verdict: Judged | None
    remarks: tuple[tuple[str, tuple[str, str]], ...]
    """Title, and the remark on each side of the match."""
    other: tuple[tuple[str, str], ...]
    """Remarks under names that no prompt of ours asks for."""
    flags: tuple[tuple[int, str, str], ...] = ()
    """Rollout, what the harness found in what was shown of it, and the marks that this lowered."""

    @property
    def winner(self) -> int | None:
        """The rollout that this order names; None for a tie, or without a verdict."""
        return {"A": self.first, "B": self.second}.get(self.verdict.winner) if self.verdict else None


@dataclass(frozen=True)
class Meeting:
    """A match with all that is known of it."""

    number: int
    title: str
    match: Match
    flags: tuple[str, ...]
    sides: tuple[Side, Side]
    marks: tuple[Marks, ...]
    orders: tuple[Order, ...]
    identical: bool


@dataclass(frozen=True)
class Missing:
    """A verdict that failed, the rollouts that it was to compare, and why."""

    key: str
    what: str
    verdict: Unjudged | Unscored | None


def meetings(
    group: Group, ranked: GroupRanking, bracket: Bracket | None, verdicts: Verdicts, room: int
) -> Iterator[Meeting]:
    """Yield a group's matches in the order played, each path cut to `room` characters."""
    rollouts = {r.index: r for r in group.rollouts}
    shown = {r.index: excerpt(r.trajectory, room) for r in group.rollouts}
    titles = {0: "Seeding"} | {r.number: r.title.removesuffix("s") for r in (bracket.rounds if bracket else ())}
    for number, match in enumerate(ranked.matches, 1):
        a, b = (Side(rollouts[e], score_of(match, e), match.winner == e, shown[e]) for e in (match.a, match.b))
        judged = [(first, verdicts(key)) for key, first in zip(match.verdicts, match.shown_first, strict=True)]
        yield Meeting(
            number=number,
            title=titles[match.round],
            match=match,
            flags=flags_of(match),
            sides=(a, b),
            marks=tuple(_marks(match, judged)),
            orders=tuple(_order(match, first, verdict) for first, verdict in judged),
            identical=any(v is not None and v.first == v.second for _, v in judged),
        )


def _marks(match: Match, judged: Iterable[tuple[int, Judged | None]]) -> Iterator[Marks]:
    """Yield a line a dimension, then the overalls, with the match's `a` always on the left."""
    sides = [(v.a, v.b) if first == match.a else (v.b, v.a) for first, v in judged if v]
    for name in dict.fromkeys(name for pair in sides for side in pair for name in side.dimensions):
        pairs = tuple((a.dimensions.get(name), b.dimensions.get(name)) for a, b in sides)
        yield Marks(words(name), pairs, _mean(pairs))
    overalls: tuple[tuple[str, Callable[[SideScores], float | None]], ...] = (
        ("path", lambda s: s.path),
        ("answer", lambda s: s.answer),
        ("combined", lambda s: s.combined),
    )
    for label, of in overalls:
        pairs = tuple((of(a), of(b)) for a, b in sides)
        if any(mark is not None for pair in pairs for mark in pair):
            yield Marks(label, pairs, _mean(pairs), overall=True)


def _mean(pairs: Sequence[tuple[float | None, float | None]]) -> tuple[float, float] | None:
    whole = [(a, b) for a, b in pairs if a is not None and b is not None]
    if len(pairs) < 2 or len(whole) < len(pairs):
        return None
    return sum(a for a, _ in whole) / len(whole), sum(b for _, b in whole) / len(whole)


def _order(match: Match, first: int, verdict: Judged | None) -> Order:
    second = match.b if first == match.a else match.a
    left, right = ("A", "B") if first == match.a else ("B", "A")
    said = dict(verdict.analysis) if verdict else {}
    remarks: list[tuple[str, tuple[str, str]]] = []
    for title in ("path", "answer"):
        pair = (said.pop(f"{title}_{left}", ""), said.pop(f"{title}_{right}", ""))
        if any(pair):
            remarks.append((title, pair))
    return Order(first, second, verdict, tuple(remarks), tuple(said.items()), tuple(_flags(first, second, verdict)))


def _flags(first: int, second: int, verdict: Judged | None) -> Iterator[tuple[int, str, str]]:
    sides = [(first, verdict.a), (second, verdict.b)] if verdict else []
    for rollout, scores in sides:
        for flag in scores.flags:
            yield rollout, flag_words(flag), cap_words(c for c in scores.caps if c.flag == flag.kind)


def failures(reader: RunReader, rankings: Iterable[GroupRanking]) -> dict[str, Unjudged | Unscored]:
    """Return the newest failure of each verdict that a group had to do without, by its key."""
    wanted = {key for ranked in rankings for key in ranked.failed_verdicts}
    if not wanted:
        return {}
    return {v.key: v for v in reader.verdicts() if isinstance(v, Unjudged | Unscored) and v.key in wanted}


def missing_verdicts(
    group: Group, ranked: GroupRanking, failed: Mapping[str, Unjudged | Unscored], budget: TokenBudget | None
) -> list[Missing]:
    """Return the verdicts that a group had to do without; `failed` finds why, `budget` is what transcripts had."""
    if not ranked.failed_verdicts:
        return []
    named: dict[str, list[str]] = {}
    for rollout in group.rollouts:
        whole = transcribe(rollout.trajectory, budget)
        parts = (whole, replace(whole, path=""), replace(whole, answer=""))  # a rubric may mark one block only
        for shown in {part.hash for part in parts}:
            named.setdefault(shown, []).append(str(rollout.index))

    def who(transcript: str) -> str:
        return f"rollout {' or '.join(named[transcript])}" if transcript in named else "a transcript no longer here"

    def what(verdict: Unjudged | Unscored | None) -> str:
        if isinstance(verdict, Unjudged):
            return f"{who(verdict.first)} against {who(verdict.second)}"
        return f"a list of {len(verdict.transcripts)}" if verdict else "a verdict no longer here"

    found = [(key, failed.get(key)) for key in ranked.failed_verdicts]
    return [Missing(key, what(v), v) for key, v in found]
