"""`anchor`: every sample meets the anchor once (the seeding of ArenaRL, arXiv 2601.06487)."""

from collections.abc import Sequence

from harness.core.settings import OrderPolicy
from harness.ranking.schedule import ScheduledTopology
from harness.ranking.topology import Pairing, Standing, exact_mean, orders


class Anchor(ScheduledTopology):
    """n-1 matches, all open at once. A sample's seed score is its score; the anchor's is the mean of its scores."""

    name = "anchor"

    def __init__(self, entrants: Sequence[int], anchor: int, order: OrderPolicy = "both") -> None:
        """Set up for `entrants` (rollout indices, `anchor` among them). Raises ValueError if it is not."""
        super().__init__(entrants)
        if anchor not in entrants:
            raise ValueError(f"the anchor {anchor} must be one of the entrants {list(entrants)}")
        for place, sample in enumerate(e for e in entrants if e != anchor):
            self._schedule.open_match(Pairing(sample, anchor, 0, orders(sample, anchor, order)), place)

    def standings(self) -> Sequence[Standing]:
        """Return each entrant's standing; its seed score is its only point."""
        points = self._schedule.points(self._entrants)
        seeds = {e: exact_mean(scores) for e, scores in points.items() if scores}
        return [Standing(e, 0, (seeds[e],) if e in seeds else (), seeds.get(e)) for e in self._entrants]
