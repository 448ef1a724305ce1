"""The states that the rollouts of a group pass through, as a graph: who shared which step, and how far steps may lead.

The ends of the rollouts are nodes of their own. Where each state tells its whole past, the graph is a tree.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice, pairwise
from typing import NamedTuple

import numpy as np

from harness.ranking.comparisons import Floats, Ints

_OTHER_CHOICES = 1.0
"""How many rollouts' worth the choices weigh that nobody made: the concentration of a Dirichlet process."""
_ROOT = "root"
_Edge = tuple[int, int]


class Branch(NamedTuple):
    """Steps in a row that the same rollouts take: one where their ways part, else as many as there are."""

    start: int
    end: int
    shares: tuple[float, ...]
    """Each step's share in the variance of the branch."""


class StepPlace(NamedTuple):
    """Where a step of a rollout stands in the graph."""

    branch: int
    place: int
    """Which of the branch's steps it is."""
    shared: int
    """How many other rollouts were shown the same before it."""


@dataclass(frozen=True, eq=False)
class PathGraph:
    """The graph of n rollouts: nodes 0..n-1 are their ends."""

    n: int
    nodes: int
    branches: tuple[Branch, ...]
    decisions: Ints
    """(B,): branches of one number begin at one state, and are one choice there."""
    kin: Ints
    """(B,): branches of one number are alike in how much they change: the choices at one state, and again what follows
    them where nobody parts."""
    covariance: Floats
    """(B, B): by how much the value may change on each branch before any rollout is judged; a rollout's, as a whole, by
    about 1."""
    steps: tuple[tuple[StepPlace, ...], ...]
    """Of each rollout, in order."""
    fresh: float = 1.0
    """The share of rollouts that are no branches of others."""

    @cached_property
    def incidence(self) -> Floats:
        """(B, nodes): -1 where a branch starts, 1 where it ends."""
        matrix = np.zeros((len(self.branches), self.nodes))
        for row, branch in zip(matrix, self.branches, strict=True):
            row[branch.start] -= 1
            row[branch.end] += 1
        return matrix


def path_graph(paths: Sequence[Sequence[Hashable]], replayed: Sequence[int] = ()) -> PathGraph:
    """Return the graph of rollouts, of each the states that its model calls were shown, in order.

    `replayed` tells how many first calls of each came from the record of another, as those of a fork do: they say
    nothing of how probable a choice is. Raises ValueError for a path without a state.
    """
    if not all(paths):
        raise ValueError("a path needs at least one state")
    numbers: dict[Hashable, int] = {}
    one_start = len({path[0] for path in paths}) == 1
    walks: list[list[int]] = []
    for end, path in enumerate(paths):
        states = [*([] if one_start else [_ROOT]), *_told_apart(path)]
        walks.append([numbers.setdefault(state, len(paths) + len(numbers)) for state in states] + [end])
    edges = Counter(chain.from_iterable(map(pairwise, walks)))
    shared = Counter(chain.from_iterable(walks))
    forced = [calls + (not one_start) if calls else 0 for calls in replayed or [0] * len(walks)]
    made = Counter(
        edge for walk, calls in zip(walks, forced, strict=True) for edge in islice(pairwise(walk), calls, None)
    )
    rows = list(_branches(edges, walks[0][0], len(paths)))
    widths = _widths(walks, edges)
    place_of = {edge: (at, place) for at, row in enumerate(rows) for place, edge in enumerate(row)}
    kept = sorted({row[0][0] for row in rows} | {row[-1][1] for row in rows})
    node = {state: at for at, state in enumerate(kept)}  # the ends come first, as they did
    starts = np.unique([row[0][0] for row in rows], return_inverse=True)[1]
    variances = [[widths[edge] for edge in row] for row in rows]
    return PathGraph(
        n=len(paths),
        nodes=len(node),
        branches=tuple(
            Branch(node[row[0][0]], node[row[-1][1]], tuple(width / sum(own) for width in own))
            for row, own in zip(rows, variances, strict=True)
        ),
        decisions=starts,
        kin=_kin(rows, starts),
        covariance=_covariance([made[row[0]] for row in rows], [sum(own) for own in variances], starts),
        steps=tuple(
            tuple(StepPlace(*place_of[edge], shared[edge[0]] - 1) for edge in pairwise(walk[not one_start :]))
            for walk in walks
        ),
        fresh=forced.count(0) / len(walks),
    )


