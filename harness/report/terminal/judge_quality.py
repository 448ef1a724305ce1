"""How far to believe a judge: its figures, each with what it means."""

from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap

from rich.cells import cell_len
from rich.text import Text

from harness.core.unicode import visible
from harness.core.wording import counted
from harness.report.judge_quality import JudgeQuality, QualityFigure
from harness.report.terminal.layout import line_of_text, visible_text
from harness.report.terminal.table import Column, TableRow, table_lines

_COLUMNS = (Column("", 1), Column("figure", 2), Column("which says", 3))


def quality_lines(quality: JudgeQuality, width: int) -> Iterator[Text]:
    """Yield a judge's figures under its name."""
    verdicts = f"{counted(quality.tally.verdicts, 'verdict')} on different answers"
    yield visible_text(f"judge {quality.judge}, rubric {quality.rubric}: {verdicts}", style="bold")
    yield from figure_lines(quality.figures, width)


def figure_lines(figures: Iterable[QualityFigure], width: int) -> Iterator[Text]:
    """Yield figures as a table where a whole row fits into `width`, else with the meanings below them."""
    rows = [tuple(map(visible, (f.label, f.value, f.meaning))) for f in figures]
    widest = [max(map(cell_len, cells)) for cells in zip(*rows, strict=True)]
    if sum(widest) + 2 * (len(widest) - 1) <= width:
        yield from table_lines(_COLUMNS, map(TableRow, rows), width)
    else:
        yield from _entries(rows, width)


def _entries(rows: Sequence[Sequence[str]], width: int) -> Iterator[Text]:
    """Yield each figure in a line of its own, and what it says indented below it."""
    for label, value, meaning in rows:
        yield visible_text((label, "bold"), f": {value}")
        for line in wrap(meaning, max(20, width - 4), break_on_hyphens=False):
            yield line_of_text(f"    {line}")
