"""How much a judge's noise differs from group to group, and what a group's own calls say of the noise on it.

Some queries are harder to judge than others, and now and then a judge errs wildly. Groups whose calls contradict each
other more than the judge's noise explains have a noise of their own: its logarithm is normal about that of the judge.
How wide that normal is, is learnt from all groups. Of a judge whose noise is the same everywhere the width is 0, and
nothing here changes a fit; the wider it is, the less sure is a group whose calls contradict each other.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from harness.ranking.comparisons import Floats
from harness.ranking.judge_prior import NOISE_WIDTHS, Parameters
from harness.ranking.pooled_model import (
    covariances_of,
    judges_at,
    log_likelihoods,
    means_of,
    posterior,
)
from harness.ranking.pooled_sums import PoolSums

STEPS: Floats = np.linspace(-1.8, 1.8, 9)
"""(S,): logarithms of a group's noise variance over the judge's, over which a group's fit is averaged."""
_NOISES = [at for at, name in enumerate(Parameters._fields) if name.endswith("_noise")]
_LEAST_VARIANCE, _LEAST_LOG = 1e-12, -500.0
_JUDGES_OWN = len(STEPS) // 2


class OnGroups(NamedTuple):
    """What a noise of their own changes in the fits of G groups of n rollouts."""

    moved: Floats
    """(G, n + 1): how far the means of the qualities, and of what standing first is worth, move."""
    between: Floats
    """(G, n + 1, n + 1): the covariance of the means over the steps."""
    wider: Floats
    """(G, n + 1): by how much standard deviations grow."""
    log_scale_var: Floats
    """(G,): the variance of the logarithm of the posterior's scale."""


def _shares() -> Floats:
    """Return how probable each step is for each width, (W, S): a noise variance is the judge's own on the average."""
    logs = -((STEPS / np.maximum(NOISE_WIDTHS[:, None], 1e-3)) ** 2) / 2 - STEPS / 2
    shares = np.exp(logs - logs.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


_SHARES = _shares()


def learnt_widths(pool: Sequence[PoolSums], at: Parameters[float], believed: Floats) -> Floats:
    """Return how probable each width is, (W,), after what the groups show, and `believed` before."""
    if believed[0] == 1:
        return believed
    logs = np.log(believed)
    for sums in pool:
        logs += np.log(_likelihoods(sums, at) @ _SHARES.T).sum(axis=0)
    weights = np.exp(logs - logs.max())
    return weights / weights.sum()


def on_groups(sums: PoolSums, at: Parameters[float], widths: Floats) -> OnGroups | None:
    """Return what the groups' own noises change; None where noise is the same on all of them."""
    if widths[0] == 1:
        return None
    judges, n = _judges(at), sums.n
    here = posterior(sums, judges)
    weights = _weights(sums, at, widths)
    means = means_of(here, judges.first_side, n)
    away = means - means[_JUDGES_OWN]
    moved = np.einsum("gs,sgi->gi", weights, away)
    squares = np.einsum("gs,sgi,sgj->gij", weights, away, away)
    variances = np.maximum(np.diagonal(covariances_of(here, n), axis1=-2, axis2=-1), _LEAST_VARIANCE)[:, sums.design]
    logs = np.log(variances[..., :n].sum(axis=-1)).T
    mean_logs = (weights * logs).sum(axis=1, keepdims=True)
    return OnGroups(
        moved=moved,
        between=squares - moved[:, :, None] * moved[:, None, :],
        wider=np.sqrt(np.einsum("gs,sgi->gi", weights, variances) / variances[_JUDGES_OWN]),
        log_scale_var=(weights * (logs - mean_logs) ** 2).sum(axis=1),
    )


def _weights(sums: PoolSums, at: Parameters[float], widths: Floats) -> Floats:
    """Return how probable each step is for each group, (G, S)."""
    of_width = _likelihoods(sums, at)[:, None, :] * _SHARES
    of_width /= of_width.sum(axis=-1, keepdims=True)
    return widths @ of_width


def _likelihoods(sums: PoolSums, at: Parameters[float]) -> Floats:
    """Return how probable the calls of each group are at each step, (G, S); 1 at the most probable step, never 0."""
    judges = _judges(at)
    logs = log_likelihoods(sums, judges, posterior(sums, judges)).T
    return np.exp(np.maximum(logs - logs.max(axis=1, keepdims=True), _LEAST_LOG))


def _judges(at: Parameters[float]) -> Parameters[Floats]:
    points = np.tile(np.array(at), (len(STEPS), 1))
    points[:, _NOISES] += STEPS[:, None]
    return judges_at(points)
