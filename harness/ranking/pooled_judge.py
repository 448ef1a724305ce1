"""The judge of a pool of groups: the parameters by which their scores are most probable, and how well they are known.

The maximum is found by BFGS, since scipy is not among what the core installs. The posterior about it stands as points.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from harness.ranking.comparisons import LEVEL_SHARE, PRIOR_MEAN, QUALITY, WEAK, Floats, Parameters, Prior
from harness.ranking.juror_weights import JuryVoices, learnt_widths
from harness.ranking.leanings import TakenOut
from harness.ranking.pooled_model import at_a_time, log_evidence, log_probabilities
from harness.ranking.pooled_sums import PoolSums, thinned

GROUPS_LEARNT_FROM = 2000
"""More teach nothing of a judge that its first two thousand groups of a size have not taught, and take time."""
FEW = 3
"""So many groups at most hardly tell their judge, and go by kinds (benchmarks/pooled.py --pools 1,3,4)."""
_STEP = 1e-3
"""Of the numerical derivatives: parameters are logarithms, shares and score points."""
_LEAST_CURVATURE = 0.1
"""The prior's own; less is rounding."""
_CERTAIN_SDS = 3.0
_PREFERENCE, _POSITION, _LEVEL_NOISE, _LINEAR = 3, 4, 5, 7
"""Where the parameters stand. The scores are linear in those from the last place on, level and first side."""
_KNOWN_WELL = 0.15
"""Up to this standard deviation of the variances' logarithms, what follows from the parameters is nearly linear."""
_DRAWN, _WIDER = 128, 1.7
"""Half of the points are drawn from a normal wider by this factor, so that a long tail has points."""
_MOST_STEPS, _SHORTEST_STEP = 200, 1e-8
_LONGEST_MOVE = 1.0
"""No parameter moves farther in a step: far away the function is flat, and the search would stay there."""
_ENOUGH = 1e-4
"""Of the rise that the slope promises, this share is asked for (Armijo's rule)."""
_TOLERANCE = 1e-6
_FLAT, _NEARLY_FLAT = 1e-2, 1.0
"""Converged, a step raises the value by less than the tolerance, and no slope is steeper than the first of these. The
second will do where the curvature promises no rise either: of a judge almost without noise, some slopes are steep a
hair's breadth from the top, and rounding hides the way there."""


ValueAndSlope = Callable[[Floats], tuple[float, Floats]]


class JudgePoints(NamedTuple):
    """The posterior of the parameters: K points with their weights, which sum to 1, and a normal about each."""

    at: Floats
    """(K, 9)."""
    weights: Floats
    """(K,)."""
    linear: Floats
    """(2, 2): the covariance of level and first side about each point."""

    @property
    def is_known_well(self) -> bool:
        """Whether these are the few points of a judge whom the groups have taught well."""
        return len(self.weights) <= 2 * _LINEAR


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
    noise_widths: Floats
    """(W,): how probable it is that noise differs so much from group to group."""
    at_ends: float = 0.0
    """Share of the scores that it was learnt from which lie at an end of the scale."""
    jury: JuryVoices | None = None
    """How the calls of several jurors become those of this one judge."""
    wild: float = 0.0
    """The share of its calls that are wild (harness.ranking.wild_calls)."""
    wild_left: float = 0.0
    """Their share among the calls that are heard, of the groups that it was learnt from."""
    leanings: TakenOut | None = None
    """How what it leans to is taken out of its calls; None where no probe shows that."""
    by_variance: bool = False
    """Whether a group's Student t has the variance of what it stands for; else it is wider."""


