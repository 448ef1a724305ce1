"""The topologies by name: how to make one, what it costs, the orders in which it judges, which calls are sure.

To add a topology: write its class beside those like it (`fixed_pairs`, `knockout`) or in a file of its own, name it in
`harness.core.settings.TopologyName`, and enter it in `TOPOLOGIES`. Nothing else has to know of it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, combinations
from typing import Literal, Protocol

from harness.core.errors import counted
from harness.core.settings import OrderPolicy, TopologyName
from harness.ranking.fixed_pairs import Anchor, Cyclic, NoMatches, RoundRobin, Swiss, spread, usual_rounds
from harness.ranking.knockout import Arena, Double, Single, judged_in_double, match_bounds
from harness.ranking.topology import Topology


class Sampler(Protocol):
    """The one thing that a topology asks of chance; `random.Random` is a sampler."""

    def sample(self, population: Sequence[int], k: int) -> list[int]:
        """Return k of the population in random order."""
        ...


@dataclass(frozen=True)
class Entry:
    """Who enters a tournament, and how it is to be judged. `budget`, in judge calls, is for `cyclic` alone."""

    entrants: Sequence[int]
    anchor: int | None
    order: OrderPolicy | None
    """None: the topology's usual order."""
    rng: Sampler
    budget: int | None = None

    @property
    def seeds(self) -> list[int]:
        """The entrants in a random order."""
        return self.rng.sample(list(self.entrants), len(self.entrants))


FirstMatches = Literal["by pair", "by place", "drawn"]
"""What decides who meets first, and in which orders: the two alone, their places among all entrants, or chance."""


@dataclass(frozen=True)
class Design:
    """A topology as the registry knows it: how to make one for an entry, and how many matches of it are judged."""

    make: Callable[[Entry], Topology]
    matches: Callable[[int, OrderPolicy | None, int | None], tuple[int, int]]
    """From n, order and budget to the fewest and the most matches; a pair that has met is not judged again."""
    needs_anchor: bool = False
    """Without an anchor the entrants play `single`."""
    usual_order: OrderPolicy | None = "both"
    first_matches: Callable[[OrderPolicy | None], FirstMatches] = lambda _order: "drawn"
    """What decides, with these orders, who meets first."""
    all_pairs: bool = True
    """Whether it may ask for any pair; False where it is known beforehand that some pairs never meet."""
    by_verdicts: bool = True
    """Whether verdicts decide who meets."""


def _exactly(matches: Callable[[int], int]) -> Callable[[int, OrderPolicy | None, int | None], tuple[int, int]]:
    """Return the bounds of a topology whose number of matches depends on n alone."""
    return lambda n, _order, _budget: (matches(n), matches(n))


TOPOLOGIES: Mapping[TopologyName, Design] = {
    "arena": Design(
        lambda e: Arena(e.entrants, _need_anchor(e), e.order or "both"),
        lambda n, _order, _budget: match_bounds(n),
        needs_anchor=True,
        first_matches=lambda _order: "by pair",
    ),
    "anchor": Design(
        lambda e: Anchor(e.entrants, _need_anchor(e), e.order or "both"),
        _exactly(lambda n: n - 1),
        needs_anchor=True,
        first_matches=lambda _order: "by pair",
        all_pairs=False,
        by_verdicts=False,
    ),
    "single": Design(lambda e: Single(e.seeds, e.order or "both"), _exactly(lambda n: n - 1)),
    "double": Design(lambda e: Double(e.seeds, e.order or "both"), lambda n, _order, _budget: judged_in_double(n)),
    "swiss": Design(lambda e: Swiss(e.seeds, e.order or "both"), _exactly(lambda n: usual_rounds(n) * (n // 2))),
    "round_robin": Design(
        lambda e: RoundRobin(e.entrants, e.order or "both"),
        _exactly(lambda n: n * (n - 1) // 2),
        first_matches=lambda order: "by place" if order == "balanced" else "by pair",
        by_verdicts=False,
    ),
    "cyclic": Design(
        lambda e: Cyclic(e.entrants, e.order, e.budget),
        # a pair's second order is a match of its own
        lambda n, order, budget: (sum(spread(n, order, budget)), sum(spread(n, order, budget))),
        usual_order=None,
        first_matches=lambda _order: "by place",
        all_pairs=False,
        by_verdicts=False,
    ),
    "none": Design(lambda e: NoMatches(e.entrants), _exactly(lambda _n: 0), by_verdicts=False),
}
"""Every topology by the name that users give it. `cyclic` has no usual order: it spends its budget itself."""

NEED_ANCHOR = frozenset(name for name, design in TOPOLOGIES.items() if design.needs_anchor)


def _need_anchor(entry: Entry) -> int:
    """Return the anchor of an entry that has one. Raises ValueError for an entry without an anchor."""
    if entry.anchor is None:
        raise ValueError("this topology needs an anchor")
    return entry.anchor


def make_topology(name: TopologyName, entry: Entry) -> Topology:
    """Return a tournament among the entrants; one that needs an anchor and has none is a `single` one.

    Raises ValueError for no entrants, an entrant named twice, or an anchor that is not among the entrants.
    """
    design = TOPOLOGIES[name]
    return TOPOLOGIES["single"].make(entry) if design.needs_anchor and entry.anchor is None else design.make(entry)


def calls_bounds(
    name: TopologyName, n: int, order: OrderPolicy | None = None, budget: int | None = None
) -> tuple[int, int]:
    """Return the fewest and the most judge calls of a tournament of n, all rollouts differing and none failing."""
    design = TOPOLOGIES[name]
    low, high = design.matches(n, order, budget)
    calls = 2 if (order or design.usual_order) == "both" else 1
    return low * calls, high * calls


def describe_design(n: int, order: OrderPolicy | None, budget: int | None) -> str:
    """Return in words what `cyclic` does with a budget of judge calls."""
    pairs = n * (n - 1) // 2
    first, second = spread(n, order, budget)
    every = "the only pair" if pairs == 1 else f"each of the {counted(pairs, 'pair')}"
    which = every if first == pairs else f"{first:,} of the {counted(pairs, 'pair')}, evenly spread,"
    orders = "in both orders" if order == "both" else "in one order" + (", sides balanced" if order != "single" else "")
    if second == pairs:
        return f"{which} in both orders"
    closest = "closest" if second == 1 else f"{second:,} closest"
    return f"{which} {orders}" + (f", then the {closest} in the other order too" if second else "")


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
