"""Every rollout of a ranked group as a row of CSV, or a group as four tables of Parquet. Nothing is left out.

The four: rollouts, the steps of each, the matches between them, and the scores of each verdict. A table is its columns
by name, each with its type, and the rows of a group.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from harness.core.rankings import Ranked
from harness.core.records import Step
from harness.core.unicode import valid_unicode
from harness.formats.training.candidates import RankedGroup

COLUMNS = tuple(
    "run query_id query index role status failure rank reward advantage score margin uncertainty p_best verified "
    "signal judge flagged temperature models steps input_tokens output_tokens price_usd duration_s answer".split()
)
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""How a text begins that a spreadsheet would take for a formula."""


def table_rows(group: RankedGroup) -> Iterator[tuple[str, int]]:
    """Yield the line of each rollout, with its line break, and the rollout's index."""
    for cells in rollout_cells(group):
        yield csv_line(cells[column] for column in COLUMNS), cells["index"]


def csv_line(cells: Iterable[Any]) -> str:
    """Return cells as a line of CSV; a text that a spreadsheet would take for a formula gets an apostrophe."""
    line = io.StringIO()
    safe = (f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell for cell in cells)
    csv.writer(line, lineterminator="\n").writerow(safe)
    return valid_unicode(line.getvalue())


def rollout_cells(group: RankedGroup) -> Iterator[dict[str, Any]]:
    """Yield what is in each of the COLUMNS for each rollout, and more of its place."""
    query, places = group.group.query, {ranked.index: ranked for ranked in group.ranked.rollouts}
    for rollout in group.group.rollouts:
        place = places.get(rollout.index) or Ranked(index=rollout.index)
        yield place.model_dump() | {
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


def _typed(**columns: str) -> dict[str, str]:
    """Return the names of columns, each with its type; `columns` has names by type."""
    return {name: kind for kind, names in columns.items() for name in names.split()}


_NUMBERS = "rank reward advantage score margin uncertainty p_best verified temperature price_usd duration_s"
_OF_A_GROUP: Mapping[str, str] = {"run": "string", "query_id": "string"}
PARQUET_TABLES: Mapping[str, Mapping[str, str]] = {
    "rollouts": dict.fromkeys(COLUMNS, "string")
    | _typed(int64="index steps input_tokens output_tokens", bool="flagged", double=_NUMBERS),
    "steps": _OF_A_GROUP
    | _typed(
        int64="index step within_step",
        string="kind agent tool_name tool_type server call_id tool_input tool_output reasoning error",
        double="duration_s",
    ),
    "matches": _OF_A_GROUP
    | _typed(int64="match round a b", double="score_a score_b")
    | _typed(int64="winner", bool="flipped inconsistent repeated cut"),
    "scores": _OF_A_GROUP
    | _typed(int64="match", string="verdict")
    | _typed(int64="first second", double="score_first score_second"),
}
"""The columns of each table, by the names of Arrow's types."""


def parquet_rows(group: RankedGroup) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the rows of a group, each with the name of its table."""
    of_group = {"run": group.run, "query_id": group.group.query.id}
    for table, row in _rows(group):
        named = of_group | row
        yield table, {key: valid_unicode(v) if isinstance(v, str) else v for key, v in named.items()}


def _rows(group: RankedGroup) -> Iterator[tuple[str, dict[str, Any]]]:
    for cells in rollout_cells(group):
        yield "rollouts", {column: cells[column] for column in COLUMNS} | {"flagged": bool(cells["flagged"])}
    columns = [name for name in PARQUET_TABLES["steps"] if name in Step.model_fields]
    for rollout in group.group.rollouts:
        steps: list[tuple[Step, int | None]] = []
        _flat(rollout.trajectory.path, None, steps)
        for number, (step, within) in enumerate(steps, 1):
            fields = {name: getattr(step, name) for name in columns}
            yield "steps", fields | {"index": rollout.index, "step": number, "within_step": within}
    for number, match in enumerate(group.ranked.matches, 1):
        names = (name for name in PARQUET_TABLES["matches"] if name in type(match).model_fields)
        yield "matches", {name: getattr(match, name) for name in names} | {"match": number}
        for verdict, first, (ahead, behind) in zip(match.verdicts, match.shown_first, match.scores, strict=False):
            second = match.b if first == match.a else match.a
            sides = {"first": first, "second": second, "score_first": ahead, "score_second": behind}
            yield "scores", {"match": number, "verdict": verdict} | sides


def _flat(path: Iterable[Step], within: int | None, steps: list[tuple[Step, int | None]]) -> None:
    """Add all steps with the number of the step that each is within: those of an agent that was used as a tool."""
    for step in path:
        steps.append((step, within))
        _flat(step.inner, len(steps), steps)
