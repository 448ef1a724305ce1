"""Every rollout of a ranked group as a row of CSV, or a group as four tables of Parquet. Nothing is left out.

The four: rollouts, the steps of each, the matches between them, and the scores of each verdict. A table is its columns
by name, each with its type, and the rows of a group.
"""

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from harness.core.rankings import Ranked
from harness.core.records import Rollout, Step
from harness.core.unicode import valid_unicode
from harness.formats.training.candidates import RankedGroup

COLUMNS = (
    "run",
    "query_id",
    "query",
    "index",
    "role",
    "status",
    "failure",
    "rank",
    "reward",
    "advantage",
    "score",
    "margin",
    "uncertainty",
    "p_best",
    "verified",
    "signal",
    "judge",
    "flagged",
    "temperature",
    "models",
    "steps",
    "input_tokens",
    "output_tokens",
    "price_usd",
    "duration_s",
    "answer",
)
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""How a text begins that a spreadsheet would take for a formula."""


def heading() -> str:
    """Return the first line, with its line break."""
    return csv_line(COLUMNS)


def table_rows(group: RankedGroup) -> Iterator[tuple[str, int]]:
    """Yield the line of each rollout, with its line break, and the rollout's index."""
    places = {ranked.index: ranked for ranked in group.ranked.rollouts}
    for rollout in group.group.rollouts:
        cells = cells_of(group, rollout, places.get(rollout.index) or Ranked(index=rollout.index))
        yield csv_line(cells[column] for column in COLUMNS), rollout.index


def csv_line(cells: Iterable[Any]) -> str:
    """Return cells as a line of CSV; a text that a spreadsheet would take for a formula gets an apostrophe."""
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(_safe(cell) for cell in cells)
    return valid_unicode(line.getvalue())


def cells_of(group: RankedGroup, rollout: Rollout, place: Ranked) -> dict[str, Any]:
    """Return what is in each of the COLUMNS for a rollout, and more of its place."""
    query = group.group.query
    return place.model_dump() | {
        "run": group.run,
        "query_id": query.id,
        "query": query.text,
        "index": rollout.index,
        "role": rollout.role,
        "status": rollout.status,
        "failure": rollout.failure and rollout.failure.kind,
        "verified": rollout.verified,
        "signal": group.ranked.signal,
        "judge": group.judge,
        "flagged": int(rollout.index in group.flagged),
        "temperature": rollout.requested.temperature,
        "models": " ".join(rollout.effective.models),
        "steps": len(rollout.trajectory.path),
        "input_tokens": rollout.usage.input,
        "output_tokens": rollout.usage.output,
        "price_usd": rollout.price_usd,
        "duration_s": rollout.duration_s,
        "answer": rollout.trajectory.answer,
    }


def _safe(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell


ParquetRow = Mapping[str, Any]
_INTEGERS = {"index", "steps", "input_tokens", "output_tokens"}
_NUMBERS = set(
    "rank reward advantage score margin uncertainty p_best verified temperature price_usd duration_s".split()
)
_OF_A_GROUP: Mapping[str, str] = {"run": "string", "query_id": "string"}


def _rollout_type(column: str) -> str:
    if column in _INTEGERS:
        return "int64"
    return "bool" if column == "flagged" else "double" if column in _NUMBERS else "string"


PARQUET_TABLES: Mapping[str, Mapping[str, str]] = {
    "rollouts": {column: _rollout_type(column) for column in COLUMNS},
    "steps": {
        **_OF_A_GROUP,
        "index": "int64",
        "step": "int64",
        "within_step": "int64",
        "kind": "string",
        "agent": "string",
        "tool_name": "string",
        "tool_type": "string",
        "server": "string",
        "call_id": "string",
        "tool_input": "string",
        "tool_output": "string",
        "reasoning": "string",
        "error": "string",
        "duration_s": "double",
    },
    "matches": {
        **_OF_A_GROUP,
        "match": "int64",
        "round": "int64",
        "a": "int64",
        "b": "int64",
        "score_a": "double",
        "score_b": "double",
        "winner": "int64",
        "flipped": "bool",
        "inconsistent": "bool",
        "repeated": "bool",
        "cut": "bool",
    },
    "scores": {
        **_OF_A_GROUP,
        "match": "int64",
        "verdict": "string",
        "first": "int64",
        "second": "int64",
        "score_first": "double",
        "score_second": "double",
    },
}
"""The columns of each table, by the names of Arrow's types."""


def parquet_rows(group: RankedGroup) -> Iterator[tuple[str, ParquetRow]]:
    """Yield the rows of a group, each with the name of its table."""
    for table, rows_of in _ROWS_OF.items():
        for row in rows_of(group):
            named = {"run": group.run, "query_id": group.group.query.id} | dict(row)
            yield table, {key: valid_unicode(v) if isinstance(v, str) else v for key, v in named.items()}


def _rollouts(group: RankedGroup) -> Iterator[ParquetRow]:
    places = {ranked.index: ranked for ranked in group.ranked.rollouts}
    for rollout in group.group.rollouts:
        cells = cells_of(group, rollout, places.get(rollout.index) or Ranked(index=rollout.index))
        yield {column: cells[column] for column in COLUMNS} | {"flagged": bool(cells["flagged"])}


def _steps(group: RankedGroup) -> Iterator[ParquetRow]:
    columns = PARQUET_TABLES["steps"]
    for rollout in group.group.rollouts:
        for number, (step, within) in enumerate(_flat(rollout.trajectory.path), 1):
            fields = {name: getattr(step, name) for name in columns if name in Step.model_fields}
            yield fields | {"index": rollout.index, "step": number, "within_step": within}


def _flat(path: tuple[Step, ...]) -> list[tuple[Step, int | None]]:
    """Return all steps with the number of the step that each is within: those of an agent that was used as a tool."""
    steps: list[tuple[Step, int | None]] = []

    def add(of: tuple[Step, ...], within: int | None) -> None:
        for step in of:
            steps.append((step, within))
            add(step.inner, len(steps))

    add(path, None)
    return steps


def _matches(group: RankedGroup) -> Iterator[ParquetRow]:
    names = PARQUET_TABLES["matches"]
    for number, match in enumerate(group.ranked.matches, 1):
        yield {name: getattr(match, name) for name in names if name in type(match).model_fields} | {"match": number}


def _scores(group: RankedGroup) -> Iterator[ParquetRow]:
    for number, match in enumerate(group.ranked.matches, 1):
        for verdict, first, (ahead, behind) in zip(match.verdicts, match.shown_first, match.scores, strict=False):
            second = match.b if first == match.a else match.a
            sides = {"first": first, "second": second, "score_first": ahead, "score_second": behind}
            yield {"match": number, "verdict": verdict} | sides


_ROWS_OF: Mapping[str, Callable[[RankedGroup], Iterator[ParquetRow]]] = {
    "rollouts": _rollouts,
    "steps": _steps,
    "matches": _matches,
    "scores": _scores,
}
