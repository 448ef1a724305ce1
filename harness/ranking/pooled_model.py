"""The model behind `pooled`: what a judge's scores are made of, how probable they are, what they say of each group.

For side s of a call with rollout i first and j second, in a group g, with m = (theta_i + theta_j)/2 and pos = 1/2 for
the first side, -1/2 for the second:

    y = mu + delta_g + kappa m + (theta_s - m) + pos (beta + b_g) + noise
    theta ~ N(0, tau^2)   delta_g ~ N(0, level_var)   b_g ~ N(0, side_var)

kappa is the share of a mark's absolute level that is real. A call is told apart into its margin (first less second) and
its level (their mean), whose noises are independent. Of a pair judged in both orders, half of the difference of the
margins speaks of the rollouts, and the mean of the margins of the first side: each has a noise of its own, so that what
varies by position from pair to pair widens no interval from which it cancels. A pair judged in one order has both.

A linear mixed model (Laird and Ware 1982), with the parameters by maximum a posteriori over all groups.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from harness.ranking.comparisons import Floats
from harness.ranking.pooled_sums import Block, PoolSums


class Parameters(NamedTuple):
    """The model's parameters as the fit moves them: variances by their logarithm. In score points of 0 to 10."""

    log_quality_var: float
    log_level_var: float
    log_side_var: float
    log_preference_noise: float
    """Of half the difference of two orders' margins."""
    log_position_noise: float
    """Of the mean of two orders' margins."""
    log_level_noise: float
    level_share: float
    """kappa."""
    level: float
    """mu."""
    first_side: float
    """beta."""


PRIOR_MEAN = Parameters(
    log_quality_var=math.log(2),
    log_level_var=math.log(0.5),
    log_side_var=math.log(0.25),
    log_preference_noise=math.log(4),
    log_position_noise=math.log(0.7),
    log_level_noise=math.log(0.5),
    level_share=0.5,
    level=5.0,
    first_side=0.0,
)
"""Weak: eight groups outweigh it. It is what a group alone goes by."""
PRIOR_SD = Parameters(0.8, 1.2, 1.2, 1.3, 1.3, 1.2, 0.4, 3.0, 1.0)
_NAMES = Parameters._fields


@dataclass(frozen=True, eq=False)
class Prior:
    """What is believed of the parameters before the groups are seen: a normal."""

    mean: Floats
    """(9,)."""
    precision: Floats
    """(9, 9)."""


WEAK = Prior(np.array(PRIOR_MEAN), np.diag(np.array(PRIOR_SD) ** -2.0))


class Posterior(NamedTuple):
    """What the scores say of G groups of n rollouts, given the parameters: normal, of (theta_1..n, b, delta)."""

    precision: Floats
    """(D, n + 2, n + 2), one for each design."""
    covariance: Floats
    collected: Floats
    """(G, n + 2): the precision times the mean."""
    mean: Floats
    """(G, n + 2)."""


class _Term(NamedTuple):
    """How a block of observations stands in the model: y = gain X theta + f (offset + latent) + noise."""

    block: Block
    noise: float
    gain: float
    offset: float
    latent: int
    """Counted from n: 0 is b, 1 is delta."""


def _terms(sums: PoolSums, at: Parameters) -> tuple[_Term, _Term, _Term, _Term]:
    preference, position = math.exp(at.log_preference_noise), math.exp(at.log_position_noise)
    return (
        _Term(sums.single, preference + position, 1.0, at.first_side, 0),
        _Term(sums.halves, preference, 1.0, 0.0, 0),
        _Term(sums.sides, position, 1.0, at.first_side, 0),
        _Term(sums.levels, math.exp(at.log_level_noise), at.level_share, at.level, 1),
    )


def _prior_vars(at: Parameters, n: int) -> Floats:
    return np.exp([at.log_quality_var] * n + [at.log_side_var, at.log_level_var])


def posterior(sums: PoolSums, at: Parameters) -> Posterior:
    """Return the posterior of each group's qualities, first-side effect and level."""
    n, groups = sums.n, len(sums.design)
    precision = np.zeros((len(sums.single.number), n + 2, n + 2))
    precision[:, range(n + 2), range(n + 2)] = 1 / _prior_vars(at, n)
    collected = np.zeros((groups, n + 2))
    for block, noise, gain, offset, latent in _terms(sums, at):
        place = n + latent
        precision[:, :n, :n] += block.information * (gain * gain / noise)
        precision[:, :n, place] += block.shift * (gain / noise)
        precision[:, place, place] += block.shifts / noise
        collected[:, :n] += (block.collected - offset * block.shift[sums.design]) * (gain / noise)
        collected[:, place] += (block.total - offset * block.shifts[sums.design]) / noise
    precision[:, n:, :n] = precision[:, :n, n:].swapaxes(1, 2)
    covariance = np.linalg.inv(precision)
    return Posterior(precision, covariance, collected, _each(covariance, sums, collected))


