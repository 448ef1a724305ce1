"""Accuracy against judge calls: every topology with every estimator, played on the verdicts of a round robin.

No verdict is bought: a round robin holds the verdict that any topology may ask for.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations

from harness.core.rankings import Match
from harness.core.settings import EstimatorName, OrderPolicy, TopologyName
from harness.ranking.comparisons import Comparisons, Fit
from harness.ranking.conclusions import collect_calls, ranks_by_estimator
from harness.ranking.estimators import ESTIMATORS
from harness.ranking.judge_stats.agreement import Preference, count_right
from harness.ranking.judge_stats.side_by_side import QueryFigure, mean_over_queries, over_queries, quotient
from harness.ranking.pooled import fit_by, learnt_from
from harness.ranking.pooled_judge import LearntJudge
from harness.ranking.score_table import Drawn, OrderedPair, ScorePair, play_table
from harness.ranking.topologies import NEED_ANCHOR, TOPOLOGIES, Entry, make_topology
from harness.ranking.topology import Standing, standings_in_units

_SHARES = (Fraction(1, 4), Fraction(1, 2), Fraction(3, 4), Fraction(1), Fraction(3, 2), Fraction(2))
"""Judge calls of `cyclic`, as shares of the number of pairs: above 1 pairs are judged in both orders."""


@dataclass(frozen=True)
class CurveDesign:
    """One way of choosing which verdicts to buy."""

    topology: TopologyName
    order: OrderPolicy | None
    """None: the topology's own, as a budget allows."""
    share: Fraction | None = None
    """For a topology with a budget: judge calls as a share of the number of pairs."""

    def budget(self, n: int) -> int | None:
        """Return the judge calls for a group of n that the design may make; at least what connects all."""
        return None if self.share is None else max(1, n - 1, round(self.share * n * (n - 1) / 2))


def designs(sizes: Collection[int], *, both_orders: bool, held_out: bool, anchored: bool) -> Iterator[CurveDesign]:
    """Yield every design that verdicts on groups of these sizes allow.

    Without `both_orders` each pair has one verdict, which every design then takes. With `held_out` the verdicts of the
    orders that a design does not ask for are the truth, so that it may ask for one order of a pair. Without `anchored`
    no group has an anchor to seed by.
    """
    two = both_orders and not held_out
    policies: list[OrderPolicy] = ["balanced", "single"] if both_orders else ["single"]
    if two:
        policies.insert(0, "both")
    for name, design in TOPOLOGIES.items():
        if name == "none" or (name in NEED_ANCHOR and not anchored):
            continue
        if design.usual_order is None:
            before = list[int | None]()  # each budget that differs from the one before
            for share in _SHARES if two else (share for share in _SHARES if share <= 1):
                budgeted = CurveDesign(name, None, share)
                budgets = [budgeted.budget(n) for n in sizes]
                if budgets != before:
                    yield budgeted
                before = budgets
        else:
            yield from (CurveDesign(name, order) for order in policies)


_TINY = 1e-9


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

    seats: tuple[int, ...]
    """The table's entrants, by the numbers that they have in the matches."""
    standings: tuple[Standing, ...]
    matches: tuple[Match, ...]
    orders: frozenset[OrderedPair]
    """The orders of which the verdict was used."""

    @property
    def calls(self) -> Comparisons:
        """What the design bought."""
        return collect_calls([standing.entrant for standing in self.standings], self.matches)

    def ranks(self, pooled: Fit) -> dict[EstimatorName, dict[int, float]]:
        """Return the ranks, 0 best, by estimator and entrant; `pooled` is the fit of these calls."""
        by_seat = ranks_by_estimator(self.standings, self.matches, pooled)
        return {name: {self.seats[seat]: rank for seat, rank in ranks.items()} for name, ranks in by_seat.items()}


def verdict_scores(matches: Iterable[Match]) -> tuple[dict[OrderedPair, ScorePair], int]:
    """Return the mean scores of each order of each pair, and the most verdicts behind one of them."""
    given = defaultdict[OrderedPair, list[ScorePair]](list)
    for match in matches:
        if not match.repeated:
            for first, scores in zip(match.shown_first, match.scores, strict=True):
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
    judged = [(match.a, match.b, first) for match in matches for first in match.shown_first]
    orders = frozenset((seats[i], seats[b if i == a else a]) for a, b, i in judged)
    return DesignPlayed(tuple(seats), tuple(standings_in_units(topology)), tuple(matches), orders)


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
    usual = table.first_lead
    telling = [(order, lead) for order, lead in leads if abs(lead) > _TINY and abs(lead - usual) > _TINY]
    return [order if lead > usual else _turned(order) for order, lead in telling]


def _turned(order: OrderedPair) -> OrderedPair:
    first, second = order
    return second, first


def _mean(values: Sequence[float]) -> float:
    return round(math.fsum(values) / len(values), 9)


KEEP = 0.9
"""Share of the full round robin's agreement that a design has to keep to be named."""
_WORK = 4200
"""Pairs of all groups, times how often each design is played: 150 groups of 8."""
_MOST, _LEAST = 12, 1


