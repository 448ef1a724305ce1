"""A comparison: its sentence, the figures of the sides, and the queries that the second side lost."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from textwrap import wrap

from rich.cells import cell_len
from rich.text import Text

from harness.core.comparisons import ComparedQuery, Comparison, SideResult, Slice
from harness.core.errors import call, counted
from harness.core.unicode import visible_name
from harness.report.summary.comparison import (
    chance_words,
    losses,
    pairing_cells,
    rate,
    result_figures,
    sides_rows,
    strength_rows,
)
from harness.report.terminal.table import Column, columns_that_fit, line_of_text, on_one_line, table_lines, visible_text
from harness.report.text import count

_LOSSES, _LOSSES_OF_MANY = 10, 3
"""Of two sides, and of each two among more."""
_SLICES = 10
_MEANING = 24
"""Characters a line that the meaning of a figure needs beside the figure; else it stands below."""

_SIDES = (
    Column("", 1),
    Column("agent", 3, wish=12),
    Column("model", 4, wish=12),
    Column("instructions", 5, wish=12),
    Column("run", 2, wish=34),
    Column("", 6),
    Column("only here", 7, right=True),
)
_LOST = (
    Column("query", 1, wish=24),
    Column("won", 2, right=True),
    Column("margin", 3, right=True),
    Column("text", 4, wish=30),
)
_PAIRINGS = tuple(
    Column(name, at, right=at > 1)
    for at, name in enumerate(("", "win rate", "better", "worse", "tied", "p by Holm", "queries"), 1)
)
_STRENGTHS = (
    Column("", 1),
    Column("strength", 2, right=True),
    Column("beaten by", 3),
)
_SLICE = (
    Column("slice", 1, wish=30),
    Column("queries", 3, right=True),
    Column("win rate", 2, right=True),
    Column("p by Holm", 4, right=True),
)


def comparison_lines(comparison: Comparison, queries: Iterable[ComparedQuery], width: int) -> Iterator[Text]:
    """Yield what a comparison prints on stdout, `width` characters wide: the sentence first."""
    if comparison.sentence:
        yield visible_text(comparison.sentence, style="bold")
    if comparison.status == "incomplete":
        again = call("resume", comparison.path)
        yield visible_text(f"incomplete: some pairs are not judged yet; {again} judges them", style="bold")
    rows: list[list[str]] = []
    for s in comparison.sides:
        last = ("offline" if s.offline else "", count(s.only_here) if s.only_here else "")
        cells = (s.label, s.agent, ", ".join(s.models), s.instructions_file or "", s.run, *last)
        rows.append(list(map(on_one_line, cells)))
    filled = [at for at in range(len(_SIDES)) if any(row[at] for row in rows)]
    yield line_of_text("")
    yield from table_lines([_SIDES[at] for at in filled], ([row[at] for at in filled] for row in rows), width)
    yield from _result(comparison.results[0], width) if len(comparison.results) == 1 else _results(comparison, width)
    labels = ("", *(side.label for side in comparison.figures))
    figures = [labels, *((row.label, *row.values) for row in sides_rows(comparison.figures))]
    for together in columns_that_fit(figures, width) if len(figures) > 1 else ():  # below each other without room
        yield line_of_text("")
        head, *below = [[row[at] for at in (0, *together)] for row in figures]
        yield from table_lines([Column(name, at) for at, name in enumerate(head, 1)], below, width)
    yield from _slices(comparison.slices, width)
    met = list(queries)
    yield from chain.from_iterable(_lost(comparison, result, met, width) for result in comparison.results)
    if comparison.notes:
        yield line_of_text("")
    yield from (visible_text(f"note: {note}") for note in comparison.notes)


def _heading(text: str) -> Iterator[Text]:
    yield line_of_text("")
    yield line_of_text(text, "bold")


def _result(result: SideResult, width: int) -> Iterator[Text]:
    first, second = result.sides
    yield from _heading(f"{second} against {first}")
    figures = list(result_figures(result))
    if not figures:
        yield line_of_text("nothing was judged")
        return
    label = max(cell_len(f.label) for f in figures) + 2
    start = label + max(cell_len(f.value) for f in figures) + 2
    for f in figures:
        head = f"{f.label:{label}}{f.value}"
        if width - start < _MEANING:
            yield line_of_text(head)
            yield from (line_of_text(f"  {line}", "dim") for line in wrap(f.meaning, max(_MEANING, width - 2)))
            continue
        first_line, *others = wrap(f.meaning, width - start)
        yield visible_text(f"{head:{start}}", (first_line, "dim"))
        yield from (line_of_text(" " * start + line, "dim") for line in others)


def _results(comparison: Comparison, width: int) -> Iterator[Text]:
    """Yield a line for each two sides, and the strengths of all."""
    yield from _heading(f"each two of {len(comparison.sides)} sides")
    cells = ((f"{r.sides[1]} against {r.sides[0]}", *pairing_cells(r), count(r.queries)) for r in comparison.results)
    yield from table_lines(_PAIRINGS, cells, width)
    if comparison.strengths:
        yield from _heading("strength by Bradley and Terry: log odds of a win, 0 on average")
        rows = [(row.label, row.values[0], ", ".join(row.beaten_by)) for row in strength_rows(comparison)]
        yield from table_lines(_STRENGTHS, rows, width)
        yield visible_text("beaten by: who is shown to win, costs no more and is no slower", style="dim")


def _slices(slices: Sequence[Slice], width: int) -> Iterator[Text]:
    """Yield the slices that most surely differ from one half."""
    large = sorted((s for s in slices if s.win_rate), key=lambda s: 1.0 if s.p is None else s.p)
    if not large:
        return
    yield line_of_text("")
    rows: list[tuple[str, ...]] = []
    for part in large[:_SLICES]:
        chance = "" if part.p is None else chance_words(part.p)
        won = rate(part.win_rate) if part.win_rate else ""
        rows.append((on_one_line(f"{part.key}: {part.value}"), count(part.queries), won, chance))
    yield from table_lines(_SLICE, rows, width)
    if len(large) > _SLICES:
        yield visible_text(f"{counted(len(large) - _SLICES, 'more slice')} on the page", style="dim")


def _lost(comparison: Comparison, result: SideResult, queries: Sequence[ComparedQuery], width: int) -> Iterator[Text]:
    first, second = result.sides
    lost = losses(comparison, result, queries)
    if not lost:
        return
    several = len(comparison.results) > 1
    most, versus = (_LOSSES_OF_MANY, f" to {first}") if several else (_LOSSES, "")
    of = counted(result.queries, "query", "queries")
    yield from _heading(f"{second} lost {len(lost):,} of {of}{versus}, worst first")
    cells = ((visible_name(m.name), m.won, m.margin_words, on_one_line(m.query.text)) for m in lost[:most])
    yield from table_lines(_LOST, cells, width)
    if len(lost) > most:
        yield visible_text(f"{len(lost) - most:,} more on the page", style="dim")
