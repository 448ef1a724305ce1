"""Every rollout of a ranked group as a row, for spreadsheets and data frames. Nothing is left out."""

import csv
import io
from collections.abc import Iterable, Iterator
from typing import Any

from harness.core.rankings import Ranked
from harness.core.records import Rollout
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
