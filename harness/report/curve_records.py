"""A curve for machines: as CSV, a line for each topology, order and estimator, and as JSON."""

import csv
import io
from typing import Any

from harness.ranking.curve import CurvePoint, frontier
from harness.ranking.query_figures import QueryFigure
from harness.report.summary.curve import JudgingCurve
from harness.report.summary.curve_words import MEASURE, curve_notes, curve_sentence, truth_words
from harness.report.summary.figure_record import figure_record

_COLUMNS = (
    "topology estimator order share_of_pairs calls tau tau_low tau_high keeps keeps_low keeps_high queries frontier "
    "truth"
).split()


def curve_csv(curve: JudgingCurve) -> str:
    """Return a heading and a line for each point, the fewest calls first; `frontier` is 1 where nothing is better."""
    best = {id(point) for point in frontier(curve.curve.points)}
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(_COLUMNS)
    for point in curve.curve.points:
        design = point.design
        share = None if design.share is None else float(design.share)
        tau, keeps = _cells(point.tau), _cells(point.keeps)
        of_design = [design.topology, point.estimator, design.order, share, point.calls]
        lines.writerow([*of_design, *tau, *keeps, point.tau.queries, int(id(point) in best), curve.truth])
    return text.getvalue()


def _cells(figure: QueryFigure | None) -> list[Any]:
    return [figure.value, figure.low, figure.high] if figure else [None] * 3


def curve_json(curve: JudgingCurve) -> dict[str, Any]:
    """Return a curve of accuracy against judge calls, with every point."""
    points = curve.curve
    return {
        "ranking": curve.ranking,
        "truth": curve.truth,
        "against": curve.against,
        "truth_words": truth_words(curve),
        "measure": MEASURE,
        "offline": curve.offline,
        "queries": curve.queries,
        "left_out": curve.left_out,
        "without_truth": curve.silent,
        "plays": points.plays,
        "seed": curve.seed,
        "points": [_point(point) for point in points.points],
        "reference": _point(points.reference),
        "chosen": points.chosen and _point(points.chosen),
        "notes": list(curve_notes(curve)),
        "sentence": curve_sentence(curve),
    }


def _point(point: CurvePoint) -> dict[str, Any]:
    share = point.design.share
    return {
        "topology": point.design.topology,
        "estimator": point.estimator,
        "order": point.design.order,
        "share_of_pairs": None if share is None else float(share),
        "calls": point.calls,
        "tau": figure_record(point.tau),
        "keeps": figure_record(point.keeps),
    }
