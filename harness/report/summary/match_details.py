"""The matches of one group with every mark and what the judge said, and the geometry of a drawn tournament."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Generic, Literal, TypeVar

from harness.core.rankings import GroupRanking, Judged, Match, SideScores
from harness.core.records import Group, Rollout
from harness.ranking.knockout import BRACKETS, seeded_order
from harness.ranking.topology import exact
from harness.report.summary import match_verdicts
from harness.report.text import readable_name


@dataclass(frozen=True)
class Slot:
    """One side of a match in the bracket; `index` is None while the rollout that comes here is not known."""

    index: int | None
    seed: int | None = None
    score: float | None = None
    won: bool = False


@dataclass(frozen=True)
class Cell:
    """One place in the bracket: a match played, a match still open, or a bye."""

    kind: Literal["match", "open", "bye"]
    slots: tuple[Slot, ...]
    match: int | None = None
    flags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Round:
    """A column of the bracket."""

    number: int
    title: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class BracketDrawing:
    """The rounds after the seeding; `tree` where each round's winners meet in the next."""

    rounds: tuple[Round, ...]
    champion: int | None
    tree: bool


_Places = Sequence[int | None]
_Numbered = dict[tuple[int, frozenset[int]], tuple[int, Match]]
"""A bracket match and its number, by round and pair."""


def seeds_by_anchor(matches: Iterable[Match]) -> list[int]:
    """Return the entrants, best seed first, as `arena` draws them: score against the anchor, the anchor by its mean."""
    played = [match for match in matches if match.round == 0]
    if not played:
        return []
    scores = {match.a: exact(match.score_a) for match in played}
    scores[played[0].b] = sum((exact(match.score_b) for match in played), Fraction()) / len(played)
    return sorted(scores, key=lambda e: (-scores[e], e))


def draw_bracket(group: Group, ranked: GroupRanking) -> BracketDrawing | None:
    """Return the matches after the seeding as a bracket, or round by round if they form no bracket; None if none."""
    played: _Numbered = {
        (match.round, frozenset((match.a, match.b))): (number, match)
        for number, match in enumerate(ranked.matches, 1)
        if match.round
    }
    entrants = {r.index for r in group.rollouts if r.status == "ok"}
    if ranked.topology in BRACKETS and len(entrants) > 1:
        seeds = seeds_by_anchor(ranked.matches)
        size = 1 << max(0, len(seeds) - 1).bit_length()  # the next power of two, as in the tournament; None is a bye
        seeded = [seeds[s] if s < len(seeds) else None for s in seeded_order(size)]
        for places in (seeded, _unfold(played)):
            everyone = {e for e in places if e is not None} == entrants
            if everyone and (bracket := _tree(places, played)):
                return bracket
    rounds = dict[int, list[Cell]]()
    for number, match in played.values():
        slots = tuple(Slot(e, None, match_verdicts.score_of(match, e), e == match.winner) for e in (match.a, match.b))
        rounds.setdefault(match.round, []).append(Cell("match", slots, number, match_verdicts.match_flags(match)))
    drawn = tuple(Round(number, f"Round {number}", tuple(rounds[number])) for number in sorted(rounds))
    return BracketDrawing(drawn, champion=None, tree=False) if played else None


def _unfold(played: _Numbered) -> _Places:
    """Read the first round's places off a finished bracket, from the final down; empty without one final."""
    last = max((number for number, _ in played), default=0)
    finals = [match for (number, _), (_, match) in played.items() if number == last]
    if len(finals) != 1:
        return []
    at = {(match.round, e): match for _, match in played.values() for e in (match.a, match.b)}

    def under(entrant: int, level: int) -> list[int | None]:
        if level == 0:
            return [entrant]
        match = at.get((level, entrant))
        if match is None:  # a bye: its side of the bracket is empty
            return [*under(entrant, level - 1), *[None] * (1 << (level - 1))]
        return [*under(match.a, level - 1), *under(match.b, level - 1)]

    return under(finals[0].a, last)


def _tree(places: _Places, played: _Numbered) -> BracketDrawing | None:
    """Play the bracket again from its first round. Returns None where this does not account for every match."""
    order = seeded_order(len(places))
    seed: dict[int | None, int] = {e: order[i] + 1 for i, e in enumerate(places) if e is not None}
    rounds: list[Round] = []
    used = 0
    while len(places) > 1:
        level = len(rounds) + 1
        cells = [_cell(places[i], places[i + 1], level, seed, played) for i in range(0, len(places), 2)]
        used += sum(cell.kind == "match" for cell in cells)
        title = {1: "Final", 2: "Semi-finals", 4: "Quarter-finals"}.get(len(cells), f"Round {level}")
        rounds.append(Round(level, title, tuple(cells)))
        places = [next((s.index for s in cell.slots if s.won), None) for cell in cells]
    return BracketDrawing(tuple(rounds), places[0], tree=True) if used == len(played) else None


