"""`pooled`: the judge learnt from all groups of a ranking, then each group's posterior."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from harness.ranking.ceiling import share_at_ends
from harness.ranking.comparisons import Comparisons, Fit, Floats
from harness.ranking.judge_points import JudgePoints, judge_points
from harness.ranking.maximum import maximum
from harness.ranking.pooled_model import (
    PRIOR_MEAN,
    WEAK,
    Parameters,
    Posterior,
    Prior,
    at_a_time,
    judges_at,
    log_evidence,
    log_probabilities,
    posterior,
)
from harness.ranking.pooled_sums import PoolSums, pool_sums, thinned

GROUPS_LEARNT_FROM = 2000
"""More teach nothing of a judge that its first two thousand groups of a size have not taught, and take time."""
_STEP = 1e-3
"""Of the numerical derivatives: parameters are logarithms, shares and score points."""
_LEAST_CURVATURE = 0.1
"""The prior's own; less is rounding."""
MISFIT_AT_ENDS = 2.0
"""Differences are cut off at the ends of the scale, which the model does not know. Variances are made wider by so many
times the share of scores at the ends.

Without it the 90 % intervals cover 86 to 88 % under a noisy judge, 6 % of whose scores lie at an end, and 90 to 92 %
under a sharp one, where hardly any do (benchmarks/pooled.py, pools of 8 and more).
"""
_LEAST_TRACE, _LEAST_SPREAD = 1e-12, 1e-9


@dataclass(frozen=True, eq=False)
class LearntJudge:
    """What a pool of groups teaches of their judge."""

    parameters: Parameters[float]
    """The mode of the posterior."""
    covariance: Floats
    """(9, 9), of the parameters about the mode, by Laplace's approximation."""
    points: JudgePoints
    """The posterior itself, as points."""
    converged: bool
    at_ends: float = 0.0
    """Share of the scores that it was learnt from which lie at an end of the scale."""


def fit_pooled(groups: Sequence[Comparisons], prior: Prior = WEAK) -> list[Fit]:
    """Fit all groups at once, and return a fit for each, in order.

    The judge is learnt from the groups themselves; a group alone goes by the prior for the most part. A prior that was
    learnt from other groups of the same judge (harness.ranking.profile) tells it nearly as much as these groups would.
    Given the parameters, the posterior of a group is normal. The parameters are not known exactly, and the fit is the
    average over them, as a Student t: its mean is the mean of the normals' means; their covariances and the covariance
    of their means add up to its scale, a little widened; its degrees of freedom are 2 / Var[log trace of the
    covariance], as a chi-square with that variance has them.
    """
    pool = pool_sums(groups)
    return _fits_by(_learnt(pool, groups, prior), pool, groups)


def fit_alone(group: Comparisons, prior: Prior = WEAK) -> Fit:
    """Return the fit of one group, which goes by what is known of its judge beforehand for the most part."""
    return fit_pooled([group], prior)[0]


def learnt_from(groups: Sequence[Comparisons], prior: Prior = WEAK) -> LearntJudge:
    """Return the judge as the calls of these groups show them."""
    return _learnt(pool_sums(groups), groups, prior)


def _learnt(pool: Sequence[PoolSums], groups: Sequence[Comparisons], prior: Prior) -> LearntJudge:
    return replace(learn_judge(pool, prior), at_ends=share_at_ends(groups))


def fit_by(judge: LearntJudge, groups: Sequence[Comparisons]) -> list[Fit]:
    """Return the fit of each group under a judge who is learnt already, from these groups or from others."""
    return _fits_by(judge, pool_sums(groups), groups)


def without_level(judge: LearntJudge) -> LearntJudge:
    """Return the same judge as if marks carried no absolute level: differences alone say what they say."""
    at = judge.points.at.copy()
    at[:, Parameters._fields.index("level_share")] = 0
    return replace(judge, parameters=judge.parameters._replace(level_share=0.0), points=judge.points._replace(at=at))


def _fits_by(judge: LearntJudge, pool: Sequence[PoolSums], groups: Sequence[Comparisons]) -> list[Fit]:
    fits: dict[int, Fit] = {}
    for sums in pool:
        fits |= _fits(sums, groups, judge)
    return [fits[place] for place in range(len(groups))]


def learn_judge(pool: Sequence[PoolSums], prior: Prior = WEAK) -> LearntJudge:
    """Return the judge by whom the groups' scores are most probable, the prior included."""
    some = [thinned(sums, GROUPS_LEARNT_FROM) for sums in pool]
    count = sum(len(sums.design) for sums in some)

    start = np.array(Parameters(*prior.mean.tolist())._replace(level=_mean_level(some)))
    guess = np.linalg.inv(prior.precision + 3.0 * count * np.eye(len(start)))
    at, converged = maximum(lambda at: log_evidence(some, at, prior), start, guess)
    around = at + np.concatenate([-_steps(), _steps()])
    slopes = np.concatenate([log_evidence(some, around[part], prior)[1] for part in at_a_time(len(around), some)])
    bends = (slopes[: len(at)] - slopes[len(at) :]) / (2 * _STEP)
    values, vectors = np.linalg.eigh((bends + bends.T) / 2)
    covariance = (vectors / np.maximum(values, _LEAST_CURVATURE)) @ vectors.T
    points = judge_points(at, covariance, lambda points: log_probabilities(some, points, prior))
    return LearntJudge(Parameters(*at.tolist()), covariance, points, converged)


