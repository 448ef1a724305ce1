"""The win rate among queries that share a property: a key of the metadata, tools used, length of the answers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from harness.comparison.clusters import Clusters, mean_by_query
from harness.comparison.holm import holm
from harness.comparison.intervals import interval_of_share, sign_flip_p
from harness.comparison.outcomes import outcomes, pairs_of
from harness.core.comparisons import FEWEST_SHOWING, ComparedQuery, ComparedRollout, Slice

_MOST_VALUES = 12
"""A key with more values names queries rather than sorts of queries."""
_THIRDS = ("short", "middle", "long")


@dataclass(frozen=True)
class _Sliced:
    key: str
    value: str
    queries: tuple[str, ...]


def slices(
    queries: Sequence[ComparedQuery],
    sides: tuple[int, int],
    keys: Sequence[str] | None,
    seed: int,
    clusters: Mapping[str, str] | None = None,
) -> tuple[Slice, ...]:
    """Return the slices of two sides' queries: by `keys` of the metadata, by use of tools, by thirds of answer length.

    `keys` None: each key with two to twelve values. A slice of fewer than six clusters has no win rate. The p are
    corrected by Holm over all slices.
    """
    means = mean_by_query(outcomes(pairs_of(queries, sides)))
    judged = [query for query in queries if query.query in means]
    figures = [
        (sliced, Clusters.of({query: means[query] for query in sliced.queries}, clusters))
        for sliced in _cut(judged, sides, keys)
    ]
    enough = [summed.count >= FEWEST_SHOWING for _, summed in figures]
    corrected = iter(holm([sign_flip_p(s, 0.5, seed) for (_, s), told in zip(figures, enough, strict=True) if told]))
    return tuple(
        Slice(
            key=sliced.key,
            value=sliced.value,
            queries=summed.queries,
            win_rate=interval_of_share(summed, seed) if told else None,
            p=next(corrected) if told else None,
        )
        for (sliced, summed), told in zip(figures, enough, strict=True)
    )


def _cut(queries: Sequence[ComparedQuery], sides: tuple[int, int], keys: Sequence[str] | None) -> list[_Sliced]:
    names = sorted({key for query in queries for key in query.metadata}) if keys is None else keys
    most = _MOST_VALUES if keys is None else len(queries)
    cuts = [_by(queries, key, lambda query, key=key: _word(query.metadata.get(key)), most) for key in names]
    lengths = _thirds(queries, sides)
    cuts.append(_by(queries, "uses tools", lambda query: _uses_tools(query, sides), 2))
    cuts.append(_by(queries, "answer length", lambda query: lengths.get(query.query), 3, order=_THIRDS))
    return [sliced for cut in cuts for sliced in cut]


def _by(
    queries: Sequence[ComparedQuery],
    key: str,
    value_of: Callable[[ComparedQuery], str | None],
    most: int,
    order: Sequence[str] | None = None,
) -> list[_Sliced]:
    """Cut by a value; nothing where there are too few values to tell apart, or too many."""
    members: dict[str, list[str]] = {}
    for query in queries:
        if (value := value_of(query)) is not None:
            members.setdefault(value, []).append(query.query)
    if not 2 <= len(members) <= most:
        return []
    return [_Sliced(key, value, tuple(members[value])) for value in order or sorted(members) if value in members]


def _word(value: JsonValue) -> str | None:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value) if isinstance(value, str | int | float) else None


def _rollouts(query: ComparedQuery, sides: tuple[int, int]) -> list[ComparedRollout]:
    return [rollout for side in sides for rollout in query.rollouts[side]]


def _uses_tools(query: ComparedQuery, sides: tuple[int, int]) -> str:
    return "yes" if any(rollout.tools for rollout in _rollouts(query, sides)) else "no"


def _thirds(queries: Sequence[ComparedQuery], sides: tuple[int, int]) -> dict[str, str]:
    """Name the third that each query falls in by the mean length of both sides' answers."""
    lengths = mean_by_query(
        {
            query.query: [float(r.answer_length) for r in _rollouts(query, sides) if r.answer_length is not None]
            for query in queries
        }
    )
    ordered = sorted(lengths, key=lambda query: (lengths[query], query))
    return {query: _THIRDS[3 * place // len(ordered)] for place, query in enumerate(ordered)}
