"""The comparison of two sides, by their pairs or by scores of one's own, in all and in slices of the queries."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from numbers import Integral
from typing import Any

import numpy as np
from pydantic import JsonValue

from harness.comparison import intervals, outcomes
from harness.comparison.rectified import peoples_rate
from harness.core.comparisons import FEWEST_SHOWING, ComparedQuery, Interval, SideResult, Slice, leaves_out_half
from harness.core.errors import UsageError, did_you_mean, quoted
from harness.core.python_door import of_kind, plain_door

_MOST_VALUES = 12
"""A key with more values names queries rather than sorts of queries."""
_THIRDS = ("short", "middle", "long")


def slices(queries: Sequence[ComparedQuery], seed: int, clusters: Mapping[str, str] | None = None) -> tuple[Slice, ...]:
    """Return the slices of two sides' queries: by metadata, by use of tools, by thirds of answer length.

    A key of the metadata needs two to twelve values. A slice of fewer than six clusters has no win rate. The p are
    corrected by Holm over all slices.
    """
    means = outcomes.mean_by_query(outcomes.of_pairs(outcomes.side_pairs(queries, (0, 1))))
    judged = [query for query in queries if query.query in means]
    cut = [
        (key, value, outcomes.Clusters.of({query: means[query] for query in members}, clusters))
        for key, value, members in _cut(judged)
    ]
    enough = [summed for _, _, summed in cut if summed.count >= FEWEST_SHOWING]
    corrected = iter(intervals.holm([intervals.sign_flip_p(summed, seed) for summed in enough]))
    return tuple(
        Slice(
            key=key,
            value=value,
            queries=summed.queries,
            win_rate=intervals.interval_of_share(summed, seed) if summed.count >= FEWEST_SHOWING else None,
            p=next(corrected) if summed.count >= FEWEST_SHOWING else None,
        )
        for key, value, summed in cut
    )


def _cut(queries: Sequence[ComparedQuery]) -> Iterator[tuple[str, str, list[str]]]:
    """Yield key, value and queries of each slice."""
    for key in sorted({key for query in queries for key in query.metadata}):
        values = {query.query: _word(query.metadata.get(key)) for query in queries}
        yield from _by(key, values, _MOST_VALUES)
    rollouts = {query.query: [*chain.from_iterable(query.rollouts)] for query in queries}
    yield from _by("uses tools", {q: "yes" if any(r.tools for r in rs) else "no" for q, rs in rollouts.items()}, 2)
    answers = {q: [r.answer_length for r in rs if r.answer_length is not None] for q, rs in rollouts.items()}
    lengths = outcomes.mean_by_query(answers)
    ordered = sorted(lengths, key=lambda query: (lengths[query], query))
    thirds = {query: _THIRDS[3 * place // len(ordered)] for place, query in enumerate(ordered)}
    yield from _by("answer length", thirds, 3, _THIRDS)


def _by(
    key: str, values: Mapping[str, str | None], most: int, order: Sequence[str] = ()
) -> Iterator[tuple[str, str, list[str]]]:
    """Cut by a value of each query; nothing where there are too few values to tell apart, or too many."""
    members: dict[str, list[str]] = {}
    for query, value in values.items():
        if value is not None:
            members.setdefault(value, []).append(query)
    if 2 <= len(members) <= most:
        yield from ((key, value, members[value]) for value in order or sorted(members) if value in members)


def _word(value: JsonValue) -> str | None:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value) if isinstance(value, str | int | float) else None


_LEAST_SPREAD = 1e-6
_STEPS, _NEAR_ENOUGH, _SINGULAR = 100, 1e-12, 1e14
_GREATEST_LOGIT = 10.0
"""Beyond it the fit runs away: the lengths tell the winners apart without a fault."""


def length_controlled(pairs: outcomes.Pairs, clusters: Mapping[str, str] | None) -> Interval | None:
    """Fit the outcomes by the difference in length, and return the win rate where the difference is 0.

    A logistic regression of the judged pairs on (length of the second answer - of the first) / (their sum), a tie half
    a win, with an interval by cluster (sandwich, t). None where it cannot be fitted: fewer than six clusters, the same
    difference in all pairs, or lengths that tell the winners apart without a fault.
    """
    rows = [
        (pair.outcome, (second - first) / max(1, first + second), outcomes.cluster_name(query, clusters))
        for query, listed in sorted(pairs.items())
        for pair in listed
        for first, second in [pair.lengths]
        if pair.outcome is not None and not pair.forfeit and first is not None and second is not None
    ]
    numbers = {cluster: number for number, cluster in enumerate(sorted({row[2] for row in rows}))}
    if len(numbers) < FEWEST_SHOWING:
        return None
    won, difference = (np.array([row[i] for row in rows], np.float64) for i in range(2))
    if difference.std() < _LEAST_SPREAD or won.std() < _LEAST_SPREAD:
        return None
    columns = np.column_stack([np.ones_like(difference), difference / difference.std()])
    fit = _logistic_fit(won, columns, [numbers[row[2]] for row in rows])
    if fit is None or np.abs(fit[0]).max() > _GREATEST_LOGIT:
        return None
    sizes = outcomes.Clusters.of(
        {query: 1.0 for query in pairs if outcomes.cluster_name(query, clusters) in numbers}, clusters
    )
    logit, half = float(fit[0][0]), intervals.t_quantile(sizes.fewest) * float(fit[1][0])
    value, low, high = ((1 + math.tanh(end / 2)) / 2 for end in (logit, logit - half, logit + half))
    return Interval(value=value, low=low, high=high)


def _logistic_fit(
    won: outcomes.Numbers, columns: outcomes.Numbers, clusters: list[int]
) -> tuple[outcomes.Numbers, outcomes.Numbers] | None:
    """Return the coefficients [K] of a logistic regression and their standard errors by cluster [K].

    By iteratively reweighted least squares, with the sandwich of the clusters' scores and its correction for few
    clusters. None where no fit is reached: the coefficients grow without end, or are not told apart.
    """
    chance = (won + 0.5) / 2
    at, predictor = np.zeros(columns.shape[1]), np.log(chance / (1 - chance))
    for _ in range(_STEPS):
        weights = chance * (1 - chance)
        information = columns.T @ (weights[:, None] * columns)
        if not np.linalg.cond(information) < _SINGULAR:
            return None
        before, at = at, np.linalg.solve(information, columns.T @ (weights * predictor + won - chance))
        predictor = columns @ at
        chance = (1 + np.tanh(predictor / 2)) / 2
        if np.abs(at - before).max() < _NEAR_ENOUGH:
            break
    else:
        return None
    scores = np.zeros((max(clusters) + 1, columns.shape[1]))
    np.add.at(scores, clusters, (won - chance)[:, None] * columns)
    (rows, width), count = columns.shape, len(scores)
    inverse = np.linalg.inv(columns.T @ ((chance * (1 - chance))[:, None] * columns))
    covariance = inverse @ scores.T @ scores @ inverse * count / (count - 1) * (rows - 1) / (rows - width)
    return np.asarray(at, np.float64), np.asarray(np.sqrt(np.diag(covariance)), np.float64)


_HALF = 1e-9
"""How far from one half a mean of outcomes counts as one half."""


def side_result(
    queries: Sequence[ComparedQuery],
    sides: tuple[int, int],
    labels: tuple[str, str],
    *,
    clusters: Mapping[str, str] | None = None,
    floor: float | None = None,
    seed: int = 0,
    labels_of_people: outcomes.PairLabels | None = None,
) -> SideResult:
    """Say what the matches of two sides say, seen from the second one.

    `sides` are places in the comparison, `clusters` names the cluster of a query's content hash, and `floor` is the
    standard deviation of a query's win rate between equal agents, where it was measured.
    """
    pairs = outcomes.side_pairs(queries, sides, labels=labels_of_people)
    result = summarize_pairs(pairs, labels, clusters=clusters, floor=floor, seed=seed)
    anchors = outcomes.Clusters.of(
        outcomes.mean_by_query(outcomes.of_pairs(outcomes.side_pairs(queries, sides, role="anchor"))), clusters
    )
    of_anchors = intervals.interval_of_share(anchors, seed) if anchors.count else None
    return result.model_copy(update={"anchors": of_anchors, "people": peoples_rate(pairs, clusters, seed)})


def summarize_pairs(
    pairs: outcomes.Pairs,
    labels: tuple[str, str],
    *,
    clusters: Mapping[str, str] | None,
    floor: float | None,
    seed: int,
) -> SideResult:
    """Say what pairs say that stand by query."""
    means = outcomes.mean_by_query(outcomes.of_pairs(pairs))
    summed = outcomes.Clusters.of(means, clusters)
    rate = intervals.interval_of_share(summed, seed)
    spread = intervals.DEFAULT_SPREAD if floor is None else floor
    listed = [pair for of_query in pairs.values() for pair in of_query]
    wins, losses = sum(m > 0.5 + _HALF for m in means.values()), sum(m < 0.5 - _HALF for m in means.values())
    judged = outcomes.Clusters.of(outcomes.mean_by_query(outcomes.of_pairs(pairs, forfeits=False)), clusters)
    has_forfeits = any(pair.forfeit for pair in listed)
    margins = {query: [pair.margin for pair in each if pair.margin is not None] for query, each in pairs.items()}
    return SideResult(
        sides=labels,
        queries=len(means),
        clusters=summed.count,
        pairs=sum(pair.outcome is not None for pair in listed),
        better=wins,
        worse=losses,
        tied=len(means) - wins - losses,
        win_rate=rate.value,
        interval=(rate.low, rate.high),
        method=intervals.method_for(summed),
        p=intervals.sign_flip_p(summed, seed),
        margin=intervals.interval_of_mean(outcomes.Clusters.of(outcomes.mean_by_query(margins), clusters), seed),
        flips=sum(pair.flipped for pair in listed),
        both_orders=sum(pair.both_orders for pair in listed),
        length_controlled=length_controlled(pairs, clusters),
        forfeits=(sum(pair.forfeit == "first" for pair in listed), sum(pair.forfeit == "second" for pair in listed)),
        without_forfeits=intervals.interval_of_share(judged, seed) if has_forfeits and judged.count else None,
        unjudged=sum(pair.outcome is None for pair in listed),
        bounds=outcomes.bounds(pairs),
        detectable=intervals.detectable(summed, spread),
        enough_queries=None
        if leaves_out_half(summed.count, (rate.low, rate.high))
        else intervals.enough_queries(summed, spread),
        floor=spread,
        floor_from="default" if floor is None else "runs",
    )


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


def _scored(query: object, pairs: Any) -> list[outcomes.Pair]:
    try:
        listed = list(pairs)
    except TypeError:
        raise UsageError(f"query {quoted(query)}: {quoted(pairs)} is not a list of pairs of scores") from None
    scored: list[outcomes.Pair] = []
    for pair in listed:
        try:
            first, second = (float(score) for score in pair)
        except (TypeError, ValueError, OverflowError):
            raise UsageError(f"query {quoted(query)}: {quoted(pair)} is not a pair of scores") from None
        if not (math.isfinite(first) and math.isfinite(second) and math.isfinite(second - first)):
            raise UsageError(f"query {quoted(query)}: {quoted(pair)} has a score that is not a finite number")
        scored.append(outcomes.Pair(outcome=0.5 if first == second else float(second > first), margin=second - first))
    return scored
