"""`round_robin`: every pair meets once."""

from collections.abc import Sequence

from harness.core.settings import OrderPolicy
from harness.ranking.circle_method import balanced_sides, round_of
from harness.ranking.schedule import ScheduledTopology
from harness.ranking.topology import Pairing, orders


class RoundRobin(ScheduledTopology):
    """n(n-1)/2 matches, all open at once; in a round everyone plays at most once.

    `balanced` sides are those of the circle (`balanced_sides`).
    """

    name = "round_robin"

    def __init__(self, entrants: Sequence[int], order: OrderPolicy = "both") -> None:
        """Set up. Raises ValueError for no entrants or an entrant named twice."""
        super().__init__(entrants)
        n = len(entrants)
        pairs = sorted((round_of(i, j, n), i, j) for j in range(n) for i in range(j))
        for place, (number, i, j) in enumerate(pairs):
            first, second = balanced_sides(i, j, n) if order == "balanced" else (i, j)
            a, b = entrants[first], entrants[second]
            shown = orders(a, b, "both" if order == "both" else "single")
            self._schedule.open_match(Pairing(a, b, number, shown), place)
