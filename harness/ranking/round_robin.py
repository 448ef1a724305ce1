"""`round_robin`: every pair meets once."""

from collections.abc import Sequence
from fractions import Fraction

from harness.ranking.circle_method import balanced_sides, round_of
from harness.ranking.schedule import Schedule, distinct
from harness.ranking.topology import OrderPolicy, Pairing, Played, Standing, orders


class RoundRobin:
    """n(n-1)/2 matches, all open at once. `balanced` sides are those of the circle (`balanced_sides`)."""

    name = "round_robin"

    def __init__(self, entrants: Sequence[int], order: OrderPolicy = "both") -> None:
        """Set up. Raises ValueError for no entrants or an entrant named twice."""
        self._entrants, self._schedule = distinct(entrants), Schedule()
        n = len(entrants)
        pairs = sorted((round_of(i, j, n), i, j) for j in range(n) for i in range(j))
        for place, (number, i, j) in enumerate(pairs):
            first, second = balanced_sides(i, j, n) if order == "balanced" else (i, j)
            a, b = entrants[first], entrants[second]
            shown = orders(a, b, "both" if order == "both" else "single")
            self._schedule.open_match(Pairing(a, b, number, shown), place)

    @property
    def matches(self) -> Sequence[Played]:
        """The matches by round; in a round everyone plays at most once."""
        return self._schedule.matches

    def pairings(self) -> Sequence[Pairing]:
        """Return the open matches."""
        return self._schedule.pairings()

    def record(self, pairing: Pairing, score_a: Fraction, score_b: Fraction) -> None:
        """Take a result. Raises ValueError for a pairing that is not open."""
        self._schedule.record(pairing, score_a, score_b)

    def standings(self) -> Sequence[Standing]:
        """Return each entrant's points. There are no rounds to reach and no seed scores."""
        return [Standing(e, 0, own, None) for e, own in self._schedule.points(self._entrants).items()]
