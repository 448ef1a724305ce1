"""The geometry of a drawn tournament: its rounds, and the place of every match in them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from harness.core.rankings import GroupRanking, Match
from harness.core.records import Group
from harness.ranking.knockout import seeded_order
from harness.ranking.topology import exact
from harness.report.summary.match_verdicts import match_flags, score_of


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
    if ranked.topology in {"arena", "single"} and len(entrants) > 1:
        for places in (_fold(seeds_by_anchor(ranked.matches)), _unfold(played)):
            everyone = {e for e in places if e is not None} == entrants
            if everyone and (bracket := _tree(places, played)):
                return bracket
    return _by_round(played) if played else None


def _fold(seeds: Sequence[int]) -> _Places:
    """Put seeds on the places of the next power of two, as the tournament does; None is a bye."""
    size = 1 << max(0, len(seeds) - 1).bit_length()
    return [seeds[s] if s < len(seeds) else None for s in seeded_order(size)]


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
    seed = {e: order[i] + 1 for i, e in enumerate(places) if e is not None}
    rounds: list[Round] = []
    used = 0
    while len(places) > 1:
        level = len(rounds) + 1
        cells = [_cell(places[i], places[i + 1], level, seed, played) for i in range(0, len(places), 2)]
        used += sum(cell.kind == "match" for cell in cells)
        rounds.append(Round(level, _title(level, len(cells)), tuple(cells)))
        places = [next((s.index for s in cell.slots if s.won), None) for cell in cells]
    return BracketDrawing(tuple(rounds), places[0], tree=True) if used == len(played) else None


def _cell(a: int | None, b: int | None, level: int, seed: dict[int, int], played: _Numbered) -> Cell:
    if level == 1 and (a is None or b is None):
        through = a if b is None else b
        return Cell(kind="bye", slots=(_open_slot(through, seed, won=True),))
    numbered_match = played.get((level, frozenset((a, b)))) if a is not None and b is not None else None
    if numbered_match is None:
        return Cell(kind="open", slots=(_open_slot(a, seed), _open_slot(b, seed)))
    number, match = numbered_match
    best = match.winner if match.winner is not None else min(match.a, match.b, key=lambda e: seed[e])
    slots = tuple(Slot(e, seed[e], score_of(match, e), e == best) for e in (a, b) if e is not None)
    return Cell(kind="match", slots=slots, match=number, flags=match_flags(match))


def _open_slot(entrant: int | None, seed: dict[int, int], *, won: bool = False) -> Slot:
    return Slot(entrant, None if entrant is None else seed[entrant], won=won)


def _by_round(played: _Numbered) -> BracketDrawing:
    rounds = dict[int, list[Cell]]()
    for number, match in played.values():
        slots = tuple(Slot(e, None, score_of(match, e), e == match.winner) for e in (match.a, match.b))
        cell = Cell(kind="match", slots=slots, match=number, flags=match_flags(match))
        rounds.setdefault(match.round, []).append(cell)
    drawn = tuple(Round(number, f"Round {number}", tuple(rounds[number])) for number in sorted(rounds))
    return BracketDrawing(drawn, champion=None, tree=False)


def _title(level: int, cells: int) -> str:
    return {1: "Final", 2: "Semi-finals", 4: "Quarter-finals"}.get(cells, f"Round {level}")
