"""The points of a curve: how far each design and estimator agrees with the truth, for how many calls."""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.core.settings import EstimatorName
from harness.ranking.curve.designs import CurveDesign
from harness.ranking.curve.verdict_table import VerdictTable, held_out, play_design
from harness.ranking.estimators import OF_A_GROUP
from harness.ranking.judge_stats.preferences import count_right
from harness.ranking.query_figures import QueryFigure, mean_over_queries, over_queries, quotient

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
    """The point of fewest calls that keeps 90 % of the reference's agreement; None without a reference that agrees."""
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
    keys: list[tuple[CurveDesign, EstimatorName]] = [
        (design, estimator) for design in designs for estimator in OF_A_GROUP
    ]
    rows = [row for at, table in enumerate(tables) if (row := _row(table, designs, (abs(seed), at, plays), held=held))]
    if not rows or not keys:
        return None
    taus = [[row[0][at] for row in rows] for at in range(len(keys))]
    calls = [sum(row[1][at // len(OF_A_GROUP)] for row in rows) / len(rows) for at in range(len(keys))]
    means = [sum(column) / len(column) for column in taus]
    most = max(range(len(keys)), key=lambda at: (round(calls[at], 9), means[at]))
    points = [_point(*keys[at], calls[at], taus[at], taus[most]) for at in range(len(keys))]
    return VerdictCurve(
        points=sorted(points, key=lambda point: (point.calls, -point.tau.value)),
        reference=points[most],
        chosen=_chosen(points, points[most]),
        plays=plays,
    )


def frontier(points: Sequence[CurvePoint]) -> list[CurvePoint]:
    """Return the points that no other point beats with as few calls, the fewest calls first."""
    best = list[CurvePoint]()
    for point in sorted(points, key=lambda p: (p.calls, -p.tau.value)):
        if not best or point.tau.value > best[-1].tau.value:
            best.append(point)
    return best


def _row(
    table: VerdictTable, designs: Sequence[CurveDesign], drawing: tuple[int, int, int], *, held: bool
) -> tuple[list[float], list[float]] | None:
    """Return the mean tau of each design and estimator, and the mean calls of each design; None without any truth."""
    seed, at, plays = drawing
    taus, calls = list[float](), list[float]()
    for design in designs:
        sums: dict[EstimatorName, float] = dict.fromkeys(OF_A_GROUP, 0.0)
        used = counted = 0
        for play in range(plays):
            played = play_design(table, design, seed, at, play)
            truth = held_out(table, played.orders, seed, at, play, 1) if held else table.truth
            used += len(played.orders) * table.calls
            counts = {name: count_right(truth, ranks) for name, ranks in played.ranks.items()}
            if all(of for _, of in counts.values()):
                counted += 1
                for name in OF_A_GROUP:
                    right, of = counts[name]
                    sums[name] += 2 * right / of - 1
        if not counted:
            return None
        taus += [total / counted for total in sums.values()]
        calls.append(used / plays)
    return taus, calls


def _point(
    design: CurveDesign, estimator: EstimatorName, calls: float, taus: Sequence[float], of: Sequence[float]
) -> CurvePoint:
    tau = mean_over_queries(taus, (-1.0, 1.0))
    assert tau, "there is a query"  # noqa: S101 - for the type checker
    keeps = over_queries(list(zip(taus, of, strict=True)), quotient)
    return CurvePoint(design, estimator, calls, tau, keeps)


def _chosen(points: Sequence[CurvePoint], reference: CurvePoint) -> CurvePoint | None:
    """Return the cheapest point that keeps enough of a reference that agrees at all."""
    if reference.tau.value <= 0:
        return None
    enough = [point for point in points if point.keeps and point.keeps.value >= KEEP]
    return min(enough, key=lambda point: (point.calls, -point.tau.value), default=None)
