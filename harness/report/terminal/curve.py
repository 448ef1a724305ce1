"""A curve as a table: a row for each design, a column for each estimator."""

from collections.abc import Iterator

from rich.text import Text

from harness.core.plurals import counted
from harness.ranking.curve import CurvePoint, frontier
from harness.report.summary.curve import JudgingCurve
from harness.report.summary.curve_words import (
    MEASURE,
    calls_words,
    curve_notes,
    curve_sentence,
    order_words,
    truth_words,
)
from harness.report.terminal.layout import visible_text
from harness.report.terminal.table import Column, TableRow, table_lines
from harness.report.text import as_sentence, fixed

_ESTIMATORS = ("tiers", "wins", "margins", "bt")
_COLUMNS = (
    Column("calls", 1, right=True),
    Column("topology", 2),
    Column("orders", 3),
    *(Column(name, 4, right=True) for name in _ESTIMATORS),
    Column("best [95 %]", 5, right=True),
    Column("keeps", 6, right=True),
)


def curve_lines(curve: JudgingCurve, width: int) -> Iterator[Text]:
    """Yield the table, the fewest calls first, what was measured and how, and the sentence."""
    queries = counted(curve.queries, "query", "queries")
    yield visible_text(f"round robin {curve.ranking} ({curve.by}), {queries}", style="bold")
    yield visible_text(truth_words(curve))
    yield visible_text("")
    yield from table_lines(_COLUMNS, _rows(curve), width)
    yield visible_text("")
    plays = counted(curve.curve.plays, "time")
    yield visible_text(f"{MEASURE}. Each design was played {plays} on each query (seed {curve.seed}).", style="dim")
    yield visible_text(
        "bold: nothing agrees better for as few calls; cyclic: calls as a share of the pairs; "
        "keeps: of what the most calls give",
        style="dim",
    )
    for note in curve_notes(curve):
        yield visible_text(f"note: {note}")
    yield visible_text(as_sentence(curve_sentence(curve)), style="bold")


def _rows(curve: JudgingCurve) -> Iterator[TableRow]:
    points = curve.curve.points
    by_design: dict[object, list[CurvePoint]] = {}
    for point in points:
        by_design.setdefault(point.design, []).append(point)
    best_of_all = {id(point) for point in frontier(points)}
    for of_design in by_design.values():
        best = max(of_design, key=lambda point: point.tau.value)
        taus = {point.estimator: fixed(point.tau.value) for point in of_design}
        cells = (
            calls_words(best),
            best.design.topology,
            order_words(best.design).removesuffix(" of pairs"),
            *(taus.get(name, "") for name in _ESTIMATORS),
            _interval(best),
            f"{100 * best.keeps.value:.0f} %" if best.keeps else "",
        )
        yield TableRow(cells, "bold" if id(best) in best_of_all else "")


def _interval(point: CurvePoint) -> str:
    low, high = point.tau.low, point.tau.high
    return "" if low is None or high is None else f"[{fixed(low)}, {fixed(high)}]"
