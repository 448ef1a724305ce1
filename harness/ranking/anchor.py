"""`anchor`: every sample meets the anchor, and that is all (the seeding of ArenaRL, arXiv 2601.06487)."""

from collections.abc import Sequence
from fractions import Fraction

from harness.ranking.schedule import Schedule, distinct
from harness.ranking.topology import OrderPolicy, Pairing, Played, Standing, orders


class Anchor:
    """n-1 matches, all open at once. A sample's seed score is its score; the anchor's is the mean of its own."""

    name = "anchor"

    def __init__(self, entrants: Sequence[int], anchor: int, order: OrderPolicy = "both") -> None:
        """Set up for `entrants` (rollout indices, `anchor` among them). Raises ValueError if it is not."""
        self._entrants, self._anchor, self._schedule = distinct(entrants), anchor, Schedule()
        if anchor not in entrants:
            raise ValueError(f"the anchor {anchor} must be one of the entrants {list(entrants)}")
        for place, sample in enumerate(e for e in entrants if e != anchor):
            self._schedule.open_match(Pairing(sample, anchor, 0, orders(sample, anchor, order)), place)

    @property
    def matches(self) -> Sequence[Played]:
        """The matches in entrant order."""
        return self._schedule.matches

    def pairings(self) -> Sequence[Pairing]:
        """Return the open matches."""
        return self._schedule.pairings()

    def record(self, pairing: Pairing, score_a: Fraction, score_b: Fraction) -> None:
        """Take a result. Raises ValueError for a pairing that is not open."""
        self._schedule.record(pairing, score_a, score_b)

    def standings(self) -> Sequence[Standing]:
        """Return each entrant's standing; its seed score is its only point."""
        own = self._schedule.points(self._entrants)
        seeds = {e: sum(points, Fraction()) / len(points) for e, points in own.items() if points}
        return [Standing(e, 0, (seeds[e],) if e in seeds else (), seeds.get(e)) for e in self._entrants]
