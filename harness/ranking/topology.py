"""What every topology speaks: pairings out, scores in, standings at the end."""

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple, Protocol

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


def standings_of(entrants: Sequence[int], matches: Sequence[Match]) -> list[Standing]:
    """Return what matches say of the entrants where no topology does: their points; no rounds, no seeds."""
    points: dict[int, list[Exact]] = {entrant: [] for entrant in entrants}
    for match in matches:
        points[match.a].append(in_units(match.score_a))
        points[match.b].append(in_units(match.score_b))
    return [Standing(entrant, 0, tuple(of), None, UNITS) for entrant, of in points.items()]


class Topology(Protocol):
    """A tournament as a state machine. It is over when `pairings()` is empty and no match is open."""

    @property
    def name(self) -> str:
        """The name users know it by."""
        ...

    @property
    def matches(self) -> Sequence[Played]:
        """The matches recorded so far, by round, in the design's own order."""
        ...

    def pairings(self) -> Sequence[Pairing]:
        """Return every match that may be played now and has no result yet; empty when over."""
        ...

    def record(self, pairing: Pairing, score_a: Exact, score_b: Exact) -> None:
        """Take a match's result. Raises ValueError for a pairing that is not open."""
        ...

    def standings(self) -> Sequence[Standing]:
        """Return where each entrant stands, in entrant order."""
        ...


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
