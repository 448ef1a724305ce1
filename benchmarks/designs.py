"""The designs that benchmarks/ranking.py compares, and how one is played on a group's simulated replies."""

import random
from dataclasses import dataclass
from fractions import Fraction

from simulated_judge import Array

from harness.core.settings import OrderPolicy, TopologyName
from harness.ranking.knockout import Arena
from harness.ranking.topologies import Entry, make_topology
from harness.ranking.topology import Topology, exact


@dataclass(frozen=True)
class Design:
    """A topology as it is played: in which orders, for how many calls, and whether a pair is judged again."""

    name: str
    topology: TopologyName
    order: OrderPolicy | None = "both"
    budget: int | None = None
    afresh: bool = False

    def start(self, n: int, rng: random.Random) -> Topology:
        """Return the topology for entrants 0..n-1, the anchor being 0."""
        if self.afresh:
            return Arena(range(n), 0, self.order or "both", reuse=False)
        return make_topology(self.topology, Entry(range(n), 0, self.order, rng, self.budget))


def designs(n: int) -> list[Design]:
    """Return what is compared among `n` rollouts."""
    once = 4 * (n - 1)
    budgets = [(f"cyclic {x:g}x", round(x * once)) for x in (0.5, 0.75, 1, 1.5, 2)]
    return [
        Design("arena", "arena"),
        Design("arena afresh", "arena", afresh=True),
        Design("arena one order", "arena", "balanced"),
        Design("anchor", "anchor"),
        Design("single", "single"),
        Design("double", "double"),
        Design("swiss", "swiss"),
        Design("round robin", "round_robin"),
        Design("round robin one order", "round_robin", "balanced"),
        *(Design(name, "cyclic", None, budget) for name, budget in budgets if budget <= n * (n - 1)),
    ]


class Table:
    """A group's replies. A call made again is judged afresh; `made` lists the calls in order."""

    def __init__(self, calls: Array) -> None:
        """Take calls [K, N, N, 2]."""
        self._calls, self._times = calls, dict[tuple[int, int], int]()
        self.made: list[tuple[int, int, float, float]] = []

    def ask(self, first: int, second: int) -> tuple[Fraction, Fraction]:
        """Return the scores of one call."""
        k = self._times.get((first, second), 0)
        self._times[first, second] = k + 1
        a, b = self._calls[k, first, second].tolist()
        self.made.append((first, second, a, b))
        return exact(a), exact(b)


def play(topology: Topology, table: Table) -> None:
    """Play to the end; a match's score is the mean over its orders."""
    while open_now := topology.pairings():
        for pairing in open_now:
            total = {pairing.a: Fraction(), pairing.b: Fraction()}
            for first, second in pairing.orders:
                for entrant, score in zip((first, second), table.ask(first, second), strict=True):
                    total[entrant] += score
            topology.record(pairing, *(total[e] / len(pairing.orders) for e in (pairing.a, pairing.b)))
