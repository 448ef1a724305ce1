"""`single`: single elimination with given seeds. `arena` and `anchor` play as `single` where there is no anchor."""

from collections.abc import Sequence

from harness.core.settings import OrderPolicy
from harness.ranking.bracket import SeededBracket
from harness.ranking.schedule import distinct
from harness.ranking.topology import Exact, Pairing, Played, Standing


class Single:
    """Single elimination among `seeds` (entrants, best first). Draw the seeds from an rng where no order is known."""

    name = "single"

    def __init__(self, seeds: Sequence[int], order: OrderPolicy = "both") -> None:
        """Set up. Raises ValueError for no entrants or an entrant named twice."""
        self._seeds = distinct(seeds)
        self._bracket = SeededBracket(self._seeds, order, {})

    @property
    def matches(self) -> Sequence[Played]:
        """The matches by round and place."""
        return self._bracket.matches

    def pairings(self) -> Sequence[Pairing]:
        """Return the open matches."""
        return self._bracket.pairings()

    def record(self, pairing: Pairing, score_a: Exact, score_b: Exact) -> None:
        """Take a result. Raises ValueError for a pairing that is not open."""
        self._bracket.record(pairing, score_a, score_b)

    def standings(self) -> Sequence[Standing]:
        """Return each entrant's standing, in entrant order. There is no seed score."""
        return [Standing(e, self._bracket.round_reached(e), self._bracket.points(e), None) for e in sorted(self._seeds)]
