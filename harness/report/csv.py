"""CSV for spreadsheets and data frames: every match of a comparison, every point of a curve."""

import json
from collections.abc import Iterable, Iterator

from harness.core.comparisons import ComparedQuery, Comparison
from harness.core.csv_line import csv_line
from harness.ranking.curve import frontier
from harness.report.summary.curve import JudgingCurve

_MATCH_COLUMNS = (
    "query first_side second_side first_query_id second_query_id role first second outcome winner score_first "
    "score_second margin flipped inconsistent forfeit first_failure second_failure first_answer_length "
    "second_answer_length orders verdicts text metadata first_recipe second_recipe"
).split()


def matches_csv(comparison: Comparison, queries: Iterable[ComparedQuery]) -> Iterator[str]:
    """Yield a heading, then a line for each match, each with its line break.

    `outcome` is what the second side got: 1, 0.5 or 0; empty while the match is open. `orders` holds, for each verdict,
    whose transcript stood first and both scores, as JSON. A text that a spreadsheet would take for a formula has an
    apostrophe before it.
    """
    labels = [side.label for side in comparison.sides]
    yield csv_line(_MATCH_COLUMNS)
    for query in queries:
        for match in query.matches:
            orders = [[shown, *scores] for shown, scores in zip(match.shown_first, match.scores, strict=True)]
            row = match.model_dump() | {
                "query": query.query,
                "outcome": match.outcome,
                "margin": None,
                "orders": json.dumps(orders),
                "verdicts": " ".join(match.verdicts),
                "text": query.text,
                "metadata": json.dumps(dict(query.metadata), ensure_ascii=False, sort_keys=True),
            }
            if match.score_first is not None and match.score_second is not None:
                row["margin"] = round(match.score_second - match.score_first, 6)  # decimals, without noise of floats
            for name, side, index in zip(("first", "second"), match.sides, (match.first, match.second), strict=True):
                rollout = next((r for r in query.rollouts[side] if r.index == index), None)
                row |= {f"{name}_side": labels[side], f"{name}_query_id": query.ids[side]}
                row |= {f"{name}_failure": rollout and rollout.failure}
                row |= {f"{name}_recipe": rollout and rollout.recipe}
                row |= {f"{name}_answer_length": rollout and rollout.answer_length}
            yield csv_line(row[column] for column in _MATCH_COLUMNS)  # not all members of a match are columns


_CURVE_COLUMNS = (
    "topology estimator order share_of_pairs calls tau tau_low tau_high keeps keeps_low keeps_high queries frontier "
    "truth"
).split()


def curve_csv(curve: JudgingCurve) -> str:
    """Return a heading and a line for each point, the fewest calls first; `frontier` is 1 where nothing is better."""
    best = {id(point) for point in frontier(curve.curve.points)}
    lines = [csv_line(_CURVE_COLUMNS)]
    for point in curve.curve.points:
        design, tau, keeps = point.design, point.tau, point.keeps
        share = None if design.share is None else float(design.share)
        of_design = [design.topology, point.estimator, design.order, share, point.calls]
        kept = [keeps.value, keeps.low, keeps.high] if keeps else [None] * 3
        last = [tau.queries, int(id(point) in best), curve.truth]
        lines.append(csv_line([*of_design, tau.value, tau.low, tau.high, *kept, *last]))
    return "".join(lines)
