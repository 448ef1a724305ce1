"""Tables of scores to play tournaments on, kind and unkind, and a player that answers in any order."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from hypothesis import strategies as st

from harness.core.settings import OrderPolicy
from harness.ranking.knockout import Arena, Single
from harness.ranking.topology import Exact, Pairing, Played, Topology
from tests import builders

__all__ = ["Field", "Table", "arenas", "bracket", "builders", "play", "played_key", "singles", "tables"]

Table = Callable[[int, int], tuple[Exact, Exact]]
"""Scores of two entrants in a match; swapping the entrants swaps the scores."""


def tables(entrants: Sequence[int]) -> st.SearchStrategy[Table]:
    """Scores by chance in tenths or in a few whole numbers, all tied, one entrant over all, a strict order, a cycle."""
    seeds = st.integers(0, 10**6)
    return st.one_of(
        seeds.map(lambda seed: _by_pair(lambda rng: Fraction(rng.randint(0, 100), 10), seed)),
        seeds.map(lambda seed: _by_pair(lambda rng: Fraction(rng.randint(4, 6)), seed)),
        st.just(lambda a, b: (Fraction(5), Fraction(5))),
        st.sampled_from(entrants).map(lambda best: lambda a, b: (Fraction(int(a == best)), Fraction(int(b == best)))),
        st.permutations(entrants).map(lambda order: lambda a, b: (Fraction(order.index(a)), Fraction(order.index(b)))),
        st.just(lambda a, b: (Fraction((a - b) % 3), Fraction((b - a) % 3))),
    )


def _by_pair(draw: Callable[[random.Random], Fraction], seed: int) -> Table:
    def table(a: int, b: int) -> tuple[Fraction, Fraction]:
        rng = random.Random(f"{seed}/{min(a, b)}/{max(a, b)}")
        low, high = draw(rng), draw(rng)
        return (low, high) if a < b else (high, low)

    return table


_POLICIES: list[OrderPolicy] = ["both", "balanced", "single"]
ORDERS = st.sampled_from(_POLICIES)


@dataclass(frozen=True)
class Field:
    """Entrants (any distinct indices, since failed rollouts leave gaps), their anchor, what they score, the policy."""

    entrants: tuple[int, ...]
    anchor: int
    table: Table
    order: OrderPolicy
    replies: random.Random
    """Draws which open match is answered next."""

    def arena(self) -> Arena:
        return Arena(self.entrants, self.anchor, self.order)

    def single(self) -> Single:
        return Single(self.entrants, self.order)


@st.composite
def _fields(draw: st.DrawFn, largest: int) -> Field:
    n = draw(st.integers(1, largest))
    entrants = tuple(sorted(draw(st.sets(st.integers(0, 60), min_size=n, max_size=n))))
    table, order = draw(tables(entrants)), draw(ORDERS)
    return Field(entrants, draw(st.sampled_from(entrants)), table, order, random.Random(draw(st.integers(0, 999))))


def arenas(largest: int = 33) -> st.SearchStrategy[Field]:
    return _fields(largest)


def singles(largest: int = 33) -> st.SearchStrategy[Field]:
    """Fields whose entrants stand in any order: it is their seeding."""

    def shuffled(field: Field) -> st.SearchStrategy[Field]:
        return st.permutations(field.entrants).map(
            lambda seeds: Field(tuple(seeds), field.anchor, field.table, field.order, field.replies)
        )

    return _fields(largest).flatmap(shuffled)


def play(topology: Topology, table: Table, replies: random.Random | None = None) -> list[Pairing]:
    """Play to the end, answering open matches in the order that `replies` draws. Returns what was judged, in order."""
    judged: list[Pairing] = []
    while pairings := topology.pairings():
        pairing = replies.choice(pairings) if replies else pairings[0]
        topology.record(pairing, *table(pairing.a, pairing.b))
        judged.append(pairing)
    return judged


def bracket(topology: Topology) -> list[Played]:
    """The matches of the bracket; round 0 is the anchor's seeding."""
    return [p for p in topology.matches if p.pairing.round > 0]


def played_key(played: Played) -> tuple[int, frozenset[tuple[int, Exact]]]:
    """Round, and who scored what: a match without its sides."""
    a, b = (played.pairing.a, played.score_a), (played.pairing.b, played.score_b)
    return played.pairing.round, frozenset([a, b])


class InOrder:
    """Draws the population as it stands."""

    def sample(self, population: Sequence[int], k: int) -> list[int]:
        return list(population)[:k]
