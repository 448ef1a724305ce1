"""Strengths of more than two sides, by Bradley and Terry."""

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from harness.comparison.clusters import Numbers, cluster_of, mean_by_query
from harness.comparison.intervals import quantiles, redrawn
from harness.comparison.outcomes import outcomes, pairs_of
from harness.core.comparisons import FEWEST_SHOWING, ComparedQuery, Interval, Strength

_STEPS, _ENOUGH, _LONGEST_STEP = 60, 1e-10, 2.0
_ADDED_TIE = 0.5
"""For each two sides half a query more, tied: without it a side that won everything would be infinitely strong."""


def strengths(
    queries: Sequence[ComparedQuery], labels: Sequence[str], seed: int, clusters: Mapping[str, str] | None = None
) -> tuple[Strength, ...]:
    """Return the strength of each side: log odds of a win, their mean 0, with intervals by drawing the clusters again.

    Among the clusters are, for each two sides, one query more that either won, so that no draw of sides of which one
    won everything takes that for certain. `labels` are of all sides, in their order. Nothing below six clusters.
    """
    met = list(combinations(range(len(labels)), 2))
    won, played = _by_cluster(queries, met, clusters)
    count = won.shape[1]
    if count < FEWEST_SHOWING:
        return ()
    one, none = np.eye(len(met)), np.zeros((len(met), len(met)))
    sums = (*np.hstack([won, one, none]), *np.hstack([played, one, one]))

    def fitted(*drawn: Numbers, axis: int = -1) -> Numbers:
        won, played = np.split(np.stack([clusters.sum(axis) for clusters in drawn]), 2)
        return bradley_terry(won, played, met)

    ends = [quantiles(of_side, count) for of_side in redrawn(sums, fitted, seed)]
    return tuple(
        Strength(label=label, strength=Interval(value=float(value), low=low, high=high))
        for label, value, (low, high) in zip(labels, fitted(*sums), ends, strict=True)
    )


def bradley_terry(won: Numbers, played: Numbers, met: Sequence[tuple[int, int]]) -> Numbers:
    """Return the maximum likelihood strengths [S, ...] of sides, their mean 0, half a tie added for each of `met`.

    `won` [P, ...] is how often the second of each of `met` won, of `played`; further axes are draws. By Newton's
    method, all draws at once. `met` connects all sides.
    """
    free = _design(met)[:, :-1]  # the last side stands at 0 until the end
    wins, games = np.moveaxis(won + _ADDED_TIE / 2, 0, -1), np.moveaxis(played + _ADDED_TIE, 0, -1)
    at: Numbers = np.zeros((*wins.shape[:-1], free.shape[1]))
    for _ in range(_STEPS):
        chance = (1 + np.tanh(at @ free.T / 2)) / 2
        slope = (wins - games * chance) @ free
        information: Numbers = np.einsum("pi,...p,pj->...ij", free, games * chance * (1 - chance), free)
        step = np.asarray(np.linalg.solve(information, slope[..., None])[..., 0], np.float64)
        at = at + np.clip(step, -_LONGEST_STEP, _LONGEST_STEP)
        if np.abs(step).max() < _ENOUGH:
            break
    whole = np.concatenate([at, np.zeros((*at.shape[:-1], 1))], axis=-1)
    return np.moveaxis(whole - whole.mean(axis=-1, keepdims=True), -1, 0)


def _design(met: Sequence[tuple[int, int]]) -> Numbers:
    design = np.zeros((len(met), 1 + max(second for _, second in met)))
    for row, (first, second) in enumerate(met):
        design[row, first], design[row, second] = -1.0, 1.0
    return design


def _by_cluster(
    queries: Sequence[ComparedQuery], met: Sequence[tuple[int, int]], clusters: Mapping[str, str] | None
) -> tuple[Numbers, Numbers]:
    """Return for each two sides [P, C] what the second one won in each cluster, and on how many queries they met."""
    means = [mean_by_query(outcomes(pairs_of(queries, sides))) for sides in met]
    names = sorted({cluster_of(query, clusters) for of_pair in means for query in of_pair})
    place = {name: i for i, name in enumerate(names)}
    won, played = np.zeros((len(met), len(names))), np.zeros((len(met), len(names)))
    for row, of_pair in enumerate(means):
        for query, mean in of_pair.items():
            column = place[cluster_of(query, clusters)]
            won[row, column] += mean
            played[row, column] += 1
    return won, played
