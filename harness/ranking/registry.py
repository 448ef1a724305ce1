"""The topologies by name: how to make one, what it costs, and the orders in which it judges by default."""

from collections.abc import Sequence
from typing import Literal, Protocol

from harness.ranking.anchor import Anchor
from harness.ranking.arena import Arena, match_bounds
from harness.ranking.cyclic import Cyclic, spread
from harness.ranking.double import Double, judged_in_double
from harness.ranking.no_matches import NoMatches
from harness.ranking.round_robin import RoundRobin
from harness.ranking.single import Single
from harness.ranking.swiss import Swiss, usual_rounds
from harness.ranking.topology import OrderPolicy, Topology

TopologyName = Literal["arena", "anchor", "single", "double", "swiss", "round_robin", "cyclic", "none"]
NEED_ANCHOR = frozenset({"arena", "anchor"})
"""Without an anchor these play as `single`."""


class Sampler(Protocol):
    """The one thing that a topology asks of chance; `random.Random` is a sampler."""

    def sample(self, population: Sequence[int], k: int) -> list[int]:
        """Return k of the population in random order."""
        ...


def usual_order(name: TopologyName) -> OrderPolicy | None:
    """Return the orders judged where the user names none: both; None for `cyclic`, which spends its budget itself."""
    return None if name == "cyclic" else "both"


def make_topology(
    name: TopologyName,
    entrants: Sequence[int],
    anchor: int | None,
    order: OrderPolicy | None,
    rng: Sampler,
    budget: int | None = None,
) -> Topology:
    """Return a tournament among `entrants` (rollout indices). `order` None is the topology's usual one.

    Seeds of `single`, `double` and `swiss` are drawn from `rng`; the others draw nothing. `budget`, in judge calls,
    is for `cyclic` alone. Raises ValueError for no entrants, one named twice, or an anchor that is not among them.
    """
    both = order or "both"
    match name:
        case "arena" | "anchor" if anchor is not None:
            return (Arena if name == "arena" else Anchor)(entrants, anchor, both)
        case "arena" | "anchor" | "single" | "double" | "swiss":
            seeded = {"double": Double, "swiss": Swiss}.get(name, Single)
            return seeded(rng.sample(list(entrants), len(entrants)), both)
        case "round_robin":
            return RoundRobin(entrants, both)
        case "cyclic":
            return Cyclic(entrants, order, budget)
        case "none":
            return NoMatches(entrants)


def calls_bounds(
    name: TopologyName, n: int, order: OrderPolicy | None = None, budget: int | None = None
) -> tuple[int, int]:
    """Return the fewest and the most judge calls of a tournament of n, all rollouts differing and none failing."""
    low, high = judged_matches(name, n, order, budget)
    each = 2 if (order or usual_order(name)) == "both" else 1
    return low * each, high * each


def judged_matches(
    name: TopologyName, n: int, order: OrderPolicy | None = None, budget: int | None = None
) -> tuple[int, int]:
    """Return the fewest and the most matches that have to be judged: a pair that has met is not judged again.

    For `cyclic` a pair's second order is a match of its own.
    """
    if name == "arena":
        return match_bounds(n)
    if name == "double":
        return judged_in_double(n)
    matches = {
        "anchor": n - 1,
        "single": n - 1,
        "swiss": usual_rounds(n) * (n // 2),
        "round_robin": n * (n - 1) // 2,
        "cyclic": sum(spread(n, order, budget)),
        "none": 0,
    }[name]
    return matches, matches


def describe_design(n: int, order: OrderPolicy | None, budget: int | None) -> str:
    """Return in words what `cyclic` does with a budget of judge calls."""
    pairs = n * (n - 1) // 2
    first, second = spread(n, order, budget)
    which = f"each of the {pairs} pairs" if first == pairs else f"{first} of the {pairs} pairs, evenly spread,"
    orders = "in both orders" if order == "both" else "in one order" + (", sides balanced" if order != "single" else "")
    if second == pairs:
        return f"{which} in both orders"
    return f"{which} {orders}" + (f", then the {second} closest in the other order too" if second else "")
