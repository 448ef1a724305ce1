"""Points over which `pooled` averages, because a judge's parameters are not known exactly, and their weights."""

from collections.abc import Callable
from functools import cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from harness.ranking.comparisons import Floats

_QUALITY, _PREFERENCE, _POSITION, _LEVEL_NOISE, _LINEAR = 0, 3, 4, 5, 7
"""Where the parameters stand. The scores are linear in those from the last place on, level and first side."""
_KNOWN_WELL = 0.15
"""Up to this standard deviation of the variances' logarithms, what follows from the parameters is nearly linear."""
_DRAWN, _WIDER = 128, 1.7
"""Half of the points are drawn from a normal wider by this factor, so that a long tail has points."""


class JudgePoints(NamedTuple):
    """The posterior of the parameters: K points with their weights, which sum to 1, and a normal about each."""

    at: Floats
    """(K, 9)."""
    weights: Floats
    """(K,)."""
    linear: Floats
    """(2, 2): the covariance of level and first side about each point."""


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
    steps = _steps(
        is_known_well=bool(np.sqrt(rest.diagonal()[[_QUALITY, _PREFERENCE, _LEVEL_NOISE]]).max() <= _KNOWN_WELL)
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
def _steps(*, is_known_well: bool) -> Floats:
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
