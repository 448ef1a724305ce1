"""The stored verdicts of one group's round robin, and a design played on them."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from harness.core.rankings import Match
from harness.core.settings import EstimatorName
from harness.ranking.conclusions import ranks_by_estimator
from harness.ranking.curve.designs import CurveDesign
from harness.ranking.drawn import Drawn
from harness.ranking.judge_stats.preferences import Preference
from harness.ranking.registry import Entry, make_topology
from harness.ranking.table_play import OrderedPair, ScorePair, play_table
from harness.ranking.topology import standings_in_units

_TINY = 1e-9
_MOST = 1e6
"""No judge gives such scores: a file that holds them was not written by the harness, and their sums overflow."""


@dataclass(frozen=True)
class VerdictTable:
    """What a judge said of every pair of a group."""

    entrants: tuple[int, ...]
    anchor: int | None
    """One of the entrants."""
    scores: Mapping[OrderedPair, ScorePair]
    """By order shown: mean scores over repeats and jurors."""
    calls: int
    """Verdicts behind each of them."""
    truth: tuple[Preference, ...] = ()
    """What the ranks should be like; empty where the verdicts of the other orders are to tell."""

    @property
    def both_orders(self) -> bool:
        """Whether each pair has a verdict in both orders."""
        return all((b, a) in self.scores for a, b in self.scores)

    @cached_property
    def first_lead(self) -> float:
        """What standing first is worth: the mean lead of the side shown first."""
        return _mean([first - second for first, second in self.scores.values()])

    @property
    def pairs(self) -> int:
        """How many pairs there are."""
        return math.comb(len(self.entrants), 2)


@dataclass(frozen=True)
class DesignPlayed:
    """A design played once on a table."""

    ranks: Mapping[EstimatorName, Mapping[int, float]]
    """0 is best, by estimator and entrant."""
    orders: frozenset[OrderedPair]
    """The orders of which the verdict was used."""


def verdict_scores(matches: Iterable[Match]) -> tuple[dict[OrderedPair, ScorePair], int]:
    """Return the mean scores of each order of each pair, and the most verdicts behind one of them.

    A verdict with scores that no judge gives is none.
    """
    given = defaultdict[OrderedPair, list[ScorePair]](list)
    for match in matches:
        if not match.repeated:
            for first, scores in zip(match.shown_first, match.scores, strict=False):  # archives before 0.2 hold none
                if max(map(abs, scores)) > _MOST:
                    continue
                given[first, match.b if first == match.a else match.a].append(scores)
    means = {order: (_mean([a for a, _ in rows]), _mean([b for _, b in rows])) for order, rows in given.items()}
    return means, max(map(len, given.values()), default=0)


def holds_every_pair(scores: Mapping[OrderedPair, ScorePair], entrants: Sequence[int], *, both_orders: bool) -> bool:
    """Tell whether every pair of entrants has a verdict, in both orders where that is asked for."""
    needed = all if both_orders else any
    return all(needed(order in scores for order in ((a, b), (b, a))) for a, b in combinations(entrants, 2))


def play_design(table: VerdictTable, design: CurveDesign, *seed: int) -> DesignPlayed:
    """Play a design on a table; the seed draws who is which entrant of it, and its own draws.

    The anchor stays the anchor. Without one, a design that needs it plays `single`, as a run does.
    """
    drawn = Drawn(*seed)
    others = [entrant for entrant in table.entrants if entrant != table.anchor]
    seats = [*([] if table.anchor is None else [table.anchor]), *drawn.sample(others, len(others))]
    anchor = None if table.anchor is None else 0
    entry = Entry(range(len(seats)), anchor, design.order, drawn, design.budget(len(seats)))
    topology = make_topology(design.topology, entry)

    def stored(order: OrderedPair) -> OrderedPair:
        return order if (seats[order[0]], seats[order[1]]) in table.scores else _turned(order)

    matches = play_table(topology, lambda i, j: table.scores[seats[i], seats[j]], stored)
    ranks = ranks_by_estimator(standings_in_units(topology), matches)
    return DesignPlayed(
        {name: {seats[seat]: rank for seat, rank in of_seats.items()} for name, of_seats in ranks.items()},
        frozenset((seats[i], seats[j]) for i, j in _orders_of(matches)),
    )


def held_out(table: VerdictTable, used: frozenset[OrderedPair], *seed: int) -> list[Preference]:
    """Return what the other order's verdict prefers in each pair, one verdict a pair whatever the design asked for.

    Of a pair that the design did not ask for, the seed draws the order. What standing first is worth in the group is
    taken off: else a judge that leans to a side would contradict each of its verdicts in the other order.
    """
    pairs = list(combinations(table.entrants, 2))
    kept = [
        (b, a) if (a, b) in used else (a, b) if (b, a) in used or coin else (b, a)
        for (a, b), coin in zip(pairs, Drawn(*seed).coins(len(pairs)), strict=True)
    ]
    leads = [(order, table.scores[order][0] - table.scores[order][1]) for order in kept]
    return [order if lead > table.first_lead else _turned(order) for order, lead in leads if _tells(lead, table)]


def _tells(lead: float, table: VerdictTable) -> bool:
    """Tell whether a verdict prefers a side: it is no tie, and leads by another amount than standing first is worth."""
    return abs(lead) > _TINY and abs(lead - table.first_lead) > _TINY


def _orders_of(matches: Iterable[Match]) -> Iterable[OrderedPair]:
    for match in matches:
        for first in match.shown_first:
            yield first, match.b if first == match.a else match.a


def _turned(order: OrderedPair) -> OrderedPair:
    first, second = order
    return second, first


def _mean(values: Sequence[float]) -> float:
    return round(math.fsum(values) / len(values), 9)
