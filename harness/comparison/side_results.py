"""The comparison of two sides: from their pairs to the record of what they say, in all and in slices of the queries."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from pydantic import JsonValue

from harness.comparison.intervals import interval_of_mean, interval_of_share, method_for, sign_flip_p, t_quantile
from harness.comparison.outcomes import (
    Clusters,
    Numbers,
    Pair,
    Pairs,
    closed,
    cluster_of,
    margins,
    mean_by_query,
    outcomes,
    pairs_of,
)
from harness.comparison.statistics import DEFAULT_SPREAD, detectable, enough_queries, holm
from harness.core.comparisons import (
    FEWEST_SHOWING,
    ComparedQuery,
    ComparedRollout,
    Interval,
    SideResult,
    Slice,
    leaves_out_half,
)

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


_LEAST_SPREAD = 1e-6
_STEPS, _NEAR_ENOUGH, _SINGULAR = 100, 1e-12, 1e14
_GREATEST_LOGIT = 10.0
"""Beyond it the fit runs away: the lengths tell the winners apart without a fault."""


def length_controlled(pairs: Pairs, clusters: Mapping[str, str] | None) -> Interval | None:
    """Fit the outcomes by the difference in length, and return the win rate where the difference is 0.

    A logistic regression of the judged pairs on (length of the second answer - of the first) / (their sum), a tie half
    a win, with an interval by cluster (sandwich, t). None where it cannot be fitted: fewer than six clusters, the same
    difference in all pairs, or lengths that tell the winners apart without a fault.
    """
    rows = [
        (*row, cluster_of(query, clusters))
        for query, listed in sorted(pairs.items())
        for pair in listed
        if (row := _row(pair))
    ]
    numbers = {cluster: number for number, cluster in enumerate(sorted({row[2] for row in rows}))}
    if len(numbers) < FEWEST_SHOWING:
        return None
    won, difference = (np.array([row[i] for row in rows], np.float64) for i in range(2))
    if difference.std() < _LEAST_SPREAD or won.std() < _LEAST_SPREAD:
        return None
    return _fitted(won, difference, [numbers[row[2]] for row in rows])


def _fitted(won: Numbers, difference: Numbers, clusters: list[int]) -> Interval | None:
    columns = np.column_stack([np.ones_like(difference), difference / difference.std()])
    fit = _logistic_fit(won, columns, clusters)
    if fit is None or np.abs(fit[0]).max() > _GREATEST_LOGIT:
        return None
    logit, half = float(fit[0][0]), t_quantile(max(clusters) + 1) * float(fit[1][0])
    return Interval(value=_chance(logit), low=_chance(logit - half), high=_chance(logit + half))


def _logistic_fit(won: Numbers, columns: Numbers, clusters: list[int]) -> tuple[Numbers, Numbers] | None:
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


def _row(pair: Pair) -> tuple[float, float] | None:
    """Return the outcome of a judged pair and its difference in length; None where either is not known."""
    first, second = pair.lengths
    if pair.outcome is None or pair.forfeit or first is None or second is None:
        return None
    return pair.outcome, (second - first) / max(1, first + second)


def _chance(logit: float) -> float:
    return (1 + math.tanh(logit / 2)) / 2


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
) -> SideResult:
    """Say what the matches of two sides say, seen from the second one.

    `sides` are places in the comparison, `clusters` names the cluster of a query's content hash, and `floor` is the
    standard deviation of a query's win rate between equal agents, where it was measured.
    """
    result = result_of(pairs_of(queries, sides), labels, clusters=clusters, floor=floor, seed=seed)
    anchors = Clusters.of(mean_by_query(outcomes(pairs_of(queries, sides, role="anchor"))), clusters)
    return result.model_copy(update={"anchors": interval_of_share(anchors, seed) if anchors.count else None})


def result_of(
    pairs: Pairs, labels: tuple[str, str], *, clusters: Mapping[str, str] | None, floor: float | None, seed: int
) -> SideResult:
    """Say what pairs say that stand by query."""
    means = mean_by_query(outcomes(pairs))
    summed = Clusters.of(means, clusters)
    rate = interval_of_share(summed, seed)
    spread = DEFAULT_SPREAD if floor is None else floor
    listed = [pair for of_query in pairs.values() for pair in of_query]
    wins, losses = sum(m > 0.5 + _HALF for m in means.values()), sum(m < 0.5 - _HALF for m in means.values())
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
        method=method_for(summed.count),
        p=sign_flip_p(summed, 0.5, seed),
        margin=_margin(pairs, clusters, seed),
        flips=sum(pair.flipped for pair in listed),
        both_orders=sum(pair.both_orders for pair in listed),
        length_controlled=length_controlled(pairs, clusters),
        forfeits=(sum(pair.forfeit == "first" for pair in listed), sum(pair.forfeit == "second" for pair in listed)),
        without_forfeits=_without_forfeits(pairs, clusters, seed),
        unjudged=sum(pair.outcome is None for pair in listed),
        bounds=_bounds(pairs),
        detectable=detectable(summed, spread),
        enough_queries=None if leaves_out_half(summed.count, (rate.low, rate.high)) else enough_queries(summed, spread),
        floor=spread,
        floor_from="default" if floor is None else "runs",
    )


def _margin(pairs: Pairs, clusters: Mapping[str, str] | None, seed: int) -> Interval | None:
    return interval_of_mean(Clusters.of(mean_by_query(margins(pairs)), clusters), seed)


def _without_forfeits(pairs: Pairs, clusters: Mapping[str, str] | None, seed: int) -> Interval | None:
    if not any(pair.forfeit for listed in pairs.values() for pair in listed):
        return None
    judged = Clusters.of(mean_by_query(outcomes(pairs, forfeits=False)), clusters)
    return interval_of_share(judged, seed) if judged.count else None


def _bounds(pairs: Pairs) -> tuple[float, float]:
    low, high = (Clusters.of(mean_by_query(closed(pairs, outcome))) for outcome in (0.0, 1.0))
    return (low.mean, high.mean) if low.count else (0.0, 1.0)
