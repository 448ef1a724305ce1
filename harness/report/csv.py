"""CSV for spreadsheets and data frames: every match of a comparison, every point of a curve."""

import csv
import io
import json
from collections.abc import Iterable, Iterator
from typing import Any

from harness.core.comparisons import ComparedQuery, Comparison, CrossMatch
from harness.core.unicode import valid_unicode
from harness.ranking.curve import frontier
from harness.ranking.query_figures import QueryFigure
from harness.report.summary.curve import JudgingCurve

_MATCH_COLUMNS = (
    "query",
    "first_side",
    "second_side",
    "first_query_id",
    "second_query_id",
    "role",
    "first",
    "second",
    "outcome",
    "winner",
    "score_first",
    "score_second",
    "margin",
    "flipped",
    "inconsistent",
    "forfeit",
    "first_failure",
    "second_failure",
    "first_answer_length",
    "second_answer_length",
    "orders",
    "verdicts",
    "text",
    "metadata",
)
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""How a text begins that a spreadsheet would take for a formula."""


def matches_csv(comparison: Comparison, queries: Iterable[ComparedQuery]) -> Iterator[str]:
    """Yield a heading, then a line for each match, each with its line break.

    `outcome` is what the second side got: 1, 0.5 or 0; empty while the match is open. `orders` holds, for each verdict,
    whose transcript stood first and both scores, as JSON. A text that a spreadsheet would take for a formula has an
    apostrophe before it.
    """
    labels = [side.label for side in comparison.sides]
    yield _line(_MATCH_COLUMNS)
    for query in queries:
        for match in query.matches:
            yield _line(_cells(query, match, labels))


def _cells(query: ComparedQuery, match: CrossMatch, labels: list[str]) -> Iterator[Any]:
    first_side, second_side = match.sides
    row = (
        {
            "query": query.query,
            "first_side": labels[first_side],
            "second_side": labels[second_side],
            "first_query_id": query.ids[first_side],
            "second_query_id": query.ids[second_side],
            "outcome": match.outcome,
            "margin": _margin(match),
            "orders": json.dumps(
                [[shown, *scores] for shown, scores in zip(match.shown_first, match.scores, strict=True)]
            ),
            "verdicts": " ".join(match.verdicts),
            "text": query.text,
            "metadata": json.dumps(dict(query.metadata), ensure_ascii=False, sort_keys=True),
        }
        | match.model_dump(include={"role", "first", "second", "winner", "score_first", "score_second"})
        | match.model_dump(include={"flipped", "inconsistent", "forfeit"})
        | _rollout(query, first_side, match.first, "first")
        | _rollout(query, second_side, match.second, "second")
    )
    return (row[column] for column in _MATCH_COLUMNS)


def _rollout(query: ComparedQuery, side: int, index: int, name: str) -> dict[str, Any]:
    rollout = next((r for r in query.rollouts[side] if r.index == index), None)
    return {
        f"{name}_failure": rollout.failure if rollout else None,
        f"{name}_answer_length": rollout.answer_length if rollout else None,
    }


def _margin(match: CrossMatch) -> float | None:
    if match.score_first is None or match.score_second is None:
        return None
    return round(match.score_second - match.score_first, 6)  # decimals of scores, without the noise of floats


def _line(cells: Iterable[Any]) -> str:
    """Return a line of CSV; texts are guarded, numbers are not, so that a negative one stays a number."""
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(
        [
            valid_unicode(f"'{cell}" if cell.startswith(_FORMULA) else cell) if isinstance(cell, str) else cell
            for cell in cells
        ]
    )
    return line.getvalue()


_CURVE_COLUMNS = (
    "topology estimator order share_of_pairs calls tau tau_low tau_high keeps keeps_low keeps_high queries frontier "
    "truth"
).split()


def curve_csv(curve: JudgingCurve) -> str:
    """Return a heading and a line for each point, the fewest calls first; `frontier` is 1 where nothing is better."""
    best = {id(point) for point in frontier(curve.curve.points)}
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(_CURVE_COLUMNS)
    for point in curve.curve.points:
        design = point.design
        share = None if design.share is None else float(design.share)
        tau, keeps = _interval_cells(point.tau), _interval_cells(point.keeps)
        of_design = [design.topology, point.estimator, design.order, share, point.calls]
        lines.writerow([*of_design, *tau, *keeps, point.tau.queries, int(id(point) in best), curve.truth])
    return text.getvalue()


def _interval_cells(figure: QueryFigure | None) -> list[Any]:
    return [figure.value, figure.low, figure.high] if figure else [None] * 3
