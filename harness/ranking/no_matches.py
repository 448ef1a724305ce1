"""`none`: no match at all. Roll out now, judge later."""

from collections.abc import Sequence
from fractions import Fraction

from harness.ranking.schedule import distinct
from harness.ranking.topology import Pairing, Played, Standing


class NoMatches:
    """A tournament that is over before it begins, and ranks no one."""

    name = "none"

    def __init__(self, entrants: Sequence[int]) -> None:
        """Set up. Raises ValueError for no entrants or an entrant named twice."""
        self._entrants = distinct(entrants)

    @property
    def matches(self) -> Sequence[Played]:
        """Empty."""
        return ()

    def pairings(self) -> Sequence[Pairing]:
        """Return nothing."""
        return ()

    def record(self, pairing: Pairing, score_a: Fraction, score_b: Fraction) -> None:
        """Raise ValueError: nothing is open."""
        del score_a, score_b
        raise ValueError(f"no open match between {pairing.a} and {pairing.b} in round {pairing.round}")

    def standings(self) -> Sequence[Standing]:
        """Return the entrants, without points."""
        return [Standing(e, 0, (), None) for e in self._entrants]
