"""The topologies by name: how to make one, what it costs, and the orders in which it judges by default.

To add a topology: write its class in a file of its own, name it in `harness.core.settings.TopologyName`, and enter it
in `TOPOLOGIES`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from harness.core.settings import OrderPolicy, TopologyName
from harness.core.wording import counted
from harness.ranking.arena import Arena, match_bounds
from harness.ranking.bracket import SeededBracket
from harness.ranking.circle_method import balanced_sides, round_of
from harness.ranking.cyclic import Cyclic, spread
from harness.ranking.double import Double, judged_in_double
from harness.ranking.schedule import ScheduledTopology, distinct
from harness.ranking.swiss import Swiss, usual_rounds
from harness.ranking.topology import Exact, Pairing, Played, Standing, Topology, exact_mean, orders


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


class NoMatches(ScheduledTopology):
    """A tournament without a match, which ranks nobody."""

    name = "none"


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


def _exactly(matches: Callable[[int], int]) -> Callable[[int, OrderPolicy | None, int | None], tuple[int, int]]:
    """Return the bounds of a topology whose number of matches depends on n alone."""
    return lambda n, _order, _budget: (matches(n), matches(n))


def _cyclic_matches(n: int, order: OrderPolicy | None, budget: int | None) -> tuple[int, int]:
    """Return how many matches `cyclic` plays: a pair's second order is a match of its own."""
    matches = sum(spread(n, order, budget))
    return matches, matches


TOPOLOGIES: Mapping[TopologyName, Design] = {
    "arena": Design(
        lambda e: Arena(e.entrants, _anchor_of(e), e.order or "both"),
        lambda n, _order, _budget: match_bounds(n),
        needs_anchor=True,
        first_matches=lambda _order: "by pair",
    ),
    "anchor": Design(
        lambda e: Anchor(e.entrants, _anchor_of(e), e.order or "both"),
        _exactly(lambda n: n - 1),
        needs_anchor=True,
        first_matches=lambda _order: "by pair",
        all_pairs=False,
    ),
    "single": Design(lambda e: Single(e.seeds, e.order or "both"), _exactly(lambda n: n - 1)),
    "double": Design(lambda e: Double(e.seeds, e.order or "both"), lambda n, _order, _budget: judged_in_double(n)),
    "swiss": Design(lambda e: Swiss(e.seeds, e.order or "both"), _exactly(lambda n: usual_rounds(n) * (n // 2))),
    "round_robin": Design(
        lambda e: RoundRobin(e.entrants, e.order or "both"),
        _exactly(lambda n: n * (n - 1) // 2),
        first_matches=lambda order: "by place" if order == "balanced" else "by pair",
    ),
    "cyclic": Design(
        lambda e: Cyclic(e.entrants, e.order, e.budget),
        _cyclic_matches,
        usual_order=None,
        first_matches=lambda _order: "by place",
        all_pairs=False,
    ),
    "none": Design(lambda e: NoMatches(e.entrants), _exactly(lambda _n: 0)),
}
"""Every topology by the name that users give it. `cyclic` has no usual order: it spends its budget itself."""

NEED_ANCHOR = frozenset(name for name, design in TOPOLOGIES.items() if design.needs_anchor)


def _anchor_of(entry: Entry) -> int:
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
