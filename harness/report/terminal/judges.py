"""The judges of a run side by side: a column for each ranking, as many beside each other as fit."""

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.text import Text

from harness.core.unicode import visible
from harness.core.wording import counted
from harness.ranking.judge_stats.side_by_side import RankAgreement
from harness.ranking.query_figures import QueryFigure
from harness.report.summary.judge_choice import choice_sentence, side_notes
from harness.report.summary.judges import JudgesSideBySide, RankedBy
from harness.report.terminal.layout import visible_text
from harness.report.terminal.table import Column, TableRow, table_lines
from harness.report.text import as_sentence, dollars_interval, number_interval, percent_interval

_NOTHING = "\N{EN DASH}"
_GAP = 2


def side_by_side_lines(side: JudgesSideBySide, width: int) -> Iterator[Text]:
    """Yield who judged, the figures of each, how far each two agree, and which judge to take."""
    for at, ranking in enumerate(side.rankings, 1):
        queries = counted(len(ranking.queries), "query", "queries")
        yield visible_text((f"{at}", "bold"), f"  {ranking.name}: {queries}, ranking {ranking.ranking}")
    yield visible_text("")
    rows = [[visible(cell) for cell in row] for row in _rows(side)]
    for columns in _beside(rows, width):
        names = [Column("", 1), *(Column(str(at), 1) for at in columns)]
        yield from table_lines(names, [TableRow([row[0], *(row[at] for at in columns)]) for row in rows], width)
        yield visible_text("")
    for agreement in side.agreements:
        yield visible_text(_agreement_words(agreement))
    yield visible_text("in brackets: 95 % intervals over queries; one query has none", style="dim")
    for note in side_notes(side):
        yield visible_text(f"note: {note}")
    yield visible_text(as_sentence(choice_sentence(side)), style="bold")


def _rows(side: JudgesSideBySide) -> Iterator[list[str]]:
    """Yield the rows, each with its label first; a figure that no ranking has is left out, but for flips and noise."""
    rankings = side.rankings
    if any("labels" in ranking.figures.right for ranking in rankings):
        yield ["labels right", *(_share(ranking.figures.right.get("labels")) for ranking in rankings)]
    if any("reward" in ranking.figures.right for ranking in rankings):
        yield ["reward() right", *(_share(ranking.figures.right.get("reward")) for ranking in rankings)]
    yield ["flips", *(_share(ranking.figures.flips) for ranking in rankings)]
    yield ["own noise", *(_number(ranking.figures.self_noise) for ranking in rankings)]
    yield ["score and length", *(_number(ranking.figures.length) for ranking in rankings)]
    yield ["calls a query", *(_number(ranking.figures.calls, 0) for ranking in rankings)]
    yield ["cost a query", *(_cost(ranking) for ranking in rankings)]


def _beside(rows: Sequence[Sequence[str]], width: int) -> Iterator[list[int]]:
    """Yield the columns that fit beside each other, table after table."""
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    columns, room = list[int](), width - widths[0]
    for at in range(1, len(widths)):
        if columns and room < widths[at] + _GAP:
            yield columns
            columns, room = [], width - widths[0]
        columns.append(at)
        room -= widths[at] + _GAP
    yield columns


def _share(figure: QueryFigure | None) -> str:
    return percent_interval(figure) if figure else _NOTHING


def _number(figure: QueryFigure | None, decimals: int = 2) -> str:
    return number_interval(figure, decimals) if figure else _NOTHING


def _cost(ranking: RankedBy) -> str:
    return dollars_interval(ranking.figures.usd) if ranking.figures.usd else "unknown"


def _agreement_words(agreement: RankAgreement) -> str:
    pair = f"{agreement.first + 1} and {agreement.second + 1}"
    if agreement.same_best is None:
        return f"{pair}: no query in common"
    tau = f"Kendall's tau-b {number_interval(agreement.tau)}" if agreement.tau else "one of them ties all rollouts"
    queries = counted(agreement.same_best.queries, "query", "queries")
    return f"{pair}: {tau}; the same best rollout on {percent_interval(agreement.same_best)} of {queries}"
