"""The comparison of two sides by scores of one's own: no run, no judge."""

import math
from collections.abc import Iterable, Mapping
from functools import partial
from numbers import Integral
from typing import Any

from harness.comparison.outcomes import Pair
from harness.comparison.side_results import summarize_pairs
from harness.core.comparisons import SideResult
from harness.core.errors import UsageError, did_you_mean, quoted
from harness.core.python_door import of_kind, plain_door

_PAIRS = "give {query: [(score of A, score of B), ...]}"
_WHOLE = of_kind(Integral, instead="give a whole number from 0")


def _seed(value: Any) -> str | None:
    return _WHOLE(value) or ("give a whole number from 0" if value < 0 else None)


_RULES = {
    "pairs": of_kind(Mapping, instead=_PAIRS),
    "clusters": of_kind(Mapping, instead="give {query: cluster}", optional=True),
    "seed": _seed,
}


@partial(plain_door, rules=_RULES)
def compare_scores(
    pairs: Mapping[str, Iterable[tuple[float, float]]], clusters: Mapping[str, str] | None = None, seed: int = 0
) -> SideResult:
    """Compare two sides, A and B, by scores that pairs of their answers were given. Every figure speaks of B.

    `pairs` holds for each query its pairs (score of A, score of B), of any scale: the higher score wins a pair, equal
    ones tie. `clusters` names for a query the cluster of alike queries that it belongs to; a query that is not named is
    a cluster of its own. `seed` is of the 10,000 draws. Raises UsageError without a pair, for a score that is no
    finite number, for two queries of one text (1 and "1"), or for a cluster of a query that `pairs` does not hold.
    """
    texts = _texts("pairs", pairs)
    scored = {text: _scored(query, pairs[query]) for text, query in texts.items()}
    if not any(scored.values()):
        raise UsageError(f"no pair of scores: {_PAIRS}")
    clustered = _texts("clusters", clusters or {})
    for unknown in (text for text in clustered if text not in texts):
        raise UsageError(f"clusters: `pairs` has no query {quoted(unknown)}{did_you_mean(unknown, texts)}")
    named = {text: str((clusters or {})[query]) for text, query in clustered.items()}
    return summarize_pairs(scored, ("A", "B"), clusters=named, floor=None, seed=int(seed))


def _texts(argument: str, by_query: Mapping[Any, Any]) -> dict[str, Any]:
    texts: dict[str, Any] = {}
    for query in by_query:
        if str(query) in texts:
            raise UsageError(
                f"{argument}: {quoted(texts[str(query)])} and {quoted(query)} are one query: name them apart"
            )
        texts[str(query)] = query
    return texts


def _scored(query: object, pairs: Any) -> list[Pair]:
    try:
        listed = list(pairs)
    except TypeError:
        raise UsageError(f"query {quoted(query)}: {quoted(pairs)} is not a list of pairs of scores") from None
    scored: list[Pair] = []
    for pair in listed:
        try:
            first, second = (float(score) for score in pair)
        except (TypeError, ValueError, OverflowError):
            raise UsageError(f"query {quoted(query)}: {quoted(pair)} is not a pair of scores") from None
        if not (math.isfinite(first) and math.isfinite(second) and math.isfinite(second - first)):
            raise UsageError(f"query {quoted(query)}: {quoted(pair)} has a score that is not a finite number")
        scored.append(Pair(outcome=0.5 if first == second else float(second > first), margin=second - first))
    return scored
