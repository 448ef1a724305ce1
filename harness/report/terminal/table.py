"""Tables for a terminal: which columns there is room for, and a line a row.

Numbers, names and headings are never cut, and a text never to fewer than 12 characters. Where there is no room for all
columns, the least important ones are left out, and a line below the table names them. What is no terminal has room for
all columns, and texts share what the others leave of 120 characters.
"""

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from harness.core.unicode import visible

EXCERPT = 200
"""Characters that a row shows of a long text at most, however wide the terminal is."""


def visible_text(*parts: str | tuple[str, str], style: str = "") -> Text:
    """Return texts, or pairs of a text and its style, as one text with marks for what a terminal would obey.

    Marked here because rich's own Text drops some control characters without a trace.
    """
    pairs = ((part, "") if isinstance(part, str) else part for part in parts)
    return Text.assemble(*((visible(text), own_style) for text, own_style in pairs), style=style)


def line_of_text(text: str, style: str = "") -> Text:
    """Return a text with marks that stays on one line, however narrow the terminal is."""
    line = visible_text(text, style=style)
    line.no_wrap, line.overflow = True, "ignore"
    return line


def on_one_line(text: str, length: int = EXCERPT) -> str:
    """Return a text on one line, with marks for what a terminal would obey, cut to `length` characters."""
    flat = " ".join(visible(text).split())
    return flat if len(flat) <= length else flat[: length - 1] + "…"


SHORTEST = 12
"""Characters that a text keeps, however narrow the terminal is."""
PIPED = 100_000
"""The width of what is no terminal."""
_PAGE = 120
_GAP = 2
_CUT = "…"
_LEAST = SHORTEST + len(_CUT)


@dataclass(frozen=True)
class Column:
    """A column: its heading, and what becomes of it where there is no room for all."""

    name: str
    importance: int
    """1 stays longest."""
    right: bool = False
    wish: int | None = None
    """Characters that a text gets before a less important column gets any; None: the cells are never cut."""

    def fit(self, widest: int, room: int) -> int | None:
        """Return the width for cells of up to `widest` characters, heading included; None if `room` is too little."""
        wanted = widest if self.wish is None else min(widest, max(self.wish, self._least))
        if wanted <= room:
            return wanted
        least = wanted if self.wish is None else min(widest, self._least)
        return room if least <= room else None

    @property
    def _least(self) -> int:
        return max(_LEAST, cell_len(self.name))


@dataclass(frozen=True)
class TableRow:
    """The cells of a row, each on one line and marked (`on_one_line`, `visible_name`), and how they are shown."""

    cells: Sequence[str]
    style: str = ""


def choose_columns(columns: Sequence[Column], widest: Sequence[int], width: int) -> dict[int, int]:
    """Return the widths of the columns that `width` characters have room for, by position; of the first at least.

    `widest` is the number of characters of each column's widest cell, its heading included. A column is left out only
    if all less important ones are. What room is left goes to the texts, to the most important one first.
    """
    order = sorted(range(len(columns)), key=lambda at: columns[at].importance)
    widths: dict[int, int] = {}
    room = width
    for at in order:
        fitting = columns[at].fit(widest[at], room)
        if fitting is None and not widths:
            fitting = widest[at] if columns[at].wish is None else min(widest[at], _LEAST)
        if fitting is None:
            break
        widths[at] = fitting
        room -= fitting + _GAP
    room += _GAP - width + _page(width)
    for at in filter(widths.__contains__, order):
        more = max(0, min(widest[at] - widths[at], room))
        widths[at] += more
        room -= more
    return dict(sorted(widths.items()))


def table_lines(columns: Sequence[Column], rows: Iterable[Sequence[str] | TableRow], width: int) -> Iterator[Text]:
    """Yield the heading, a rule, a line for each row, and a line that names the columns left out."""
    rows = [row if isinstance(row, TableRow) else TableRow(row) for row in rows]
    heads = [column.name for column in columns]
    widest = [max(map(cell_len, cells)) for cells in zip(heads, *(row.cells for row in rows), strict=True)]
    widths = choose_columns(columns, widest, width)
    yield _line(columns, TableRow(heads, "bold"), widths)
    yield line_of_text("─" * min(sum(widths.values()) + _GAP * (len(widths) - 1), _page(width)), "dim")
    for row in rows:
        yield _line(columns, row, widths)
    if len(widths) < len(columns):
        left_out = ", ".join(column.name for at, column in enumerate(columns) if at not in widths)
        yield visible_text(f"--wide shows more: {left_out}", style="dim")


def _page(width: int) -> int:
    return _PAGE if width == PIPED else width


def table_or_list(columns: Sequence[Column], rows: Iterable[TableRow], width: int) -> Iterator[Text]:
    """Yield a table if all of it fits; else a paragraph for each row, in which nothing is cut."""
    rows = list(rows)
    heads = [column.name for column in columns]
    if table_width([heads, *(row.cells for row in rows)]) <= width:
        yield from table_lines(columns, rows, width)
        return
    for row in rows:
        yield visible_text(row.cells[0], style="bold")
        for head, cell in zip(heads[1:], row.cells[1:], strict=True):
            wrapped = textwrap.wrap(f"  {head}: {cell}", max(width, SHORTEST), subsequent_indent="    ")
            yield from (visible_text(line) for line in wrapped if cell)


def table_width(rows: Iterable[Sequence[str]]) -> int:
    """Return how many characters a table of these rows takes if nothing is cut."""
    return sum(max(map(cell_len, cells)) + _GAP for cells in zip(*rows, strict=True)) - _GAP


def columns_that_fit(rows: Sequence[Sequence[str]], width: int) -> Iterator[list[int]]:
    """Yield the columns that fit next to the first one, table after table: one column at least."""
    widths = [max(map(cell_len, column)) + _GAP for column in zip(*rows, strict=True)]
    columns, room = list[int](), width - widths[0] + _GAP
    for at in range(1, len(widths)):
        if columns and sum(widths[other] for other in columns) + widths[at] > room:
            yield columns
            columns = []
        columns.append(at)
    if columns:
        yield columns


def _line(columns: Sequence[Column], row: TableRow, widths: dict[int, int]) -> Text:
    cells: list[str] = []
    for at, width in widths.items():
        cell = cut_to(row.cells[at], width)
        padding = " " * (width - cell_len(cell))
        cells.append(padding + cell if columns[at].right else cell + padding)
    return line_of_text((" " * _GAP).join(cells).rstrip(), row.style)


def cut_to(text: str, width: int) -> str:
    """Return a text that takes at most `width` characters of a terminal's line; a wide character takes two."""
    return text if cell_len(text) <= width else set_cell_size(text, width - 1) + _CUT


def fitted_line(text: str, width: int, style: str = "") -> Text:
    """Return a text on one line of `width` characters, or of 12 where the terminal is narrower."""
    return line_of_text(cut_to(on_one_line(text), max(SHORTEST, width)), style)
