"""What every topology speaks: pairings out, scores in, standings at the end."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import NamedTuple, Protocol

from harness.core.rankings import Match
from harness.core.settings import OrderPolicy


@lru_cache(maxsize=4096)
def exact(score: float) -> Fraction:
    """Return the decimal that `score` prints as, exactly. Raises ValueError for NaN and infinities."""
    return Fraction(repr(float(score)))


class Pairing(NamedTuple):
    """A match that may be played now: entrants `a` and `b`, and the orders (first, second) to judge it in."""

    a: int
    b: int
    round: int
    orders: tuple[tuple[int, int], ...]


class Played(NamedTuple):
    """A match with its scores. `repeated`: the pair had met before and those scores were used again."""

    pairing: Pairing
    score_a: Fraction
    score_b: Fraction
    repeated: bool = False


@dataclass(frozen=True)
class Standing:
    """Where one entrant got to: the last round it reached, its points in playing order, its seed score."""

    entrant: int
    round_reached: int
    points: tuple[Fraction, ...]
    seed_score: Fraction | None

    @cached_property
    def mean(self) -> Fraction:
        """V of ArenaRL: the mean of the points, so that a bye neither helps nor harms; 0 without points."""
        return sum(self.points, Fraction()) / len(self.points) if self.points else Fraction()


def standings_of(entrants: Sequence[int], matches: Sequence[Match]) -> list[Standing]:
    """Return what matches say of the entrants where no topology does: their points; no rounds, no seeds."""
    points: dict[int, list[Fraction]] = {entrant: [] for entrant in entrants}
    for match in matches:
        points[match.a].append(exact(match.score_a))
        points[match.b].append(exact(match.score_b))
    return [Standing(entrant, 0, tuple(of), None) for entrant, of in points.items()]


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

    def record(self, pairing: Pairing, score_a: Fraction, score_b: Fraction) -> None:
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
