"""The judges: how far to believe each, those of a run side by side, and the curve of accuracy against judge calls."""

from collections.abc import Iterable, Iterator
from textwrap import wrap
from typing import get_args

from rich.text import Text

from harness.core.errors import counted
from harness.core.settings import EstimatorName
from harness.core.unicode import visible
from harness.ranking.curve import CurvePoint, frontier
from harness.ranking.judge_stats.agreement import Share
from harness.ranking.judge_stats.side_by_side import QueryFigure
from harness.report.judge_quality import JudgeQuality
from harness.report.summary.curve import MEASURE, JudgingCurve, calls_words, order_words
from harness.report.summary.group import QualityFigure
from harness.report.summary.judges import JudgesSideBySide, Raters
from harness.report.terminal import table
from harness.report.text import as_sentence, dollars, dollars_interval, fixed, number_interval, percent_interval

_DISAGREEMENTS, _EXCERPT = 10, 40
_FIGURE_COLUMNS = (table.Column("", 1), table.Column("figure", 2), table.Column("which says", 3))


def quality_lines(quality: JudgeQuality, width: int) -> Iterator[Text]:
    """Yield a judge's figures under its name."""
    verdicts = f"{counted(quality.tally.verdicts, 'verdict')} on different answers"
    yield table.visible_text(f"judge {quality.judge}, rubric {quality.rubric}: {verdicts}", style="bold")
    yield from figure_lines(quality.figures, width)


def figure_lines(figures: Iterable[QualityFigure], width: int) -> Iterator[Text]:
    """Yield figures as a table where a whole row fits into `width`, else with the meanings below them."""
    rows = [tuple(map(visible, (f.label, f.value, f.meaning))) for f in figures]
    if table.table_width(rows) <= width:
        yield from table.table_lines(_FIGURE_COLUMNS, rows, width)
        return
    for label, value, meaning in rows:
        yield table.visible_text((label, "bold"), f": {value}")
        for line in wrap(meaning, max(20, width - 4), break_on_hyphens=False):
            yield table.line_of_text(f"    {line}")


def side_by_side_lines(side: JudgesSideBySide, width: int) -> Iterator[Text]:
    """Yield who judged, the figures of each, how far each two agree, and which judge to take."""
    for at, ranking in enumerate(side.rankings, 1):
        queries = counted(len(ranking.queries), "query", "queries")
        yield table.visible_text((f"{at}", "bold"), f"  {ranking.name}: {queries}, ranking {ranking.ranking}")
    yield table.visible_text("")
    rows = [[visible(cell) for cell in row] for row in _figure_rows(side)]
    for columns in table.columns_that_fit(rows, width):
        names = [table.Column("", 1), *(table.Column(str(at), 1) for at in columns)]
        yield from table.table_lines(names, ([row[0], *(row[at] for at in columns)] for row in rows), width)
        yield table.visible_text("")
    for each in side.agreements:
        both, words = each.same_best, "no query in common"
        if both:
            tau = f"Kendall's tau-b {number_interval(each.tau)}" if each.tau else "one of them ties all rollouts"
            of = counted(both.queries, "query", "queries")
            words = f"{tau}; the same best rollout on {percent_interval(both)} of {of}"
        yield table.visible_text(f"{each.first + 1} and {each.second + 1}: {words}")
    if side.raters:
        yield from _rater_lines(side.raters)
    yield table.visible_text("in brackets: 95 % intervals over queries; one query has none", style="dim")
    yield from (table.visible_text(f"note: {note}") for note in side.notes())
    yield table.visible_text(as_sentence(side.sentence), style="bold")


def _rater_lines(raters: Raters) -> Iterator[Text]:
    """Yield how far people agree among themselves, and on which pairs they do not."""
    alpha = (
        "no alpha, for all labels are the same"
        if raters.alpha is None
        else f"Krippendorff's alpha {fixed(raters.alpha)}"
    )
    people, differ = counted(len(raters.people), "person", "people"), len(raters.disagreements)
    yield table.visible_text(f"{people} on {counted(raters.pairs, 'pair')}: {alpha}; they differ on {differ:,}")
    for each in raters.disagreements[:_DISAGREEMENTS]:
        said = ", ".join(f"{person}: {label}" for person, label in each.said.items())
        texts = " / ".join(table.on_one_line(text, _EXCERPT) for text in (each.a, each.b))
        yield table.visible_text(f"    {table.on_one_line(each.query, _EXCERPT)}: {texts}; {said}")
    if differ > _DISAGREEMENTS:
        yield table.visible_text(f"    {differ - _DISAGREEMENTS:,} more with --json", style="dim")


