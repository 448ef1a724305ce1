"""Columns by width: what may be cut, what never is, and which column goes first."""

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from harness.report.terminal.table import (
    PIPED,
    SHORTEST,
    Column,
    TableRow,
    choose_columns,
    cut_to,
    table_lines,
    table_or_list,
)

TEXT = st.text("ab 漢é", max_size=30).map(str.strip)
COLUMNS = st.lists(st.tuples(TEXT.filter(bool), st.booleans(), st.none() | st.integers(0, 40)), min_size=1, max_size=8)


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[Column], list[TableRow]]:
    drawn = draw(COLUMNS)
    order = draw(st.permutations(range(len(drawn))))
    columns = [Column(name, order[at], right, wish) for at, (name, right, wish) in enumerate(drawn)]
    return columns, draw(st.lists(st.builds(TableRow, st.tuples(*[TEXT] * len(columns))), max_size=4))


def widest(columns: list[Column], rows: list[TableRow]) -> list[int]:
    return [max(cell_len(text) for text in (c.name, *(r.cells[at] for r in rows))) for at, c in enumerate(columns)]


@given(tables(), st.integers(1, 200))
def test_no_figure_and_no_heading_is_cut_and_no_text_below_twelve_and_no_line_is_too_long(
    table: tuple[list[Column], list[TableRow]], width: int
):
    columns, rows = table
    room = widest(columns, rows)
    widths = choose_columns(columns, room, width)
    assert widths
    for at, given_width in widths.items():
        assert given_width >= (room[at] if columns[at].wish is None else min(room[at], SHORTEST + 1))
        assert len(widths) == 1 or given_width >= cell_len(columns[at].name)
    if len(widths) > 1:
        assert sum(widths.values()) + 2 * (len(widths) - 1) <= width
    lines = [line.plain for line in table_lines(columns, rows, width)]
    assert len(lines) == 2 + len(rows) + (len(widths) < len(columns))
    assert len(widths) == 1 or all(cell_len(line) <= width for line in lines[: 2 + len(rows)])


@given(tables(), st.integers(1, 200))
def test_a_column_is_left_out_only_where_all_less_important_ones_are(
    table: tuple[list[Column], list[TableRow]], width: int
):
    columns, rows = table
    shown = choose_columns(columns, widest(columns, rows), width)
    least = max(columns[at].importance for at in shown)
    assert all((at in shown) == (column.importance <= least) for at, column in enumerate(columns))


@given(tables())
def test_nothing_is_cut_or_left_out_where_there_is_room(table: tuple[list[Column], list[TableRow]]):
    columns, rows = table
    room = widest(columns, rows)
    assert list(choose_columns(columns, room, sum(room) + 2 * len(room)).values()) == room


@given(tables(), st.integers(0, 400))
def test_in_a_pipe_no_column_is_left_out_and_texts_share_a_line_of_120(
    table: tuple[list[Column], list[TableRow]], longer: int
):
    columns, rows = table
    room = [
        each + longer * (column.wish is not None) for each, column in zip(widest(columns, rows), columns, strict=True)
    ]
    widths = choose_columns(columns, room, PIPED)
    assert len(widths) == len(columns)
    spare = 120 - sum(widths.values()) - 2 * (len(widths) - 1)
    for at, column in enumerate(columns):
        asked = max(column.wish or 0, SHORTEST + 1, cell_len(column.name))
        assert widths[at] == room[at] or (column.wish is not None and min(room[at], asked) <= widths[at] and spare <= 0)
    assert list(choose_columns(columns, room, 2 * PIPED).values()) == room


@given(st.text("ab 漢é", max_size=60), st.integers(1, 40))
def test_a_text_is_cut_to_what_a_terminal_shows_of_it_not_to_a_number_of_characters(text: str, width: int):
    assert cell_len(cut_to(text, width)) <= width
    assert cut_to(text, width) == text or cut_to(text, width).endswith("…")


@given(tables(), st.integers(30, 200))
def test_a_table_that_must_not_be_cut_becomes_a_list_where_it_is_too_wide(
    table: tuple[list[Column], list[TableRow]], width: int
):
    columns, rows = table
    lines = [line.plain for line in table_or_list(columns, rows, width)]
    fits = sum(widest(columns, rows)) + 2 * (len(columns) - 1) <= width
    assert (lines == [line.plain for line in table_lines(columns, rows, width)]) or not fits
    words = " ".join(lines).split()
    assert all(word in words for row in rows for cell in row.cells for word in cell.split())
