"""The geometry of a drawn tournament: seeding lines, rounds, and the place of every match in them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from harness.core.rankings import GroupRanking, Match
from harness.core.records import Group
from harness.ranking import exact, seeded_order

FLAGS = {
    "tie": "level scores; in the bracket the better seed goes on",
    "flipped": "the two orders name opposite winners",
    "inconsistent": "one order names a winner, the other a tie",
    "met before": "the pair had met; its scores were used again",
    "answer cut": "an answer was too long for --judge-budget: the judge saw it without its middle",
}
"""What the marks on a match mean."""


@dataclass(frozen=True)
class Seed:
    """One entrant in the seeding: its score against the anchor, and the anchor's against it."""

    place: int | None
    index: int
    score: float | None
    against: float | None
    match: int | None
    """The number of the match; None for the anchor's own line, and for a match that is open."""


@dataclass(frozen=True)
class Slot:
    """One side of a match in the bracket; `index` is None while it is not known who comes here."""

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
class Bracket:
    """The rounds after the seeding; `tree` where each round's winners meet in the next."""

    rounds: tuple[Round, ...]
    champion: int | None
    tree: bool


_Places = Sequence[int | None]
_Numbered = dict[tuple[int, frozenset[int]], tuple[int, Match]]
"""A bracket match and its number, by round and pair."""


def seeding_lines(group: Group, ranked: GroupRanking) -> list[Seed]:
    """Return the seeding matches as lines, best seed first; the matches still open last."""
    played = [(number, match) for number, match in enumerate(ranked.matches, 1) if match.round == 0]
    if not played:
        return []
    order = _seeds(ranked.matches)
    anchor = played[0][1].b
    entrants = [r.index for r in group.rollouts if r.status == "ok" and r.index != anchor]
    complete = set(entrants) <= set(order)
    mean = sum(match.score_b for _, match in played) / len(played)
    own = {match.a: (number, match) for number, match in played}

    def line(entrant: int, place: int | None) -> Seed:
        if entrant == anchor:
            return Seed(place, entrant, mean, None, None)
        number, match = own[entrant]
        return Seed(place, entrant, match.score_a, match.score_b, number)

    lines = [line(e, place if complete else None) for place, e in enumerate(order, 1)]
    return lines + [Seed(None, e, None, None, None) for e in entrants if e not in order]


def seeding_scale(matches: Iterable[Match]) -> tuple[int, int]:
    """Return whole marks below and above every seeding score, for the ends of an axis."""
    scores = [s for match in matches if match.round == 0 for s in (match.score_a, match.score_b)]
    return (int(min(scores)), max(int(max(scores)) + 1, int(min(scores)) + 2)) if scores else (0, 10)


def _seeds(matches: Iterable[Match]) -> list[int]:
    """Return the entrants, best seed first, as `arena` draws them: score against the anchor, the anchor by its mean."""
    played = [match for match in matches if match.round == 0]
    if not played:
        return []
    scores = {match.a: exact(match.score_a) for match in played}
    scores[played[0].b] = sum((exact(match.score_b) for match in played), Fraction()) / len(played)
    return sorted(scores, key=lambda e: (-scores[e], e))


def drawn_bracket(group: Group, ranked: GroupRanking) -> Bracket | None:
    """Return the matches after the seeding as a bracket, or, where they form none, round by round."""
    played: _Numbered = {
        (match.round, frozenset((match.a, match.b))): (number, match)
        for number, match in enumerate(ranked.matches, 1)
        if match.round
    }
    entrants = {r.index for r in group.rollouts if r.status == "ok"}
    if ranked.topology in {"arena", "single"} and len(entrants) > 1:
        for places in (_fold(_seeds(ranked.matches)), _unfold(played)):
            everyone = {e for e in places if e is not None} == entrants
            if everyone and (found := _tree(places, played)):
                return found
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


def _tree(places: _Places, played: _Numbered) -> Bracket | None:
    """Play the bracket again on paper. Returns None where that does not account for every match."""
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
    return Bracket(tuple(rounds), places[0], tree=True) if used == len(played) else None


def _cell(a: int | None, b: int | None, level: int, seed: dict[int, int], played: _Numbered) -> Cell:
    if level == 1 and (a is None or b is None):
        through = a if b is None else b
        return Cell("bye", (Slot(through, None if through is None else seed[through], won=True),))
    found = played.get((level, frozenset((a, b)))) if a is not None and b is not None else None
    if found is None:
        return Cell("open", tuple(Slot(e, None if e is None else seed[e]) for e in (a, b)))
    number, match = found
    best = match.winner if match.winner is not None else min(match.a, match.b, key=lambda e: seed[e])
    slots = tuple(Slot(e, seed[e], score_of(match, e), e == best) for e in (a, b) if e is not None)
    return Cell("match", slots, number, flags_of(match))


def _by_round(played: _Numbered) -> Bracket:
    rounds = dict[int, list[Cell]]()
    for number, match in played.values():
        slots = tuple(Slot(e, None, score_of(match, e), e == match.winner) for e in (match.a, match.b))
        rounds.setdefault(match.round, []).append(Cell("match", slots, number, flags_of(match)))
    return Bracket(tuple(Round(n, f"Round {n}", tuple(rounds[n])) for n in sorted(rounds)), None, tree=False)


def _title(level: int, cells: int) -> str:
    return {1: "Final", 2: "Semi-finals", 4: "Quarter-finals"}.get(cells, f"Round {level}")


def score_of(match: Match, entrant: int) -> float:
    """Return the score of one side of a match."""
    return match.score_a if match.a == entrant else match.score_b


def flags_of(match: Match) -> tuple[str, ...]:
    """Return the marks on a match: names in `FLAGS`."""
    told = (match.winner is None, match.flipped, match.inconsistent, match.repeated, match.cut)
    return tuple(name for name, holds in zip(FLAGS, told, strict=True) if holds)
