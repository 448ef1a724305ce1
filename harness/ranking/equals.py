"""The p-value of a group's differences under `pooled`: how often equals would look at least as different.

What a group's calls say of its rollouts under a judge is c = J theta + noise, with what marks and standing first are
worth integrated out: J is the information of the calls, and J the variance of the noise, too. If all rollouts are
equally good, c is N(0, J) in the n - 1 directions that tell rollouts apart. The most powerful statistic against
qualities of N(0, tau^2) is the likelihood ratio (Neyman and Pearson 1933), which grows with

    T = c' (J + I / tau^2)^-1 c,

under equals a sum of squared normals weighted by lambda / (lambda + 1 / tau^2), lambda the eigenvalues of J. Its
tail is that of the chi-square with the same first three moments (Imhof 1961, Biometrika 48), by the cube root of
Wilson and Hilferty (1931).
"""

import math
from typing import Any

import numpy as np

from harness.ranking.comparisons import Floats, Parameters
from harness.ranking.juror_weights import STEPS
from harness.ranking.pooled_judge import LearntJudge
from harness.ranking.pooled_model import Posterior, at_a_time, judges_at, posterior
from harness.ranking.pooled_sums import PoolSums
from harness.ranking.posteriors import probabilities_above_zero

_LEAST = 1e-12
_LEAST_SHARE = 1e-4
"""A step of noise that is less probable than this for every group is left out."""
_NOISES = [Parameters._fields.index(f"log_{name}_noise") for name in ("preference", "position", "level")]


def p_values(sums: PoolSums, judge: LearntJudge, of_steps: Floats, misfit: float) -> Floats:
    """Return each group's p-value, (G,): the average over what is not known of the judge.

    Where the judge is known well that is a group's own noise: `of_steps`, (G, S), is how probable each step of it is.
    Else it is the judge, of whom his points tell. Variances of noise are `misfit` times what was learnt.
    """
    wider = math.log(misfit)
    if judge.points.is_known_well:
        used = np.flatnonzero(of_steps.max(axis=0) >= _LEAST_SHARE)
        weights = of_steps[:, used] / of_steps[:, used].sum(axis=1, keepdims=True)
        judges = _noisier(np.tile(np.array(judge.parameters), (len(used), 1)), STEPS[used, None] + wider)
    else:
        weights, judges = judge.points.weights, _noisier(judge.points.at, wider)
    parts = [_of_judges(sums, judges_at(judges[part])) for part in at_a_time(len(judges), [sums])]
    return (weights * np.concatenate(parts).T).sum(axis=1)


def _noisier(points: Floats, logs: Any) -> Floats:
    noisier = points.copy()
    noisier[:, _NOISES] += logs
    return noisier


def _of_judges(sums: PoolSums, at: Parameters[Floats]) -> Floats:
    """Return each group's p-value under each of P judges, (P, G)."""
    precision, of = np.exp(-at.log_quality_var)[:, None, None], sums.design
    information, collected = _contrasts(sums, posterior(sums, at), precision)
    values, vectors = np.linalg.eigh(information)
    values = np.maximum(values, 0)
    along, known = (collected[:, :, None] @ vectors[:, of])[:, :, 0], values + precision
    return _beyond((along**2 / known[:, of]).sum(axis=-1), (values / known)[:, of])


def _contrasts(sums: PoolSums, of_groups: Posterior, precision: Floats) -> tuple[Floats, Floats]:
    """Return J, (P, D, n - 1, n - 1), and c, (P, G, n - 1), in an orthonormal basis of the differences of n rollouts.

    What is integrated out by its prior: the rollouts' mean, what standing first is worth in the group, its level.
    """
    n = sums.n
    turn = np.eye(n + 2)
    turn[:n, :n] = np.linalg.qr(np.column_stack([np.ones(n), np.eye(n)[:, 1:]]))[0][:, [*range(1, n), 0]]
    matrix, vector = turn.T @ of_groups.precision @ turn, of_groups.collected @ turn
    told, rest = slice(n - 1), slice(n - 1, None)
    matrix[..., range(n - 1), range(n - 1)] -= precision
    gain = matrix[..., told, rest] @ np.linalg.inv(matrix[..., rest, rest])
    taken = (vector[:, :, None, rest] @ gain.swapaxes(-1, -2)[:, sums.design])[:, :, 0]
    return matrix[..., told, told] - gain @ matrix[..., rest, told], vector[..., told] - taken


def _beyond(value: Floats, weights: Floats) -> Floats:
    """Return how probably the squares of normals, weighted by (..., k), sum to more than `value`, (...)."""
    first, second, third = (np.maximum((weights**power).sum(axis=-1), _LEAST) for power in (1, 2, 3))
    dof = second**3 / third**2
    chi_square = np.maximum(dof + (value - first) * np.sqrt(dof / second), 0)
    spread = 2 / (9 * dof)
    z = ((chi_square / dof) ** (1 / 3) - 1 + spread) / np.sqrt(spread)
    return probabilities_above_zero(-z, math.inf)
