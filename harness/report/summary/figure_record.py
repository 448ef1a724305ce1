"""A figure over queries, for machines."""

from typing import Any

from harness.ranking.query_figures import QueryFigure


def figure_record(figure: QueryFigure | None) -> dict[str, Any] | None:
    """Return a figure over queries; None where nothing is known. One query has no interval: null."""
    if figure is None:
        return None
    return {"value": figure.value, "low": figure.low, "high": figure.high, "queries": figure.queries}