def _cell(a: int | None, b: int | None, level: int, seed: dict[int | None, int], played: _Numbered) -> Cell:
    if level == 1 and (a is None or b is None):
        through = a if b is None else b
        return Cell("bye", (Slot(through, seed.get(through), won=True),))
    numbered_match = played.get((level, frozenset((a, b)))) if a is not None and b is not None else None
    if numbered_match is None:
        return Cell("open", (Slot(a, seed.get(a)), Slot(b, seed.get(b))))
    number, match = numbered_match
    best = match.winner if match.winner is not None else min(match.a, match.b, key=lambda e: seed[e])
    slots = tuple(Slot(e, seed[e], match_verdicts.score_of(match, e), e == best) for e in (a, b) if e is not None)
    return Cell("match", slots, number, match_verdicts.match_flags(match))


Named = TypeVar("Named", int, str)
"""What a side is called: a rollout's number, or a label."""
Marks = tuple[float | None, float | None]
"""The marks of both sides of a match, in the order of its sides."""


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
class ShownFlag(Generic[Named]):
    """What the harness found in what a judge was shown of a side, and the marks that this lowered, in words."""

    side: Named
    words: str
    lowered: str


@dataclass(frozen=True)
class JudgedOrder(Generic[Named]):
    """One order of a match and what the judge said in this order: `first` was shown first, so that it is A there."""

    first: Named
    second: Named
    verdict: Judged | None
    remarks: tuple[tuple[str, tuple[str, str]], ...]
    """Title, and the remark on each side of the match."""
    other_remarks: tuple[tuple[str, str], ...]
    """Remarks under names that no prompt of ours asks for."""
    flags: tuple[ShownFlag[Named], ...]

    @property
    def winner(self) -> Named | None:
        """The side that this order names; None for a tie, or without a verdict."""
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
    orders: tuple[JudgedOrder[int], ...]
    identical: bool
    """Whether both sides are the same text, so that one verdict stands for both orders."""


def detail_matches(
    group: Group, ranking: GroupRanking, bracket: BracketDrawing | None, verdicts: match_verdicts.VerdictLookup
) -> Iterator[MatchDetails]:
    """Yield a group's matches in the order played."""
    rollouts = {r.index: r for r in group.rollouts}
    titles = {0: "Seeding"} | {r.number: r.title.removesuffix("s") for r in (bracket.rounds if bracket else ())}
    for number, match in enumerate(ranking.matches, 1):
        orders = tuple(
            judged_order(first, match_verdicts.opponent_of(match, first), verdict, left_first=first == match.a)
            for first, verdict in match_verdicts.judged_orders(match, verdicts)
        )
        yield MatchDetails(
            number=number,
            title=titles[match.round],
            match=match,
            flags=match_verdicts.match_flags(match),
            sides=(_side(match, rollouts[match.a]), _side(match, rollouts[match.b])),
            marks=tuple(mark_rows(list(match_verdicts.marks_of_sides(match, verdicts)))),
            orders=orders,
            identical=any(o.verdict is not None and o.verdict.first == o.verdict.second for o in orders),
        )


def _side(match: Match, rollout: Rollout) -> MatchSide:
    return MatchSide(
        rollout=rollout, score=match_verdicts.score_of(match, rollout.index), won=match.winner == rollout.index
    )


def mark_rows(sides: Sequence[tuple[SideScores, SideScores]]) -> Iterator[MarkRow]:
    """Yield a line a dimension, then the overalls; `sides` holds the scores of both sides for each verdict."""
    for dimension in dict.fromkeys(name for pair in sides for scores in pair for name in scores.dimensions):
        pairs = tuple((a.dimensions.get(dimension), b.dimensions.get(dimension)) for a, b in sides)
        yield MarkRow(readable_name(dimension), pairs, _mean(pairs))
    for label in ("path", "answer", "combined"):
        pairs = tuple((getattr(a, label), getattr(b, label)) for a, b in sides)
        if any(mark is not None for pair in pairs for mark in pair):
            yield MarkRow(label, pairs, _mean(pairs), overall=True)


def _mean(pairs: Sequence[Marks]) -> tuple[float, float] | None:
    """Return the mean marks of both sides over two or more orders; None if an order or a mark is missing."""
    whole = [(a, b) for a, b in pairs if a is not None and b is not None]
    if len(pairs) < 2 or len(whole) < len(pairs):
        return None
    return sum(a for a, _ in whole) / len(whole), sum(b for _, b in whole) / len(whole)


def judged_order(first: Named, second: Named, verdict: Judged | None, *, left_first: bool) -> JudgedOrder[Named]:
    """Return an order; `left_first` tells whether the left side of the match was shown first."""
    left, right = ("A", "B") if left_first else ("B", "A")
    analysis = match_verdicts.marked_remarks(verdict) if verdict else {}
    remarks: list[tuple[str, tuple[str, str]]] = []
    for title in ("path", "answer"):
        pair = (analysis.pop(f"{title}_{left}", ""), analysis.pop(f"{title}_{right}", ""))
        if any(pair):
            remarks.append((title, pair))
    flags = [
        ShownFlag(
            side,
            match_verdicts.flag_words(flag),
            match_verdicts.cap_words(cap for cap in scores.caps if cap.flag == flag.kind),
        )
        for side, scores in ([(first, verdict.a), (second, verdict.b)] if verdict else [])
        for flag in scores.flags
    ]
    return JudgedOrder(first, second, verdict, tuple(remarks), tuple(analysis.items()), tuple(flags))
