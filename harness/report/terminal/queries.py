"""Many queries of a ranking: a row for each, in the order that was asked for."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.text import Text

from harness.core.errors import UsageError, did_you_mean, quoted
from harness.core.unicode import visible_name
from harness.report.summary.group import QueryLine
from harness.report.terminal.layout import line_of_text, on_one_line
from harness.report.terminal.table import Column, TableRow, table_lines
from harness.report.text import dollars, fixed, probability, seconds

_LISTED = 20
"""Queries that a table of many lists unless it is to list all."""
_NUMBER = re.compile(r"-?[0-9]{1,30}(\.[0-9]{1,30})?")
_KEYS: Mapping[str, Callable[[QueryLine], Any]] = {
    "number": lambda line: line.number,
    "id": lambda line: line.id,
    "winner": lambda line: (line.first_role, line.first) if line.first_role else None,
    "score": lambda line: line.score,
    "p_best": lambda line: line.p_best,
    "signal": lambda line: ("none", "weak", "ok").index(line.signal),
    "flips": lambda line: line.flips[0],
    "tokens": lambda line: line.tokens,
    "cost": lambda line: line.usd,
    "time": lambda line: line.seconds,
    "failed": lambda line: line.failed,
    "query": lambda line: line.title,
}
SORT_KEYS = tuple(_KEYS)
"""What a table of queries can be sorted by, beside the fields of the queries' metadata."""


@dataclass(frozen=True)
class QueryTable:
    """What a table of queries shows, and in which order."""

    sort: str = "number"
    """A key of `_KEYS`, or a field of the queries' metadata; with a `-` before it the greatest comes first."""
    all: bool = False
    """Whether all queries are listed, or the first ones only."""
    columns: tuple[str, ...] = ()
    """Fields of the queries' metadata, each a column."""


def query_lines(lines: Sequence[QueryLine], table: QueryTable, width: int) -> Iterator[Text]:
    """Yield a table with a row for each query. Raises UsageError for a key or a column that no query has."""
    fields = list(dict.fromkeys(name for line in lines for name in line.metadata))
    for name in table.columns:
        if name not in fields:
            raise _unknown(name, "--columns", fields)
    ordered = _sorted(lines, table.sort, fields)
    shown = [lines[at] for at in (ordered if table.all else ordered[:_LISTED])]
    names = {line.score_name for line in lines}
    columns = [
        Column("id", 1, wish=16),
        Column("winner", 2),
        Column(names.pop() if len(names) == 1 else "score", 3, right=True),
        Column("p(best)", 4, right=True),
        Column("signal", 5),
        Column("flips", 7, right=True),
        Column("tokens", 9, right=True),
        Column("cost", 8, right=True),
        Column("time", 10, right=True),
        *(Column(on_one_line(name), 4, wish=16) for name in table.columns),
        Column("query", 6, wish=16),
    ]
    yield from table_lines(columns, (_row(line, table.columns) for line in shown), width)
    if left_out := len(lines) - len(shown):
        yield line_of_text(f"and {left_out:,} more: `harness show --all`; --query ID shows one", wrap=True)


def _row(line: QueryLine, fields: Sequence[str]) -> TableRow:
    flipped, judged = line.flips
    cells = (
        visible_name(line.id),
        _winner(line),
        fixed(line.score) or "–",
        probability(line.p_best),
        line.signal if line.first else "–",
        f"{flipped:,} of {judged:,}" if judged else "–",
        "–" if line.tokens is None else f"{line.tokens:,}",
        dollars(line.usd),
        seconds(line.seconds),
        *(on_one_line(str(line.metadata.get(name, ""))) for name in fields),
        on_one_line(line.title),
    )
    return TableRow(cells)


def _winner(line: QueryLine) -> str:
    if line.first_role is None:
        return "–" if line.complete else "incomplete"
    if len(line.first) == 1:
        return f"{line.first_role} {line.first[0]}{', by a tie' if line.by_tie else ''}"
    return f"tie: {', '.join(map(str, line.first))}" if len(line.first) <= 3 else f"tie of {len(line.first)}"


def _sorted(lines: Sequence[QueryLine], key: str, fields: Sequence[str]) -> list[int]:
    """Return where the lines stand, in the order of a key; those without a value last, whichever way the others go."""
    name = key.removeprefix("-")
    if name in _KEYS:
        value_of = _KEYS[name]
    elif name in fields:
        value_of = _by_field(name)
    else:
        raise _unknown(name, "--sort", [*_KEYS, *fields])
    values = list(map(value_of, lines))
    valued = [at for at, value in enumerate(values) if value is not None]
    ordered = sorted(valued, key=values.__getitem__, reverse=key.startswith("-"))
    return ordered + [at for at, value in enumerate(values) if value is None]


def _by_field(name: str) -> Callable[[QueryLine], Any]:
    """Return what a field sorts by: numbers, those in texts too, before texts."""

    def value_of(line: QueryLine) -> tuple[bool, float, str] | None:
        value = line.metadata.get(name)
        if value is None:
            return None
        if not isinstance(value, str):
            return False, value, ""  # as it is: a whole number may be too large for a float
        return (False, float(value), "") if _NUMBER.fullmatch(value) else (True, 0.0, value)

    return value_of


def _unknown(name: str, option: str, names: Sequence[str]) -> UsageError:
    there_are = f"There are: {', '.join(names)}" if names else "The queries have no metadata"
    return UsageError(f"{option}: there is no {quoted(name)}{did_you_mean(name, names) or '.'} {there_are}")
