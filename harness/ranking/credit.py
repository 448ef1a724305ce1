"""Which step made a rollout better or worse: the value of each state, and what each step, a model call, changed.

V of a state is the mean of the margins of the rollouts through it, drawn toward the state before it, the more the fewer
they are: the posterior of a Gaussian field on the graph of states, of whose ends a judge saw what margins say.
credit(step) = V(after) - V(before), so the credits of a rollout add up to V(end) - V(start). V(end) is its margin,
drawn to the rollouts through the same states instead of the mean of all.

Few steps decide much: a choice, and steps in a row that are taken alike, have changes of a Student t, each with a scale
of its own (variational Bayes; M. E. Tipping, N. D. Lawrence, Neurocomputing 69, 2005).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.ranking.comparisons import Fit, Floats
from harness.ranking.path_graph import PathGraph
from harness.ranking.posteriors import probability_above_zero

NAMED_AT, NAMED_ABOVE = 0.9, 0.1
"""A step is named where so probably its credit is the largest of its rollout, and above so many standard deviations."""
MISFIT = 1.6
"""Values change where they do, not evenly, as the field has it. Its variances are made wider by so much for intervals.

So the 95 % intervals cover 93 to 97 % (benchmarks/credit.py). After forks they cover 84 to 97 % of the steps that are
worth something and nearly all others, which makes 98 % and more where most are others (benchmarks/forks.py).
"""
MISFIT_OF_NAMES = 0.6, 1.4
"""And for the probability that a step decided: between these, the more the less of the group are branches.

What a rollout did once may be chance. So 1 in 12 names is wrong, as may be of names that are 90 % sure.
"""
_STEP_DOF = 0.25
"""Degrees of freedom of the t: most changes are small, and few very large."""
_ROUNDS = 5
"""After more the posterior is surer than it may be."""
_GROUP_DOF = 4.0
"""So many rollouts more the spread of all groups weighs beside a group's own."""
_REACH = 1.959964
"""Standard deviations to either side of 95 %."""
_DRAWS = 1024
_MAY_BE_NAMED = 1.07
"""Standard deviations of draws. At so many 86 % of them lie above the least, hardly ever 90."""
_LEAST, _CERTAIN = 1e-12, 1e-8
_SEEN = 0.2
"""So much of what is known of a rollout, at least, was seen of it."""
_Named = Literal["won", "lost"] | None


@dataclass(frozen=True, eq=False)
class GroupMargins:
    """How good the n rollouts of a group turned out, in points above their mean; certain without a covariance."""

    means: Floats
    """(n,)."""
    covariance: Floats
    """(n, n)."""

    @classmethod
    def of(cls, fit: Fit) -> "GroupMargins":
        """Return the estimates of a fit, in the order of its entrants, and how far the truth lies about them."""
        widening = fit.dof / (fit.dof - 2) if 2 < fit.dof < math.inf else 1.0
        away = fit.mean - fit.estimates
        return cls(fit.estimates, widening * fit.covariance + np.outer(away, away))

    def evidence(self, spread: float) -> tuple[Floats, Floats]:
        """Return what was seen of the rollouts alone: the precision (n, n) of it, and that times what was seen (n,).

        Whoever estimated the margins took each rollout to differ by itself, with a variance of `spread`, and drew it to
        the mean by as much. That is taken out again: rollouts that share states are drawn there together. If ends were
        held at these margins, forks under a noisy judge would name 62 to 88 % of decisive steps, not 90 to 98 %.
        """
        spread = max(spread, _LEAST)
        variances, vectors = np.linalg.eigh(self.covariance + _CERTAIN * spread * np.eye(len(self.means)))
        precisions = 1 / np.maximum(variances, _CERTAIN * spread)
        seen = np.maximum(precisions - 1 / spread, _SEEN * precisions)
        return (vectors * seen) @ vectors.T, (vectors * precisions) @ (vectors.T @ (self.means - self.means.mean()))

    @property
    def spread(self) -> float:
        """The expected variance between the rollouts."""
        n, away = len(self.means), self.means - self.means.mean()
        return float(away @ away + np.trace(self.covariance) - self.covariance.sum() / n) / max(1, n - 1)


class StepCredit(NamedTuple):
    """What a step was worth, in points of the margins."""

    value: float
    """V before it."""
    credit: float
    interval: tuple[float, float]
    """It holds the true credit with a probability of 95 %."""
    shared: int
    """How many other rollouts were shown the same before it."""
    named: _Named
    """The step that made the rollout better, or worse, than any other step of it did, where that is known."""


