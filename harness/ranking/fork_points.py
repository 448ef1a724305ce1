"""Where to fork the rollouts of a group: where they part, or where a branch tells most of which step decided.

A branch from a call is one more rollout through the state before it, and its end a look at the value of that state, as
blurred as what lies ahead. What it tells of the decisive step of a rollout, the one with the largest credit to either
side, is their mutual information, by normal distributions over the draws in which each step is the decisive one:
the expected fall of the entropy of which step it is.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from harness.ranking.comparisons import Floats
from harness.ranking.credit import GroupMargins, PathDraws, drawn_paths
from harness.ranking.path_graph import PathGraph

_FEWEST_DRAWS = 16
"""Of a step that may be the decisive one: fewer tell no covariance."""


class ForkPoint(NamedTuple):
    """A model call of a rollout that a branch makes anew."""

    rollout: int
    call: int
    """From 0: so many calls come from the record."""
    calls: float
    """How many new calls the branch is expected to make: as many as the rollouts through its state, on average."""
    gain: float = 0.0
    """By how many nats the branch, after those before it, is expected to narrow which step decided."""


def parted_points(graph: PathGraph, of: Sequence[int] | None = None) -> list[ForkPoint]:
    """Return the states at which rollouts part, each once. `of` names the rollouts whose states may be forked."""
    ways = np.bincount(graph.decisions)
    return [
        point
        for point in _points(graph, of)
        for place in [graph.steps[point.rollout][point.call]]
        if place.place == 0 and ways[graph.decisions[place.branch]] > 1
    ]


def auto_points(
    graph: PathGraph, margins: GroupMargins, spread: float, budget: float, of: Sequence[int] | None = None
) -> list[ForkPoint]:
    """Return which calls to make anew, in order, a branch each: those that tell most for each new call they need.

    Branches are chosen until the `budget` of new model calls has no room for another. `of` names the rollouts that are
    in question; without it all are. The other arguments are those of `group_credit`. A call may stand there twice.
    """
    paths = drawn_paths(graph, margins, spread)
    points = list(_points(graph, of))
    values = np.stack([paths[point.rollout].values[point.call] for point in points]).astype(float)
    blur = np.array([paths[point.rollout].ahead[point.call] for point in points])
    blur += np.diag(margins.covariance).mean()
    cost = np.array([point.calls for point in points])
    shares, covariances = _decided(values, [paths[rollout] for rollout in (range(graph.n) if of is None else of)])
    chosen, left = list[ForkPoint](), budget
    while (fits := cost <= left).any():
        gains = 0.5 * shares @ np.log(np.diagonal(covariances, axis1=1, axis2=2) + blur)
        best = int(np.argmax(np.where(fits, gains / cost, -np.inf)))
        chosen.append(points[best]._replace(gain=max(0.0, float(gains[best]))))
        left -= cost[best]
        known = covariances[:, :, best]
        covariances -= known[:, :, None] * known[:, None, :] / (known[:, best] + blur[best])[:, None, None]
    return chosen


def _points(graph: PathGraph, of: Iterable[int] | None) -> Iterable[ForkPoint]:
    """Yield each state of rollouts once, by the first of them that passes through it."""
    left: dict[tuple[int, int], list[int]] = {}
    for steps in graph.steps:
        for call, step in enumerate(steps):
            left.setdefault(_state(graph, step.branch, step.place), []).append(len(steps) - call)
    seen = set[tuple[int, int]]()
    for rollout in range(graph.n) if of is None else of:
        for call, step in enumerate(graph.steps[rollout]):
            state = _state(graph, step.branch, step.place)
            if state not in seen:
                seen.add(state)
                yield ForkPoint(rollout, call, float(np.mean(left[state])))


def _state(graph: PathGraph, branch: int, place: int) -> tuple[int, int]:
    """Return what names the state before a step: all branches of a decision begin at one."""
    return (int(graph.decisions[branch]), -1) if place == 0 else (branch, place)


def _decided(values: Floats, paths: Iterable[PathDraws]) -> tuple[Floats, Floats]:
    """Return the covariance of the states' values, whichever step decided, and then by which step of which rollout did.

    Beside them their weights in what a look at the values tells: 1 a rollout for the whole, less each step's share.
    """
    shares, covariances = [0.0], [np.cov(values)]
    for path in paths:
        decisive = np.abs(np.diff(path.values, axis=0)).argmax(axis=0)
        counts = np.bincount(decisive)
        enough = np.flatnonzero(counts >= _FEWEST_DRAWS)
        shares[0] += 1
        shares += (-counts[enough] / counts[enough].sum()).tolist()
        covariances += [np.cov(values[:, decisive == step]) for step in enough]
    return np.array(shares), np.stack([np.atleast_2d(covariance) for covariance in covariances])
