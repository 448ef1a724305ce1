"""How many records a run has, and what became of its rollouts: all that a list of runs says of them.

The kept index of a large run holds these figures, so that a list of runs reads no place of a record.
"""

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.archive.index import Index
from harness.archive.lines import RecordPlace
from harness.archive.packed_places import RolloutPlace
from harness.core.rounded import sum_if_known


@dataclass(frozen=True)
class RunCounts:
    """The figures of a run's records; of a rollout the newest record counts."""

    queries: int
    rollouts: int
    failed: int
    kinds: frozenset[str]
    """What rollouts failed of."""
    fewest: int
    """Rollouts of the query that has the fewest; 0 without a query."""
    cancelled: bool
    """Whether a rollout of one of the queries was cancelled."""
    usd: float | None
    """What rollouts and verdicts cost; None if any price is unknown."""
    first: RecordPlace | None
    """Where the record of the first rollout of the first query that has any begins."""


@dataclass
class RolloutSums:
    """Sums over the rollouts of an index, of one query after the other."""

    index: Index
    rollouts: int = 0
    failed: int = 0
    kinds: set[str] = field(default_factory=set[str])
    fewest: int | None = None
    begun: int = 0
    """How many of the queries have rollouts."""
    cancelled: bool = False
    prices: "array[float]" = field(default_factory=lambda: array("d"))
    all_priced: bool = True
    first: RecordPlace | None = None

    def add(self, query: str, places: Mapping[int, RolloutPlace]) -> None:
        """Add the rollouts of a query, one at least."""
        kinds = {place.kind for place in places.values() if place.kind is not None}
        prices = [place.price for place in places.values() if place.price is not None]
        self.rollouts += len(places)
        self.failed += sum(place.status == "failed" for place in places.values())
        self.kinds |= kinds
        self.prices.extend(prices)
        self.all_priced &= len(prices) == len(places)
        self.first = self.first or places[min(places)].place
        if query in self.index.queries:
            self.begun += 1
            self.fewest = len(places) if self.fewest is None else min(self.fewest, len(places))
            self.cancelled |= "cancelled" in kinds

    @property
    def counts(self) -> RunCounts:
        """The figures of the run, once all of its rollouts are added."""
        queries = len(self.index.queries)
        return RunCounts(
            queries=queries,
            rollouts=self.rollouts,
            failed=self.failed,
            kinds=frozenset(self.kinds),
            fewest=(self.fewest or 0) if self.begun == queries else 0,
            cancelled=self.cancelled,
            usd=sum_if_known([*self.prices, self.index.spent]) if self.all_priced else None,
            first=self.first,
        )


def counts_of(index: Index) -> RunCounts:
    """Return the figures of the records that an index knows."""
    sums = RolloutSums(index)
    for query, places in index.rollouts.items():
        sums.add(query, places)
    return sums.counts