class SiblingPair(NamedTuple):
    """Two steps from one state, of which one led to more: each as the rollout and its step, from 0."""

    better: tuple[int, int]
    worse: tuple[int, int]
    difference: float
    """By how much the state after the one is worth more than the state after the other."""
    probability: float
    """That it is above 0."""


class GroupCredit(NamedTuple):
    """What the steps of a group were worth."""

    steps: list[list[StepCredit]]
    """Of each rollout, in order."""
    pairs: list[SiblingPair]
    """Of each state from which more than one way leads, the best and the worst."""


class _Posterior(NamedTuple):
    """Posterior of the field."""

    values: Floats
    """(nodes,): means."""
    covariance: Floats
    """(nodes, nodes)."""
    widths: Floats
    """(B,): the prior variances of the changes on the branches, as they were learnt."""


class _Changes(NamedTuple):
    """Posterior of the changes on the branches."""

    means: Floats
    """(B,)."""
    covariance: Floats
    """(B, B)."""


class PathDraws(NamedTuple):
    """What the values along a rollout may be: fixed draws, so the same input gives the same output."""

    values: NDArray[np.float32]
    """(steps + 1, draws): V of each state, then of the end."""
    ahead: Floats
    """(steps,): the variance that lies between each state and the end."""


def group_credit(graph: PathGraph, margins: GroupMargins, spread: float) -> GroupCredit:
    """Return what the steps of a group were worth. `spread` is the mean of `GroupMargins.spread` over all groups.

    Of two rollouts and more; the margins are in the order of the graph's rollouts.
    """
    posterior, sd = _posterior(graph, margins, spread), math.sqrt(spread)
    covariance = graph.incidence @ posterior.covariance @ graph.incidence.T * MISFIT
    at = _Changes(graph.incidence @ posterior.values, covariance)
    told = _told(graph, posterior, at)
    narrower = math.sqrt(_misfit_of_names(graph) / MISFIT)
    if any(_may_be_named(step, sd, narrower) for row in told for step in row):  # draws take longer than all the rest
        named = (_names(np.diff(path.values, axis=0), sd) for path in _drawn(graph, posterior))
        told = [[s._replace(named=name) for s, name in zip(*row, strict=True)] for row in zip(told, named, strict=True)]
    return GroupCredit(told, list(_siblings(graph, at)))


def drawn_paths(graph: PathGraph, margins: GroupMargins, spread: float) -> list[PathDraws]:
    """Return draws from the posterior that `group_credit` tells of, a rollout each."""
    return _drawn(graph, _posterior(graph, margins, spread))


def _posterior(graph: PathGraph, margins: GroupMargins, spread: float) -> _Posterior:
    n, precision = graph.n, np.linalg.inv(graph.covariance)
    even = np.ones(int(graph.kin.max()) + 1)
    unit = _half_distance(_precision(graph, precision, even), n)
    size = max((_GROUP_DOF * spread + (n - 1) * margins.spread) / (_GROUP_DOF + n - 1) / unit, _LEAST)
    seen, told = margins.evidence(size * unit)

    def field(scales: Floats) -> _Posterior:
        whole = _precision(graph, precision, scales)
        whole[:n, :n] += seen
        covariance = np.linalg.inv(whole)
        values = covariance[:, :n] @ told + margins.means.mean()
        return _Posterior(values, covariance, np.diag(graph.covariance) * scales[graph.kin])

    dims, scales = np.bincount(graph.kin), even * size
    for _ in range(_ROUNDS):
        at = field(scales)
        means, covariance = graph.incidence @ at.values, graph.incidence @ at.covariance @ graph.incidence.T
        squares = (precision * (covariance + np.outer(means, means))).sum(axis=1)
        scales = (_STEP_DOF * size + np.bincount(graph.kin, squares)) / (_STEP_DOF + dims)
    return field(scales)


def _siblings(graph: PathGraph, at: _Changes) -> Iterator[SiblingPair]:
    taken: dict[int, tuple[int, int]] = {}
    for rollout, steps in enumerate(graph.steps):
        for number, step in enumerate(steps):
            if step.place == 0:
                taken.setdefault(step.branch, (rollout, number))
    for decision in range(int(graph.decisions.max()) + 1):
        ways = [way for way in np.flatnonzero(graph.decisions == decision).tolist() if way in taken]
        if len(ways) > 1:
            best, worst = (choose(ways, key=lambda way: float(at.means[way])) for choose in (max, min))
            difference = float(at.means[best] - at.means[worst])
            variance = float(at.covariance[best, best] + at.covariance[worst, worst] - 2 * at.covariance[best, worst])
            sure = probability_above_zero(difference / math.sqrt(max(variance, _LEAST)), math.inf)
            if difference > 0:
                yield SiblingPair(taken[best], taken[worst], difference, sure)


