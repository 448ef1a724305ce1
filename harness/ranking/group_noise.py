"""How much a judge's noise differs from group to group, and what a group's own calls say of the noise on it.

Some queries are harder to judge than others, and now and then a judge errs wildly. Groups whose calls contradict each
other more than the judge's noise explains have a noise of their own: its logarithm is normal about that of the judge.
How wide that normal is, is learnt from all groups. Of a judge whose noise is the same everywhere the width is 0, and
nothing here changes a fit; the wider it is, the less sure is a group whose calls contradict each other.

A group's noise is averaged over steps. In the basis that turns a design's information into a diagonal, each step
shrinks each coordinate by a number, so that all steps cost about one posterior.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from harness.ranking.comparisons import NOISE_WIDTHS, Floats, Parameters
from harness.ranking.pooled_model import about_their_mean, posterior, prior_vars, squares
from harness.ranking.pooled_sums import PoolSums

STEPS: Floats = np.linspace(-1.8, 1.8, 9)
"""(S,): logarithms of a group's noise variance over the judge's, over which a group's fit is averaged."""
_PRECISIONS: Floats = np.exp(-STEPS)
_JUDGES_OWN = len(STEPS) // 2
_LEAST_VARIANCE, _LEAST_LOG, _LEAST_WIDTH = 1e-12, -500.0, 1e-3


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


class _Turned(NamedTuple):
    """Groups of n rollouts in the basis of their design, B, with m = n + 2 coordinates.

    At a step of noise with the precision r their posterior has the covariance B diag(shrunk) B', and the mean
    B diag(shrunk) r c.
    """

    basis: Floats
    """(D, m, m)."""
    shrunk: Floats
    """(S, D, m)."""
    collected: Floats
    """c, (G, m)."""
    logs: Floats
    """(G, S): the logarithms of how probable the group's calls are, up to a constant."""


def _shares() -> Floats:
    """Return how probable each step is for each width, (W, S): a noise variance is the judge's own on the average."""
    logs = -((STEPS / np.maximum(NOISE_WIDTHS[:, None], _LEAST_WIDTH)) ** 2) / 2 - STEPS / 2
    shares = np.exp(logs - logs.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


_SHARES = _shares()


def learnt_widths(pool: Sequence[PoolSums], at: Parameters[float], believed: Floats) -> Floats:
    """Return how probable each width is, (W,), after what the groups show, and `believed` before."""
    logs = np.log(believed)
    for sums in pool:
        logs += np.log(_likelihoods(_turned(sums, at)) @ _SHARES.T).sum(axis=0)
    weights = np.exp(logs - logs.max())
    return weights / weights.sum()


def on_groups(sums: PoolSums, at: Parameters[float], widths: Floats) -> OnGroups:
    """Return what the groups' own noises change."""
    turned, of, n = _turned(sums, at), sums.design, sums.n
    of_width = _likelihoods(turned)[:, None, :] * _SHARES
    of_width /= of_width.sum(axis=-1, keepdims=True)
    weights = widths @ of_width  # how probable each step is for each group, (G, S)
    basis = about_their_mean(turned.basis[:, : n + 1].swapaxes(-1, -2), n)
    gains = _PRECISIONS[:, None, None] * turned.shrunk
    away = ((gains - gains[_JUDGES_OWN])[:, of] * turned.collected).swapaxes(0, 1) @ basis[of]
    moved = (weights[:, None, :] @ away)[:, 0]
    variances = np.maximum(turned.shrunk.swapaxes(0, 1) @ basis**2, _LEAST_VARIANCE)[of]
    logs = np.log(variances[..., :n].sum(axis=-1))
    return OnGroups(
        moved=moved,
        between=(away * weights[:, :, None]).swapaxes(1, 2) @ away - moved[:, :, None] * moved[:, None, :],
        wider=np.sqrt((weights[:, None, :] @ variances)[:, 0] / variances[:, _JUDGES_OWN]),
        log_scale_var=(weights * logs**2).sum(axis=1) - (weights * logs).sum(axis=1) ** 2,
    )


def _turned(sums: PoolSums, at: Parameters[float]) -> _Turned:
    here, variances, of = posterior(sums, at), prior_vars(at, sums.n), sums.design
    scales = np.sqrt(variances)
    information = here.precision - np.diag(1 / variances)
    values, vectors = np.linalg.eigh(information * np.outer(scales, scales))
    basis, grown = scales[:, None] * vectors, 1 + _PRECISIONS[:, None, None] * np.maximum(values, 0)
    collected = (here.collected[:, None, :] @ basis[of])[:, 0]
    observed = sum(block.number for block in (sums.single, sums.halves, sums.sides, sums.levels))
    fitted = _PRECISIONS[:, None] ** 2 * ((collected**2)[:, None, :] / grown.swapaxes(0, 1)[of]).sum(axis=-1).T
    grown_logs = np.log(grown).sum(axis=-1) + np.outer(STEPS, observed)
    logs = fitted - _PRECISIONS[:, None] * squares(sums, at) - grown_logs[:, of]
    return _Turned(basis, 1 / grown, collected, logs.T / 2)


def _likelihoods(turned: _Turned) -> Floats:
    """Return how probable the calls of each group are at each step, (G, S); 1 at the most probable step, never 0."""
    return np.exp(np.maximum(turned.logs - turned.logs.max(axis=1, keepdims=True), _LEAST_LOG))