def learn_judge(pool: Sequence[PoolSums], prior: Prior = WEAK) -> LearntJudge:
    """Return the judge by whom the groups' scores are most probable, the prior included.

    A share of the level that is real cannot be less than 0. Where it comes out so for certain the model does not hold:
    who is in pairs of low marks would be called good, though it loses them. Differences alone count then.
    Rollouts that differ less than is usual are believed to: held to the usual, they would make noise seem small, and
    twice as many groups of equals `ok` as should be (benchmarks/weak_signal.py).
    """
    learnt = _most_probable(pool, prior)
    least = float(prior.mean[QUALITY] - prior.precision[QUALITY, QUALITY] ** -0.5)
    many = prior.any_kind and sum(len(sums.design) for sums in pool) > FEW
    if many and learnt.parameters.log_quality_var < least:
        prior = prior.of_near_equals()
        learnt = _most_probable(pool, prior)
    share, sd = learnt.parameters.level_share, float(np.sqrt(learnt.covariance[LEVEL_SHARE, LEVEL_SHARE]))
    if share + _CERTAIN_SDS * sd >= 0:
        return learnt
    return _most_probable(pool, prior.without_levels())


def _most_probable(pool: Sequence[PoolSums], prior: Prior) -> LearntJudge:
    some = [thinned(sums, GROUPS_LEARNT_FROM) for sums in pool]
    count, marks = sum(len(sums.design) for sums in some), sum(float(s.levels.number[s.design].sum()) for s in some)
    level = sum(float(sums.levels.total.sum()) for sums in some) / marks if marks else PRIOR_MEAN.level
    start = np.array(Parameters(*prior.mean.tolist())._replace(level=level))
    guess = np.linalg.inv(prior.precision + 3.0 * count * np.eye(len(start)))
    at, converged = maximum(lambda at: log_evidence(some, at, prior), start, guess)
    steps = np.eye(len(PRIOR_MEAN)) * _STEP
    around = at + np.concatenate([-steps, steps])
    slopes = np.concatenate([log_evidence(some, around[part], prior)[1] for part in at_a_time(len(around), some)])
    bends = (slopes[: len(at)] - slopes[len(at) :]) / (2 * _STEP)
    values, vectors = np.linalg.eigh((bends + bends.T) / 2)
    covariance = (vectors / np.maximum(values, _LEAST_CURVATURE)) @ vectors.T
    points = judge_points(at, covariance, lambda points: log_probabilities(some, points, prior))
    mode = Parameters(*at.tolist())
    return LearntJudge(mode, covariance, points, converged, learnt_widths(some, mode, prior.noise_widths))


def maximum(function: ValueAndSlope, start: Floats, inverse_curvature: Floats) -> tuple[Floats, bool]:
    """Return where `function` is greatest, from `start` on, and whether the search converged.

    BFGS with backtracking (Nocedal and Wright, Numerical Optimization, 6.1 and 3.1).
    """
    at, curvature = start, inverse_curvature
    value, slope = function(at)
    for _ in range(_MOST_STEPS):
        direction = curvature @ slope
        step = min(1.0, _LONGEST_MOVE / float(np.abs(direction).max() or 1.0))
        new, new_value, new_slope = at, value, slope
        while step > _SHORTEST_STEP:
            new = at + step * direction
            new_value, new_slope = function(new)
            if new_value >= value + _ENOUGH * step * float(slope @ direction):
                break
            step /= 2
        else:
            return at, _is_flat(slope, curvature)
        curvature = _updated(curvature, new - at, slope - new_slope)
        rise, at, value, slope = new_value - value, new, new_value, new_slope
        if rise < _TOLERANCE and _is_flat(slope, curvature):
            return at, True
    return at, False


def _is_flat(slope: Floats, inverse_curvature: Floats) -> bool:
    steepest, promised = float(np.abs(slope).max()), float(slope @ inverse_curvature @ slope)
    return steepest < _FLAT or (steepest < _NEARLY_FLAT and promised < _TOLERANCE)


def _updated(curvature: Floats, move: Floats, bend: Floats) -> Floats:
    along = float(move @ bend)
    if along <= 0:
        return curvature
    turn = np.eye(len(move)) - np.outer(move, bend) / along
    return turn @ curvature @ turn.T + np.outer(move, move) / along