def _precision(graph: PathGraph, precision: Floats, scales: Floats) -> Floats:
    """Return the precision of the field at all nodes, with the variance of each decision so many times as large."""
    roots = 1 / np.sqrt(scales[graph.kin])
    scaled = graph.incidence * roots[:, None]
    return scaled.T @ precision @ scaled


def _half_distance(precision: Floats, n: int) -> float:
    """Return half of the mean squared distance of two ends under the prior."""
    inner = np.linalg.solve(precision[n:, n:], precision[n:, :n])
    ends = np.linalg.pinv(precision[:n, :n] - precision[:n, n:] @ inner, hermitian=True)
    return float(np.trace(ends) - ends.sum() / n) / (n - 1)


def _told(graph: PathGraph, posterior: _Posterior, at: _Changes) -> list[list[StepCredit]]:
    """Return what is told of each step. Within a branch value changes as a bridge does: no rollout parted there."""
    variances = np.maximum(np.diag(at.covariance), 0)
    told: list[list[StepCredit]] = []
    for steps in graph.steps:
        row: list[StepCredit] = []
        for step in steps:
            branch = graph.branches[step.branch]
            share, mean = branch.shares[step.place], float(at.means[step.branch])
            value = float(posterior.values[branch.start]) + sum(branch.shares[: step.place]) * mean
            bridge = share * (1 - share) * posterior.widths[step.branch] * MISFIT
            reach = _REACH * math.sqrt(share * share * variances[step.branch] + bridge)
            interval = (share * mean - reach, share * mean + reach)
            row.append(StepCredit(value, share * mean, interval, step.shared, None))
        told.append(row)
    return told


def _drawn(graph: PathGraph, posterior: _Posterior) -> list[PathDraws]:
    misfit = _misfit_of_names(graph)
    eigenvalues, vectors = np.linalg.eigh(posterior.covariance * misfit)
    every_width, used = posterior.widths * misfit, len(eigenvalues)
    normals = _normals(used + sum(len(branch.shares) for branch in graph.branches))
    root = (vectors * np.sqrt(np.maximum(eigenvalues, 0))).astype(np.float32)
    values = root @ normals[:used] + posterior.values.astype(np.float32)[:, None]
    drawn = list[NDArray[np.float32]]()
    for branch, width in zip(graph.branches, every_width, strict=True):
        shares, after = np.array(branch.shares, np.float32)[:, None], used + len(branch.shares)
        free = np.sqrt(np.float32(width) * shares) * normals[used:after]
        drawn.append(free + shares * (values[branch.end] - values[branch.start] - free.sum(axis=0)))
        used = after
    paths = list[PathDraws]()
    for steps in graph.steps:
        start = values[graph.branches[steps[0].branch].start]
        widths = [every_width[s.branch] * graph.branches[s.branch].shares[s.place] for s in steps]
        along = np.cumsum(np.stack([start, *(drawn[s.branch][s.place] for s in steps)]), axis=0)
        paths.append(PathDraws(along, np.cumsum(widths[::-1])[::-1]))
    return paths


def _misfit_of_names(graph: PathGraph) -> float:
    least, most = MISFIT_OF_NAMES
    return least + (most - least) * graph.fresh


def _may_be_named(step: StepCredit, sd: float, narrower: float) -> bool:
    """Tell whether a step's credit is so surely above the least that draws, so much narrower, might name it."""
    reach = (step.interval[1] - step.credit) * narrower
    return (abs(step.credit) - NAMED_ABOVE * sd) * _REACH >= _MAY_BE_NAMED * reach


def _names(credits_: NDArray[np.float32], sd: float) -> list[_Named]:
    """Name steps by draws of their credits, (steps, draws)."""
    least = NAMED_ABOVE * sd
    won = ((credits_ == credits_.max(axis=0)) & (credits_ > least)).mean(axis=1) >= NAMED_AT
    lost = ((credits_ == credits_.min(axis=0)) & (credits_ < -least)).mean(axis=1) >= NAMED_AT
    return ["won" if up else "lost" if down else None for up, down in zip(won, lost, strict=True)]


@cache
def _normals(rows: int) -> NDArray[np.float32]:
    return np.random.default_rng(20261127).standard_normal((rows, _DRAWS), np.float32)


def mean_spread(groups: Sequence[GroupMargins]) -> float:
    """Return the mean of the expected variances between the rollouts of groups; 0 without any."""
    return float(np.mean([group.spread for group in groups])) if groups else 0.0