def _each(matrices: Floats, sums: PoolSums, vectors: Floats) -> Floats:
    """Return for each group its design's matrix times its vector."""
    if len(matrices) == 1:
        return vectors @ matrices[0]
    return np.einsum("gij,gj->gi", matrices[sums.design], vectors)


def log_evidence(pool: Sequence[PoolSums], at: Parameters, prior: Prior = WEAK) -> tuple[float, Floats]:
    """Return the logarithm of likelihood times prior, up to a constant, and its gradient in the parameters."""
    away = np.array(at) - prior.mean
    gradient = -prior.precision @ away
    value = 0.5 * float(away @ gradient)
    for sums in pool:
        of_size = posterior(sums, at)
        value += _log_likelihood(sums, at, of_size)
        for name, slope in _slopes(sums, at, of_size):
            gradient[_NAMES.index(name)] += slope
    return value, gradient


def log_probability(pool: Sequence[PoolSums], at: Parameters, prior: Prior = WEAK) -> float:
    """Return the same logarithm alone."""
    away = np.array(at) - prior.mean
    return float(-0.5 * away @ prior.precision @ away) + sum(
        _log_likelihood(sums, at, posterior(sums, at)) for sums in pool
    )


def _log_likelihood(sums: PoolSums, at: Parameters, of_groups: Posterior) -> float:
    """Return the groups' marginal likelihood: theta, b and delta are integrated out."""
    per_design = np.bincount(sums.design, minlength=len(of_groups.precision))
    misfit = float((of_groups.collected * of_groups.mean).sum())
    logs = len(sums.design) * float(np.log(_prior_vars(at, sums.n)).sum())
    logs += float(per_design @ np.linalg.slogdet(of_groups.precision)[1])
    for block, noise, _, offset, _ in _terms(sums, at):
        square = block.square.sum() - 2 * offset * block.total.sum() + offset**2 * (per_design @ block.shifts)
        misfit -= float(square) / noise
        logs += float(per_design @ block.number) * math.log(noise)
    return (misfit - logs) / 2


def _slopes(sums: PoolSums, at: Parameters, of_groups: Posterior) -> Iterator[tuple[str, float]]:
    """Yield the gradient of the likelihood, as the posterior mean of the gradient given all (Fisher's identity)."""
    n, groups = sums.n, len(sums.design)
    per_design = np.bincount(sums.design, minlength=len(of_groups.covariance)).astype(np.float64)
    moments = (of_groups.mean**2).sum(axis=0) + per_design @ np.diagonal(of_groups.covariance, axis1=1, axis2=2)
    scaled = moments / _prior_vars(at, n)
    yield "log_quality_var", (float(scaled[:n].sum()) - groups * n) / 2
    yield "log_side_var", (float(scaled[n]) - groups) / 2
    yield "log_level_var", (float(scaled[n + 1]) - groups) / 2
    single, halves, sides, levels = (_term_slopes(term, sums, of_groups, per_design) for term in _terms(sums, at))
    yield "log_preference_noise", math.exp(at.log_preference_noise) * (single.noise + halves.noise)
    yield "log_position_noise", math.exp(at.log_position_noise) * (single.noise + sides.noise)
    yield "log_level_noise", math.exp(at.log_level_noise) * levels.noise
    yield "level_share", levels.gain
    yield "level", levels.offset
    yield "first_side", single.offset + sides.offset


class _TermSlopes(NamedTuple):
    noise: float
    gain: float
    offset: float


def _term_slopes(term: _Term, sums: PoolSums, of_groups: Posterior, per_design: Floats) -> _TermSlopes:
    (block, noise, gain, offset, latent), n = term, sums.n
    place, of = n + latent, sums.design
    theta, extra = of_groups.mean[:, :n], of_groups.mean[:, place] + offset
    covariance = of_groups.covariance * per_design[:, None, None]
    squares = float((_each(block.information, sums, theta) * theta).sum())
    squares += float((covariance[:, :n, :n] * block.information).sum())
    shifted = (block.shift[of] * theta).sum(axis=1)
    crossed = float(shifted @ extra) + float((covariance[:, :n, place] * block.shift).sum())
    extras = float(block.shifts[of] @ extra**2) + float(covariance[:, place, place] @ block.shifts)
    fitted, totals = float((block.collected * theta).sum()), float(block.total @ extra)
    error = float(block.square.sum()) - 2 * (gain * fitted + totals - gain * crossed) + gain**2 * squares + extras
    return _TermSlopes(
        noise=(error / noise - float(per_design @ block.number)) / (2 * noise),
        gain=(fitted - gain * squares - crossed) / noise,
        offset=(float(block.total.sum()) - gain * float(shifted.sum()) - float(block.shifts[of] @ extra)) / noise,
    )