def _kin(rows: Sequence[Sequence[_Edge]], decisions: Ints) -> Ints:
    """Return what branches are kin by. A branch that is no choice follows one that is, or the root."""
    ways, before = np.bincount(decisions), {row[-1][1]: at for at, row in enumerate(rows)}
    kin = [
        (int(decisions[before[row[0][0]]]), 1) if ways[own] == 1 and row[0][0] in before else (int(own), 0)
        for row, own in zip(rows, decisions, strict=True)
    ]
    return np.unique(kin, axis=0, return_inverse=True)[1].ravel()


def _told_apart(path: Iterable[Hashable]) -> list[tuple[Hashable, int]]:
    """Return a path's states, each with how often it was passed before: no rollout goes in a circle."""
    seen = Counter[Hashable]()
    states: list[tuple[Hashable, int]] = []
    for state in path:
        states.append((state, seen[state]))
        seen[state] += 1
    return states


def _branches(edges: Mapping[_Edge, int], root: int, n: int) -> Iterable[list[_Edge]]:
    """Yield the steps of each branch, in order. `n`: how many of the nodes are ends."""
    after: dict[int, list[int]] = {}
    before = Counter[int]()
    for start, end in edges:
        after.setdefault(start, []).append(end)
        before[end] += 1
    chosen = {end for ends in after.values() if len(ends) > 1 for end in ends}
    joints = chosen | {root, *range(n)} | {at for at, ends in after.items() if len(ends) > 1 or before[at] > 1}
    for edge in edges:
        if edge[0] in joints:
            row = [edge]
            while row[-1][1] not in joints:
                row.append((row[-1][1], after[row[-1][1]][0]))
            yield row


def _widths(walks: Sequence[Sequence[int]], edges: Mapping[_Edge, int]) -> dict[_Edge, float]:
    """Return the prior variance of each step: what lies ahead of a rollout is spread evenly over the steps left."""
    left = Counter[_Edge]()
    for walk in walks:
        for place, edge in enumerate(pairwise(walk)):
            left[edge] += len(walk) - 1 - place
    ahead, widths = {walk[0]: 1.0 for walk in walks}, dict[_Edge, float]()
    for place in range(max(map(len, walks)) - 1):
        for edge in dict.fromkeys((walk[place], walk[place + 1]) for walk in walks if place + 1 < len(walk)):
            if edge not in widths:
                here, is_end = ahead[edge[0]], edge[1] < len(walks)
                even = here * edges[edge] / left[edge]
                known = 0.0 if is_end else ahead.get(edge[1])  # another way has led there
                widths[edge] = even if known is None else max(here - known, even / 4)
                ahead.setdefault(edge[1], max(here - widths[edge], even / 4))
    return widths


def _covariance(counts: Sequence[int], widths: Sequence[float], decisions: Ints) -> Floats:
    """Return the prior covariance of the changes on branches, each of which so many rollouts took by choice.

    A state's value is the mean over the choices that the agent makes there. So the changes of a choice, weighted by how
    probable each is, add up to 0: cov(x_a - sum p x) = 1(a = b) - E p_a - E p_b + E sum p^2 for independent x, and p a
    Dirichlet process that was seen so often. What all rollouts do changes hardly anything.
    """
    matrix = np.zeros((len(counts), len(counts)))
    for decision in range(int(decisions.max()) + 1):
        members: list[int] = np.flatnonzero(decisions == decision).tolist()
        times = np.array([counts[at] for at in members], float)
        whole = times.sum() + _OTHER_CHOICES
        squares = float(times @ (times + 1) + _OTHER_CHOICES) / (whole * (whole + 1))
        probable = times / whole
        sds = np.sqrt([widths[at] for at in members])
        joint = np.eye(len(members)) - probable[:, None] - probable + squares
        matrix[np.ix_(members, members)] = joint * sds[:, None] * sds
    return matrix
