"""A run as flat rows for pandas, polars or csv: a dict a rollout, all with the same keys."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from harness.core.rankings import GroupRanking, Ranked
from harness.core.records import Group, Query, Rollout

_PLACE = ("rank", "reward", "advantage", "score", "margin", "uncertainty", "p_best", "p_above_mean", "verified")
_PLAIN = (str, int, float, bool)

Cells = dict[str, Any]


def frame_of(groups: Iterable[tuple[Group, GroupRanking | None]], run: str) -> list[Cells]:
    """Return a row a rollout, in the order of queries and indices; what is not known is None."""
    rows = [
        {"run": run} | _query_row(group.query) | _rollout_row(rollout) | _place_row(rollout, ranking)
        for group, ranking in groups
        for rollout in group.rollouts
    ]
    columns = dict.fromkeys(name for row in rows for name in row)
    texts = {name for name in columns if len({_kind(row.get(name)) for row in rows} - {type(None)}) > 1}
    return [{name: _cell(row.get(name), as_text=name in texts) for name in columns} for row in rows]


def _query_row(query: Query) -> Cells:
    row: Cells = {"query_id": query.id, "query": query.text, "reference": query.reference}
    return row | _columns("metadata", query.metadata)


def _rollout_row(rollout: Rollout) -> Cells:
    return {
        "index": rollout.index,
        "role": rollout.role,
        "temperature": rollout.requested.temperature,
        "model": ", ".join(rollout.effective.models) or None,
        "status": rollout.status,
        "failure": rollout.failure.kind if rollout.failure else None,
        "capture": rollout.capture,
        "answer": rollout.trajectory.answer,
        "steps": len(rollout.trajectory.path),
        "input_tokens": rollout.usage.input,
        "cached_tokens": rollout.usage.cached,
        "output_tokens": rollout.usage.output,
        "price_usd": rollout.price_usd,
        "duration_s": rollout.duration_s,
        "retries": rollout.retries,
        "started_at": rollout.started_at.isoformat(),
        "origin_id": rollout.origin_id,
        "given_reward": rollout.given_reward,
    } | _columns("rollout_metadata", rollout.metadata)


def _place_row(rollout: Rollout, ranking: GroupRanking | None) -> Cells:
    places = {place.index: place for place in ranking.rollouts} if ranking else {}
    place = places.get(rollout.index) or Ranked(index=rollout.index)
    row: Cells = {name: getattr(place, name) for name in _PLACE}
    return row | {"signal": ranking.signal if ranking else None, "explanation": place.explanation}


def _columns(prefix: str, members: Mapping[str, Any]) -> Cells:
    return {f"{prefix}.{name}": value for name, value in members.items()}


def _kind(value: Any) -> type:
    """Return what a column of a data frame would be for the value; whole numbers and others share a column."""
    for kind in (type(None), str, bool):
        if isinstance(value, kind):
            return kind
    return float if isinstance(value, int | float) else str


def _cell(value: Any, *, as_text: bool) -> Any:
    """Return a value as data frames take it: JSON text for what is nested, or stands beside another kind of value."""
    if value is None or (isinstance(value, _PLAIN) and not as_text):
        return value
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
