"""The calls of a tournament that are sure before all who may enter are known: they need not wait for the others.

A call is sure if the tournament asks for it at its beginning, whoever of the others enters.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import chain, combinations

from harness.core.settings import OrderPolicy, TopologyName
from harness.ranking.registry import TOPOLOGIES, Entry, make_topology

MOST_PENDING = 4
"""Where places among the entrants count, all that may become of more would take longer to go through than it gains."""

_Order = tuple[int, int]
"""Two entrants, the first shown first."""


class _NoChance:
    """A sampler for tournaments that ask nothing of chance."""

    def sample(self, population: Sequence[int], k: int) -> list[int]:
        return list(population)[:k]


def sure_calls(name: TopologyName, entry: Entry, pending: Sequence[int]) -> frozenset[_Order]:
    """Return the orders that are sure to be judged, for the entrants so far; any of the `pending` may enter, or not.

    An anchor that is not among the entrants counts as not known yet: a topology that needs it is sure of nothing.
    """
    design = TOPOLOGIES[name]
    kind = design.first_matches(entry.order)
    if len(entry.entrants) < 2 or kind == "drawn" or (design.needs_anchor and entry.anchor is None):
        return frozenset()
    fixed = name, entry.anchor, entry.order, entry.budget
    if kind == "by pair":
        return _first_calls(*fixed, tuple(entry.entrants))
    if len(pending) > MOST_PENDING:
        return frozenset()
    subsets = chain.from_iterable(combinations(pending, size) for size in range(len(pending) + 1))
    futures = [_first_calls(*fixed, tuple(sorted([*entry.entrants, *subset]))) for subset in subsets]
    return futures[0].intersection(*futures[1:])


@lru_cache(maxsize=4096)
def _first_calls(
    name: TopologyName, anchor: int | None, order: OrderPolicy | None, budget: int | None, entrants: tuple[int, ...]
) -> frozenset[_Order]:
    """Return the orders that a tournament of just these entrants asks for at its beginning; none of them is drawn."""
    topology = make_topology(name, Entry(entrants, anchor, order, _NoChance(), budget))
    return frozenset(order for pairing in topology.pairings() for order in pairing.orders)
