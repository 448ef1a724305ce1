"""How many records a run has, and what became of its rollouts: all that a list of runs says of them."""

from array import array
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from harness.archive.lines import RecordPlace
from harness.core.records import sum_if_known


class RolloutPlace(NamedTuple):
    """Where a rollout's record begins, and what must be known of it without reading it."""

    place: RecordPlace
    status: str
    kind: str | None
    """What it failed of."""
    started_at: datetime
    price: float | None


@dataclass(frozen=True)
class RunCounts:
    """How many records a run has, and what became of its rollouts; of a rollout the newest record counts."""

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


def count_records(
    queries: Collection[str], rollouts: Mapping[str, Mapping[int, RolloutPlace]], spent: float | None
) -> RunCounts:
    """Count the records, one query after the other: the places of a large run do not fit into memory."""
    begun = count = failed = 0
    fewest, cancelled, first, prices = 0, False, None, array("d")
    kinds = set[str]()
    for query, places in rollouts.items():
        of_query = {place.kind for place in places.values() if place.kind is not None}
        prices.extend(place.price for place in places.values() if place.price is not None)
        count += len(places)
        failed += sum(place.status == "failed" for place in places.values())
        kinds |= of_query
        first = first or places[min(places)].place
        if query in queries:
            fewest = min(fewest, len(places)) if begun else len(places)
            begun += 1
            cancelled |= "cancelled" in of_query
    return RunCounts(
        queries=len(queries),
        rollouts=count,
        failed=failed,
        kinds=frozenset(kinds),
        fewest=fewest if begun == len(queries) else 0,
        cancelled=cancelled,
        usd=sum_if_known([*prices, spent]) if len(prices) == count else None,
        first=first,
    )