def _figure_rows(side: JudgesSideBySide) -> Iterator[list[str]]:
    """Yield the rows, each with its label first; truths that no ranking has are left out."""
    figures = [ranking.figures for ranking in side.rankings]
    if any("labels" in each.right for each in figures):
        yield ["labels right", *(_share(each.right.get("labels")) for each in figures)]
    if any(ranking.alpha is not None for ranking in side.rankings):
        alphas = [ranking.alpha for ranking in side.rankings]
        yield ["alpha with people", *("\N{EN DASH}" if alpha is None else fixed(alpha) for alpha in alphas)]
    if any("reward" in each.right for each in figures):
        yield ["reward() right", *(_share(each.right.get("reward")) for each in figures)]
    planted = [side.planted.get(ranking.ranking) for ranking in side.rankings]
    for name in dict.fromkeys(name for each in planted if each for name in each.classes):
        yield [f"planted: {name}", *(of_cell(each and each.classes.get(name)) for each in planted)]
    if any(each and each.classes for each in planted):
        yield ["planted: all", *(of_cell(each and each.right) for each in planted)]
        yield ["planted: cost a verdict", *(usd_cell(each.usd_each) if each else of_cell(None) for each in planted)]
    yield ["changed with order", *(_share(each.flips) for each in figures)]
    yield ["information", *(_number(each.information) for each in figures)]
    yield ["own noise", *(_number(each.self_noise) for each in figures)]
    yield ["score and length", *(_number(each.length) for each in figures)]
    yield ["calls a query", *(_number(each.calls, 0) for each in figures)]
    yield ["cost a query", *(dollars_interval(each.usd) if each.usd else "unknown" for each in figures)]
    yield ["cost a verdict", *(dollars_interval(each.usd_each) if each.usd_each else "unknown" for each in figures)]
    yield ["seconds a verdict", *(_number(each.seconds, 1) for each in figures)]


def usd_cell(usd: float | None) -> str:
    """Return a price, or that it is not known."""
    return "unknown" if usd is None else dollars(usd)


def of_cell(share: Share | None) -> str:
    """Return a share as its counts; a dash where there is nothing to count."""
    return f"{share.part} of {share.whole}" if share and share.whole else "\N{EN DASH}"


def _share(figure: QueryFigure | None) -> str:
    return percent_interval(figure) if figure else "\N{EN DASH}"


def _number(figure: QueryFigure | None, decimals: int = 2) -> str:
    return number_interval(figure, decimals) if figure else "\N{EN DASH}"


_ESTIMATORS = get_args(EstimatorName)
_COLUMNS = (
    table.Column("calls", 1, right=True),
    table.Column("topology", 2),
    table.Column("orders", 3),
    *(table.Column(name, 4, right=True) for name in _ESTIMATORS),
    table.Column("best [95 %]", 5, right=True),
    table.Column("keeps", 6, right=True),
)


def curve_lines(curve: JudgingCurve, width: int) -> Iterator[Text]:
    """Yield the table, the fewest calls first, what was measured and how, and the sentence."""
    queries = counted(curve.queries, "query", "queries")
    yield table.visible_text(f"round robin {curve.ranking} ({curve.by}), {queries}", style="bold")
    yield table.visible_text(curve.truth_words)
    yield table.visible_text("")
    by_design: dict[object, list[CurvePoint]] = {}
    for point in curve.curve.points:
        by_design.setdefault(point.design, []).append(point)
    best_of_all, rows = {id(point) for point in frontier(curve.curve.points)}, list[table.TableRow]()
    for of_design in by_design.values():
        best = max(of_design, key=lambda point: point.tau.value)
        low, high = best.tau.low, best.tau.high
        taus = {point.estimator: fixed(point.tau.value) for point in of_design}
        cells = (
            calls_words(best),
            best.design.topology,
            order_words(best.design).removesuffix(" of pairs"),
            *(taus.get(name, "") for name in _ESTIMATORS),
            "" if low is None or high is None else f"[{fixed(low)}, {fixed(high)}]",
            f"{100 * best.keeps.value:.0f} %" if best.keeps else "",
        )
        rows.append(table.TableRow(cells, "bold" if id(best) in best_of_all else ""))
    yield from table.table_lines(_COLUMNS, rows, width)
    yield table.visible_text("")
    plays = counted(curve.curve.plays, "time")
    yield table.visible_text(
        f"{MEASURE}. Each design was played {plays} on each query (seed {curve.seed}).", style="dim"
    )
    yield table.visible_text(
        "bold: nothing agrees better for as few calls; cyclic: calls as a share of the pairs; "
        "keeps: of what the most calls give",
        style="dim",
    )
    yield from (table.visible_text(f"note: {note}") for note in curve.notes())
    yield table.visible_text(as_sentence(curve.sentence), style="bold")
