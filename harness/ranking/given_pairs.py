"""Matches that are given: each pair meets once, and nothing follows from a result."""

from collections.abc import Mapping, Sequence

from harness.ranking.schedule import ScheduledTopology
from harness.ranking.topology import Pairing, orders

_Pair = tuple[int, int]


class GivenPairs(ScheduledTopology):
    """The pairs that somebody else has drawn, all open at once, in one round."""

    name = "given"

    def __init__(self, pairs: Sequence[_Pair], in_orders: Mapping[_Pair, tuple[_Pair, ...]] | None = None) -> None:
        """Set up; `in_orders` says in which orders a pair is judged, by default in both.

        Raises ValueError without a pair, or for an entrant against itself.
        """
        super().__init__(sorted({entrant for pair in pairs for entrant in pair}))
        for place, (a, b) in enumerate(pairs):
            if a == b:
                raise ValueError(f"entrant {a} cannot meet itself")
            judged_in = orders(a, b, "both") if in_orders is None else in_orders[a, b]
            self._schedule.open_match(Pairing(a, b, 0, judged_in), place)
