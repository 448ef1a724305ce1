"""Who beat whom, for the terminal: a row and a column for each rollout, in the order of their places."""

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.console import Group as Lines
from rich.console import RenderableType
from rich.text import Text

from harness.core.wording import counted
from harness.report.summary.pair_table import JudgedPair, PairTable, cycles_sentence
from harness.report.terminal.layout import line_of_text, visible_text
from harness.report.terminal.table import Column, TableRow, table_lines
from harness.report.text import as_sentence, signed

_GAP = 2
_FLIPPED = "*"


def pair_table_lines(table: PairTable, width: int) -> RenderableType:
    """Return the table `width` characters wide: by how much each row leads each column, in mean score points.

    Where there is room, both orders stand beside the mean.
    """
    return Lines(*_lines(table, width))


def _lines(table: PairTable, width: int) -> Iterator[Text]:
    yield line_of_text("Who beat whom: the row's mean score less the column's", "bold", wrap=True)
    full = [_row(table, at, both_orders=True) for at in range(len(table.rollouts))]
    fits = _widest(full) <= width
    rows = full if fits else [_row(table, at, both_orders=False) for at in range(len(table.rollouts))]
    columns = [Column("", 1, right=True)]
    columns += [Column(str(r.index), at, right=True) for at, r in enumerate(table.rollouts, 2)]
    yield from table_lines(columns, (TableRow(row) for row in rows), width)
    yield visible_text(_legend(table, both_orders=fits))
    if circles := cycles_sentence(table.cycles):
        yield visible_text(as_sentence(circles))


def _row(table: PairTable, at: int, *, both_orders: bool) -> list[str]:
    row = table.rollouts[at].index
    cells = (_cell(table.pairs.get((row, r.index)), both_orders=both_orders) for r in table.rollouts)
    return [str(row), *(cell if column != at else "" for column, cell in enumerate(cells))]


def _cell(pair: JudgedPair | None, *, both_orders: bool) -> str:
    if pair is None:
        return "–"
    mean = (signed(pair.difference) if pair.difference else "0.00") + (_FLIPPED if pair.flipped else "")
    if not both_orders:
        return mean
    leads = (pair.led_when_first(pair.row), pair.led_when_first(pair.column))
    return f"{mean} ({' '.join('–' if lead is None else signed(lead, 1) for lead in leads)})"


def _widest(rows: Sequence[Sequence[str]]) -> int:
    columns = [max(map(cell_len, cells)) for cells in zip(*rows, strict=True)]
    return sum(columns) + _GAP * (len(columns) - 1)


def _legend(table: PairTable, *, both_orders: bool) -> str:
    orders = "; in brackets the row shown first, then the column" if both_orders else ""
    flips = f"; {_FLIPPED} the swap changed the winner, in {table.flipped}" if table.flipped else ""
    return f"{table.met} of {counted(table.of, 'pair')} met{orders}{flips}."