def _mean_level(pool: Sequence[PoolSums]) -> float:
    count = sum(float(sums.levels.number[sums.design].sum()) for sums in pool)
    return sum(float(sums.levels.total.sum()) for sums in pool) / count if count else PRIOR_MEAN.level


def _steps() -> Floats:
    return np.eye(len(PRIOR_MEAN)) * _STEP


class _Averages(NamedTuple):
    """Averages over the points of a judge, for G groups of n rollouts in D designs."""

    mean: Floats
    """(G, n + 1): the qualities about the group's mean, and what standing first is worth."""
    between: Floats
    """(G, n + 1, n + 1): the covariance of the points' means."""
    within: Floats
    """(D, n + 1, n + 1): the mean of the points' covariances."""
    dof: Floats
    """(D,)."""


def _fits(sums: PoolSums, groups: Sequence[Comparisons], judge: LearntJudge) -> dict[int, Fit]:
    """Return the fits of the groups of one size, by their places."""
    n, at, misfit = sums.n, judge.parameters, 1 + MISFIT_AT_ENDS * judge.at_ends
    over = _averages(sums, judge)
    noise = np.exp([at.log_preference_noise, at.log_position_noise]).sum()
    placed: list[tuple[int, int]] = list(zip(sums.places.tolist(), sums.design.tolist(), strict=True))
    return {
        place: Fit(
            estimates=over.mean[g, :n],
            covariance=misfit * (over.within[design, :n, :n] + over.between[g, :n, :n]),
            first_side=float(over.mean[g, n]),
            first_side_sd=float(np.sqrt(over.within[design, n, n] + over.between[g, n, n])),
            components=groups[place].components(),
            calls=len(groups[place].first),
            sigma=float(np.sqrt(noise)),
            converged=judge.converged,
            dof=float(over.dof[design]),
        )
        for g, (place, design) in enumerate(placed)
    }


def _averages(sums: PoolSums, judge: LearntJudge) -> _Averages:
    n, mode = sums.n, judge.parameters
    start = _means(sums, mode)
    slopes = [
        _means(sums, mode._replace(**{name: getattr(mode, name) + 1})) - start for name in ("level", "first_side")
    ]
    linear = np.stack(slopes, axis=-1)
    moved, squares = np.zeros_like(start), linear @ judge.points.linear @ linear.swapaxes(1, 2)
    within, logs = np.zeros((len(sums.single.number), n + 1, n + 1)), list[Floats]()
    for part in at_a_time(len(judge.points.weights), [sums]):
        at, weights = judge.points.at[part], judge.points.weights[part]
        here = posterior(sums, judges_at(at))
        away = _means_of(here, at[:, -1], n) - start
        moved += np.tensordot(weights, away, 1)
        squares += np.einsum("p,pgi,pgj->gij", weights, away, away)
        block = _about_their_mean(_about_their_mean(here.covariance[..., : n + 1, : n + 1], n).swapaxes(-1, -2), n)
        within += np.tensordot(weights, block, 1)
        logs.append(np.log(np.maximum(np.trace(block[..., :n, :n], axis1=-2, axis2=-1), _LEAST_TRACE)))
    spreads = np.concatenate(logs) - judge.points.weights @ np.concatenate(logs)
    return _Averages(
        mean=start + moved,
        between=squares - moved[:, :, None] * moved[:, None, :],
        within=within,
        dof=2 / np.maximum(judge.points.weights @ spreads**2, _LEAST_SPREAD),
    )


def _means(sums: PoolSums, at: Parameters[float]) -> Floats:
    return _means_of(posterior(sums, at), at.first_side, sums.n)


def _means_of(of_groups: Posterior, first_side: Any, n: int) -> Floats:
    """Return each group's qualities about their mean, and what standing first is worth, (G, n + 1), or (P, G, n + 1).

    `first_side` is beta, a number or (P,).
    """
    means = _about_their_mean(of_groups.mean[..., : n + 1], n)
    means[..., n] += np.reshape(first_side, (*np.shape(first_side), 1))
    return means


def _about_their_mean(values: Floats, n: int) -> Floats:
    """Return values (..., n + 1) with the mean of the first n taken from these."""
    away = values.copy()
    away[..., :n] -= values[..., :n].mean(axis=-1, keepdims=True)
    return away
