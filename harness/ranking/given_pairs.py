"""Matches that are given: each pair meets once, in both orders, and nothing follows from a result."""

from collections.abc import Sequence

from harness.ranking.schedule import ScheduledTopology
from harness.ranking.topology import Pairing, orders


class GivenPairs(ScheduledTopology):
    """The pairs that somebody else has drawn, all open at once, in one round."""

    name = "given"

    def __init__(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Set up. Raises ValueError without a pair, or for an entrant against itself."""
        super().__init__(sorted({entrant for pair in pairs for entrant in pair}))
        for place, (a, b) in enumerate(pairs):
            if a == b:
                raise ValueError(f"entrant {a} cannot meet itself")
            self._schedule.open_match(Pairing(a, b, 0, orders(a, b, "both")), place)
