"""The matches of one group with every mark, and what the judge said in each order."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from harness.core.rankings import GroupRanking, Match
from harness.core.records import Group, Rollout
from harness.core.verdicts import Judged, SideScores
from harness.report.summary.bracket import BracketDrawing
from harness.report.summary.flags import cap_words, flag_words
from harness.report.summary.match_verdicts import (
    VerdictLookup,
    judged_orders,
    marks_of_sides,
    match_flags,
    opponent_of,
    score_of,
)
from harness.report.text import readable_name

Marks = tuple[float | None, float | None]
"""The marks of both sides of a match, in the order of its sides."""

Remarks = tuple[tuple[str, tuple[str, str]], ...]
"""Title, and the remark on each side of the match."""
OtherRemarks = tuple[tuple[str, str], ...]
"""Remarks under names that no prompt of ours asks for."""


@dataclass(frozen=True)
class MatchSide:
    """One rollout of a match."""

    rollout: Rollout
    score: float
    won: bool


@dataclass(frozen=True)
class MarkRow:
    """A line of the score table: the marks of both sides in each order, and their mean."""

    label: str
    pairs: tuple[Marks, ...]
    mean: tuple[float, float] | None
    overall: bool = False


@dataclass(frozen=True)
class ShownFlag:
    """What the harness found in what a judge was shown of a rollout, and the marks that this lowered, in words."""

    rollout: int
    words: str
    lowered: str


@dataclass(frozen=True)
class JudgedOrder:
    """One order of a match and what the judge said in this order."""

    first: int
    second: int
    verdict: Judged | None
    remarks: Remarks
    other_remarks: OtherRemarks
    flags: tuple[ShownFlag, ...] = ()

    @property
    def winner(self) -> int | None:
        """The rollout that this order names; None for a tie, or without a verdict."""
        return {"A": self.first, "B": self.second}.get(self.verdict.winner) if self.verdict else None


@dataclass(frozen=True)
class MatchDetails:
    """A match with its sides, marks and verdicts."""

    number: int
    """From 1, in the order played."""
    title: str
    match: Match
    flags: tuple[str, ...]
    sides: tuple[MatchSide, MatchSide]
    marks: tuple[MarkRow, ...]
    orders: tuple[JudgedOrder, ...]
    identical: bool
    """Whether both sides are the same text, so that one verdict stands for both orders."""

    @property
    def margin(self) -> float:
        """By how many score points the winner is ahead; 0 for a tie."""
        return abs(self.match.score_a - self.match.score_b)


def detail_matches(
    group: Group, ranking: GroupRanking, bracket: BracketDrawing | None, verdicts: VerdictLookup
) -> Iterator[MatchDetails]:
    """Yield a group's matches in the order played."""
    rollouts = {r.index: r for r in group.rollouts}
    titles = {0: "Seeding"} | {r.number: r.title.removesuffix("s") for r in (bracket.rounds if bracket else ())}
    for number, match in enumerate(ranking.matches, 1):
        orders = tuple(_judged_order(match, first, verdict) for first, verdict in judged_orders(match, verdicts))
        yield MatchDetails(
            number=number,
            title=titles[match.round],
            match=match,
            flags=match_flags(match),
            sides=(_side(match, rollouts[match.a]), _side(match, rollouts[match.b])),
            marks=tuple(mark_rows(list(marks_of_sides(match, verdicts)))),
            orders=orders,
            identical=any(o.verdict is not None and o.verdict.first == o.verdict.second for o in orders),
        )


def _side(match: Match, rollout: Rollout) -> MatchSide:
    return MatchSide(rollout=rollout, score=score_of(match, rollout.index), won=match.winner == rollout.index)


def mark_rows(sides: Sequence[tuple[SideScores, SideScores]]) -> Iterator[MarkRow]:
    """Yield a line a dimension, then the overalls; `sides` holds the scores of both sides for each verdict."""
    for dimension in dict.fromkeys(name for pair in sides for scores in pair for name in scores.dimensions):
        pairs = tuple((a.dimensions.get(dimension), b.dimensions.get(dimension)) for a, b in sides)
        yield MarkRow(readable_name(dimension), pairs, _mean(pairs))
    overalls: tuple[tuple[str, Callable[[SideScores], float | None]], ...] = (
        ("path", lambda scores: scores.path),
        ("answer", lambda scores: scores.answer),
        ("combined", lambda scores: scores.combined),
    )
    for label, overall in overalls:
        pairs = tuple((overall(a), overall(b)) for a, b in sides)
        if any(mark is not None for pair in pairs for mark in pair):
            yield MarkRow(label, pairs, _mean(pairs), overall=True)


def _mean(pairs: Sequence[Marks]) -> tuple[float, float] | None:
    """Return the mean marks of both sides over two or more orders; None if an order or a mark is missing."""
    whole = [(a, b) for a, b in pairs if a is not None and b is not None]
    if len(pairs) < 2 or len(whole) < len(pairs):
        return None
    return sum(a for a, _ in whole) / len(whole), sum(b for _, b in whole) / len(whole)


def _judged_order(match: Match, first: int, verdict: Judged | None) -> JudgedOrder:
    second = opponent_of(match, first)
    remarks, other_remarks = judge_remarks(verdict, left_first=first == match.a)
    return JudgedOrder(
        first=first,
        second=second,
        verdict=verdict,
        remarks=remarks,
        other_remarks=other_remarks,
        flags=tuple(_shown_flags(first, second, verdict)),
    )


def judge_remarks(verdict: Judged | None, *, left_first: bool) -> tuple[Remarks, OtherRemarks]:
    """Return what a judge said of path and answer of the left and of the right side, and its other remarks.

    `left_first` tells whether the left side was shown first.
    """
    left, right = ("A", "B") if left_first else ("B", "A")
    analysis = dict(verdict.analysis) if verdict else {}
    remarks: list[tuple[str, tuple[str, str]]] = []
    for title in ("path", "answer"):
        pair = (analysis.pop(f"{title}_{left}", ""), analysis.pop(f"{title}_{right}", ""))
        if any(pair):
            remarks.append((title, pair))
    return tuple(remarks), tuple(analysis.items())


def _shown_flags(first: int, second: int, verdict: Judged | None) -> Iterator[ShownFlag]:
    sides = [(first, verdict.a), (second, verdict.b)] if verdict else []
    for rollout, scores in sides:
        for flag in scores.flags:
            lowered = cap_words(cap for cap in scores.caps if cap.flag == flag.kind)
            yield ShownFlag(rollout=rollout, words=flag_words(flag), lowered=lowered)
