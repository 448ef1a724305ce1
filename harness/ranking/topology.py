"""What every topology speaks: pairings out, scores in, standings at the end."""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from harness.core.rankings import Match
from harness.core.settings import OrderPolicy

Exact = int | Fraction
"""A number without rounding: ties stay ties. Whole numbers are many times faster than fractions."""
UNITS = 10**4 * 2520
"""To a score point, where scores are counted in units: decimals of four places are then whole, and so are the means of
up to ten of them."""


@lru_cache(maxsize=4096)
def exact(score: float) -> Fraction:
    """Return the decimal that `score` prints as, exactly. Raises ValueError for NaN and infinities."""
    return Fraction(repr(float(score)))


@lru_cache(maxsize=4096)
def in_units(score: float) -> Exact:
    """Return the same in units, as a whole number where it is one."""
    return _whole(exact(score) * UNITS)


def exact_mean(numbers: Sequence[Exact]) -> Exact:
    """Return the mean of at least one number, as a whole number where it is one."""
    total = sum(numbers)
    if isinstance(total, int) and total % len(numbers) == 0:
        return total // len(numbers)
    return _whole(Fraction(total) / len(numbers))


def _whole(number: Fraction) -> Exact:
    return number.numerator if number.denominator == 1 else number


class Pairing(NamedTuple):
    """A match that may be played now: entrants `a` and `b`, and the orders (first, second) to judge it in."""

    a: int
    b: int
    round: int
    orders: tuple[tuple[int, int], ...]


class Played(NamedTuple):
    """A match with its scores. `repeated`: the pair had met before and those scores were used again."""

    pairing: Pairing
    score_a: Exact
    score_b: Exact
    repeated: bool = False


class Standing(NamedTuple):
    """Where one entrant got to: the last round it reached, its points in playing order, its seed score."""

    entrant: int
    round_reached: int
    points: tuple[Exact, ...]
    seed_score: Exact | None
    units: int = 1
    """How many of its points make a score point."""

    @property
    def mean(self) -> Fraction:
        """V of ArenaRL: the mean of the points, so that a bye neither helps nor harms; 0 without points.

        In score points, exact.
        """
        total, count = sum(self.points), len(self.points) * self.units
        if not count:
            return Fraction()
        return Fraction(total, count) if isinstance(total, int) else total / count

    @property
    def score(self) -> float:
        """The number next to the mean."""
        total, count = sum(self.points), len(self.points) * self.units
        return float(total / count) if count else 0.0

    @property
    def mean_key(self) -> float:
        """The mean as a number to sort by: equal means give equal numbers, and others others.

        To divide whole numbers or fractions gives the float next to the true quotient, and means of a tournament lie
        much further apart than two floats.
        """
        return float(sum(self.points) / len(self.points)) if self.points else 0.0

    @property
    def seed_key(self) -> float:
        """The seed score as a number to sort by; 0 without one."""
        return float(self.seed_score or 0)


def standings_in_units(topology: "Topology") -> list[Standing]:
    """Return where the entrants of a tournament stand whose matches were recorded in units."""
    return [Standing(*standing[:-1], UNITS) for standing in topology.standings()]


def count_points(entrants: Sequence[int], matches: Sequence[Match]) -> list[Standing]:
    """Return what matches say of the entrants where no topology does: their points; no rounds, no seeds."""
    points: dict[int, list[Exact]] = {entrant: [] for entrant in entrants}
    for match in matches:
        points[match.a].append(in_units(match.score_a))
        points[match.b].append(in_units(match.score_b))
    return [Standing(entrant, 0, tuple(of), None, UNITS) for entrant, of in points.items()]


def orders(a: int, b: int, policy: OrderPolicy) -> tuple[tuple[int, int], ...]:
    """Return the orders to judge `a` against `b` in. Balanced: the lower index stands first when a + b is odd."""
    match policy:
        case "both":
            return ((a, b), (b, a))
        case "single":
            return ((a, b),)
        case "balanced":
            low, high = min(a, b), max(a, b)
            return ((low, high),) if (a + b) % 2 else ((high, low),)


class Topology:
    """A tournament as a state machine: it is over when `pairings()` is empty and no match is open.

    A topology opens its first matches when it is set up (`_open_match`). What follows from a result stands in `_after`,
    if anything does. Matches count by round, then by place in the round.
    """

    name: str
    """The name users know it by."""

    def __init__(self, entrants: Sequence[int]) -> None:
        """Set up for `entrants`. Raises ValueError for no entrants, or an entrant named twice."""
        if not entrants or len(set(entrants)) != len(entrants):
            raise ValueError(f"entrants must be distinct and at least one, got {list(entrants)}")
        self._entrants = tuple(entrants)
        self._open: dict[Pairing, int] = {}
        """Open matches with their place in the round, in the order in which they were opened."""
        self._played: dict[tuple[int, int], Played] = {}
        """Played matches by round and place."""
        self._first_meetings: dict[frozenset[int], Played] = {}

    @property
    def matches(self) -> Sequence[Played]:
        """The matches played, by round and place."""
        return [self._played[key] for key in sorted(self._played)]

    def pairings(self) -> Sequence[Pairing]:
        """Return every match that may be played now and has no result yet; empty when over."""
        return list(self._open)

    def record(self, pairing: Pairing, score_a: Exact, score_b: Exact) -> None:
        """Take a match's result. Raises ValueError for a pairing that is not open."""
        place = self._open.pop(pairing, None)
        if place is None:
            raise ValueError(f"no open match between {pairing.a} and {pairing.b} in round {pairing.round}")
        self._after(self._enter(Played(pairing, score_a, score_b), place))

    def standings(self) -> Sequence[Standing]:
        """Return where each entrant stands, in their order: here without rounds reached or seed scores."""
        return [Standing(e, 0, points, None) for e, points in self._points(self.matches).items()]

    def _after(self, played: Played) -> None:
        """Open what follows from a result: by default nothing."""

    def _open_match(self, pairing: Pairing, place: int) -> None:
        self._open[pairing] = place

    def _repeat(self, pairing: Pairing, place: int) -> Played | None:
        """Count a match of two who have met, with the scores of their first meeting; None if they have not met."""
        first = self._first_meetings.get(frozenset((pairing.a, pairing.b)))
        if first is None:
            return None
        scores = (first.score_a, first.score_b) if first.pairing.a == pairing.a else (first.score_b, first.score_a)
        return self._enter(Played(pairing, *scores, repeated=True), place)

    def _have_met(self, a: int, b: int) -> bool:
        return frozenset((a, b)) in self._first_meetings

    def _points(self, matches: Iterable[Played]) -> dict[int, tuple[Exact, ...]]:
        """Return each entrant's scores, one a match, in the order of `matches`."""
        points: dict[int, list[Exact]] = {e: [] for e in self._entrants}
        for played in matches:
            points[played.pairing.a].append(played.score_a)
            points[played.pairing.b].append(played.score_b)
        return {e: tuple(scores) for e, scores in points.items()}

    def _enter(self, played: Played, place: int) -> Played:
        self._played[played.pairing.round, place] = played
        self._first_meetings.setdefault(frozenset((played.pairing.a, played.pairing.b)), played)
        return played


def winner(a: int, b: int, scores: tuple[float, float] | tuple[Exact, Exact]) -> int | None:
    """Return the entrant with the higher score; None for a tie."""
    return None if scores[0] == scores[1] else a if scores[0] > scores[1] else b