@dataclass(frozen=True)
class CurvePoint:
    """A design with an estimator."""

    design: CurveDesign
    estimator: EstimatorName
    calls: float
    """Judge calls a query, mean."""
    tau: QueryFigure
    """Kendall's tau over the pairs that the truth tells apart (Somers' d), mean over queries."""
    keeps: QueryFigure | None
    """`tau` as a share of the reference's; None where the reference has none."""


@dataclass(frozen=True)
class VerdictCurve:
    """All points, with the fewest calls first."""

    points: Sequence[CurvePoint]
    reference: CurvePoint
    """The point of most calls; of several that which agrees best."""
    chosen: CurvePoint | None
    """The point of fewest calls whose interval lies above 90 % of the reference's agreement; None without that."""
    plays: int
    """How often each design was played on each query."""


def plays_for(tables: Sequence[VerdictTable]) -> int:
    """Return how often to play each design on each table: less often on many or large ones."""
    pairs = sum(table.pairs for table in tables)
    return min(_MOST, max(_LEAST, _WORK // max(1, pairs)))


def verdict_curve(
    tables: Sequence[VerdictTable], designs: Sequence[CurveDesign], *, held: bool, seed: int, plays: int
) -> VerdictCurve | None:
    """Play every design on every table and measure its ranks; `held`: against the orders that it did not ask for.

    A table whose truth prefers nothing takes no part. None without a table that takes part.
    """
    keys: list[tuple[CurveDesign, EstimatorName]] = [(design, name) for design in designs for name in ESTIMATORS]
    judge = learnt_from([_whole(table) for table in tables])
    measured = [_measured(tables, design, judge, (abs(seed), plays), held=held) for design in designs]
    rows = [[row for row in of_table if row] for of_table in zip(*measured, strict=True)]
    rows = [of_table for of_table in rows if len(of_table) == len(measured)]
    if not rows or not keys:
        return None
    taus = [[of_table[at // len(ESTIMATORS)][0][name] for of_table in rows] for at, (_, name) in enumerate(keys)]
    calls = [sum(of_table[at // len(ESTIMATORS)][1] for of_table in rows) / len(rows) for at in range(len(keys))]
    means = [sum(column) / len(column) for column in taus]
    most = max(range(len(keys)), key=lambda at: (round(calls[at], 9), means[at]))
    points = [
        CurvePoint(design, name, used, tau, over_queries(list(zip(of_point, taus[most], strict=True)), quotient))
        for (design, name), used, of_point in zip(keys, calls, taus, strict=True)
        if (tau := mean_over_queries(of_point, (-1.0, 1.0)))
    ]
    in_order, reference = sorted(points, key=_by_calls), points[most]
    enough = [p for p in in_order if p is reference or (p.keeps and p.keeps.low is not None and p.keeps.low >= KEEP)]
    return VerdictCurve(in_order, reference, enough[0] if reference.tau.value > 0 else None, plays)


def _by_calls(point: CurvePoint) -> tuple[float, float]:
    return point.calls, -point.tau.value


def frontier(points: Sequence[CurvePoint]) -> list[CurvePoint]:
    """Return the points that no other point beats with as few calls, the fewest calls first."""
    best = list[CurvePoint]()
    for point in sorted(points, key=_by_calls):
        if not best or point.tau.value > best[-1].tau.value:
            best.append(point)
    return best


_Row = tuple[dict[EstimatorName, float], float]
"""Of a table: the mean tau by estimator, and the mean calls."""
_Counts = dict[EstimatorName, tuple[float, int]]


def _whole(table: VerdictTable) -> Comparisons:
    """Return all calls of a table."""
    sides = [[table.entrants.index(order[side]) for order in table.scores] for side in (0, 1)]
    scores = [[of_order[side] for of_order in table.scores.values()] for side in (0, 1)]
    return Comparisons.of(len(table.entrants), sides[0], sides[1], scores[0], scores[1])


def _measured(
    tables: Sequence[VerdictTable], design: CurveDesign, judge: LearntJudge, drawing: tuple[int, int], *, held: bool
) -> list[_Row | None]:
    """Return what a design comes to on each table; None where the truth tells nothing.

    `pooled` knows the judge as the whole round robin shows it, so as a profile of that judge would tell it.
    """
    seed, plays = drawing
    every = [[play_design(table, design, seed, at, play) for play in range(plays)] for at, table in enumerate(tables)]
    fits = iter(fit_by(judge, [one.calls for played in every for one in played], tell_p_value=False))
    rows = list[_Row | None]()
    for at, (table, played) in enumerate(zip(tables, every, strict=True)):
        sums: dict[EstimatorName, float] = dict.fromkeys(ESTIMATORS, 0.0)
        counted = 0
        for play, one in enumerate(played):
            ranks = one.ranks(next(fits))
            truth = held_out(table, one.orders, seed, at, play, 1) if held else table.truth
            counts: _Counts = {name: count_right(truth, of_name) for name, of_name in ranks.items()}
            if all(of for _, of in counts.values()):
                counted += 1
                for name, (right, of) in counts.items():
                    sums[name] += 2 * right / of - 1
        used = sum(len(one.orders) for one in played) * table.calls / plays
        rows.append(({name: total / counted for name, total in sums.items()}, used) if counted else None)
    return rows