def judge_points(mode: Floats, covariance: Floats, log_probabilities: Callable[[Floats], Floats]) -> JudgePoints:
    """Return points that stand for the posterior of the parameters, whose mode and covariance by Laplace are given.

    Where few groups teach the judge, the posterior is no normal: points spread evenly are weighted by their probability
    (importance sampling: Geweke 1989, Econometrica 57). Where the judge is known well, the points of the unscented
    transform do, which are fewer (Julier and Uhlmann 1997). Level and first side have none of their own, since the
    scores are linear in them. The points are always the same, also for sides swapped and scores turned.
    """
    turned = _turning(mode) @ covariance @ _turning(mode).T
    rest = turned[:_LINEAR, :_LINEAR]
    follows = np.linalg.solve(rest, turned[:_LINEAR, _LINEAR:]).T
    linear = turned[_LINEAR:, _LINEAR:] - follows @ turned[:_LINEAR, _LINEAR:]
    steps = _point_steps(
        is_known_well=bool(np.sqrt(rest.diagonal()[[QUALITY, _PREFERENCE, _LEVEL_NOISE]]).max() <= _KNOWN_WELL)
    )
    moves = steps @ np.linalg.cholesky(rest).T
    at = _parameters(_total_and_ratio(mode) + np.hstack([moves, moves @ follows.T]))
    if len(steps) < _DRAWN:
        return JudgePoints(at, np.full(len(at), 1 / len(at)), linear)
    squares = (steps * steps).sum(axis=1)
    logs = log_probabilities(at) - np.logaddexp(-squares / 2, -squares / (2 * _WIDER**2) - _LINEAR * np.log(_WIDER))
    weights = np.exp(logs - logs.max())
    counts = weights > 0
    return JudgePoints(at[counts], weights[counts] / weights.sum(), linear)


def _total_and_ratio(at: Floats) -> Floats:
    """Return the parameters with the logarithms of the sum and the ratio of the margins' two noises in their place.

    Of pairs judged in one order the sum alone is known. The Jacobian is 1.
    """
    turned = at.copy()
    turned[_PREFERENCE] = np.logaddexp(at[_PREFERENCE], at[_POSITION])
    turned[_POSITION] = at[_PREFERENCE] - at[_POSITION]
    return turned


def _parameters(turned: Floats) -> Floats:
    """Return the parameters (K, 9) of points that `_total_and_ratio` would turn so."""
    at, total, ratio = turned.copy(), turned[:, _PREFERENCE], turned[:, _POSITION]
    at[:, _PREFERENCE] = total - np.logaddexp(0, -ratio)
    at[:, _POSITION] = total - np.logaddexp(0, ratio)
    return at


def _turning(mode: Floats) -> Floats:
    """Return the derivatives of `_total_and_ratio`."""
    turning = np.eye(len(mode))
    share = 1 / (1 + np.exp(mode[_POSITION] - mode[_PREFERENCE]))
    turning[_PREFERENCE, [_PREFERENCE, _POSITION]] = share, 1 - share
    turning[_POSITION, [_PREFERENCE, _POSITION]] = 1, -1
    return turning


@cache
def _point_steps(*, is_known_well: bool) -> Floats:
    """Return steps in standard deviations, (K, 7): along the axes, or spread evenly as two normals are.

    Evenly: the additive recurrence of the root of x^8 = x + 1, which fills seven dimensions (Roberts 2018), and minus
    each of its steps.
    """
    if is_known_well:
        return np.sqrt(_LINEAR) * np.concatenate([np.eye(_LINEAR), -np.eye(_LINEAR)])
    root = 2.0
    for _ in range(64):
        root = (1 + root) ** (1 / (_LINEAR + 1))
    shares = (0.5 + np.arange(1, _DRAWN // 2 + 1)[:, None] / root ** np.arange(1, _LINEAR + 1)) % 1
    steps = np.vectorize(NormalDist().inv_cdf)(shares)
    steps[1::2] *= _WIDER
    return np.concatenate([steps, -steps])
