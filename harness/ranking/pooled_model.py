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

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from harness.ranking.comparisons import WEAK, Amount, Floats, Parameters, Prior
from harness.ranking.pooled_sums import Block, PoolSums

_NAMES = Parameters._fields
_NUMBERS_AT_ONCE = 500_000
_LEARNT_AT_ONCE = 20_000
"""Where hundreds of groups teach a judge: in arrays as small as these they take no more memory than a hundred."""
LEAST_NOISE = 0.1**2 / 12
"""The variance of rounding to tenths, as marks are. Below that no noise goes: of a judge who contradicts nothing, all
would be lost in the rounding of numbers."""


class Posterior(NamedTuple):
    """What the scores say of G groups of n rollouts, given the parameters: normal, of (theta_1..n, b, delta).

    With parameters (P,) all shapes begin with P.
    """

    precision: Floats
    """(D, n + 2, n + 2), one for each design."""
    covariance: Floats
    collected: Floats
    """(G, n + 2): the precision times the mean."""
    mean: Floats
    """(G, n + 2)."""


class _Term(NamedTuple):
    """How a block of observations stands in the model: y = gain X theta + f (offset + latent) + noise.

    Noise, gain and offset are numbers, or (P,).
    """

    block: Block
    noise: Any
    gain: Any
    offset: Any
    latent: int
    """Counted from n: 0 is b, 1 is delta."""


def _terms(sums: PoolSums, at: Parameters[Amount]) -> tuple[_Term, ...]:
    preference, position = _noise(at.log_preference_noise), _noise(at.log_position_noise)
    one, none = (np.ones_like(at.level), np.zeros_like(at.level)) if np.ndim(at.level) else (1.0, 0.0)
    return (
        _Term(sums.single, preference + position, one, at.first_side, 0),
        _Term(sums.halves, preference, one, none, 0),
        _Term(sums.sides, position, one, at.first_side, 0),
        _Term(sums.levels, _noise(at.log_level_noise), at.level_share, at.level, 1),
    )


def _observed(terms: Sequence[_Term]) -> Iterator[_Term]:
    """Yield the terms with an observation: where no pair was judged in both orders, two have none."""
    return (term for term in terms if term.block.number.any())


def _noise(log_noise: Amount) -> Any:
    """Return a variance of the noise: that of the parameter, except that it ends at the least one, smoothly."""
    return np.hypot(np.exp(log_noise), LEAST_NOISE)


def _noise_slope(log_noise: Amount) -> Any:
    """Return the derivative of `_noise`."""
    return np.exp(2 * log_noise) / _noise(log_noise)


def prior_vars(at: Parameters[Amount], n: int) -> Floats:
    """Return the prior variances of (theta_1..n, b, delta), (n + 2,)."""
    return np.exp(np.stack([at.log_quality_var] * n + [at.log_side_var, at.log_level_var], axis=-1))


def posterior(sums: PoolSums, at: Parameters[Amount]) -> Posterior:
    """Return the posterior of each group's qualities, first-side effect and level."""
    n, groups, judges = sums.n, len(sums.design), np.shape(at.level)
    precision = np.zeros((*judges, len(sums.single.number), n + 2, n + 2))
    precision[..., range(n + 2), range(n + 2)] = 1 / prior_vars(at, n)[..., None, :]
    collected = np.zeros((*judges, groups, n + 2))
    for block, noise, gain, offset, latent in _observed(_terms(sums, at)):
        place, scaled = n + latent, _across(gain / noise, 2)
        precision[..., :n, :n] += block.information * _across(gain * gain / noise, 3)
        precision[..., :n, place] += block.shift * scaled
        precision[..., place, place] += block.shifts / _across(noise)
        collected[..., :n] += (block.collected - _across(offset, 2) * block.shift[sums.design]) * scaled
        collected[..., place] += (block.total - _across(offset) * block.shifts[sums.design]) / _across(noise)
    precision[..., n:, :n] = precision[..., :n, n:].swapaxes(-1, -2)
    covariance = _inverses(precision)
    return Posterior(precision, covariance, collected, _each(covariance, sums, collected))


def _inverses(matrices: Floats) -> Floats:
    """Return the inverses of matrices (..., m, m); nan for those that rounding has made singular."""
    try:
        return np.linalg.inv(matrices)
    except np.linalg.LinAlgError:
        regular = np.linalg.matrix_rank(matrices, hermitian=True) == matrices.shape[-1]
        inverses = np.full_like(matrices, np.nan)
        inverses[regular] = np.linalg.inv(matrices[regular])
        return inverses


def _across(values: Any, axes: int = 1) -> Floats:
    """Return one value, or one of each judge, so that it goes with so many axes more."""
    return values[(..., *[None] * axes)] if np.ndim(values) else values


def _each(matrices: Floats, sums: PoolSums, vectors: Floats) -> Floats:
    """Return for each group its design's matrix times its vector."""
    if matrices.shape[-3] == 1:
        return vectors @ matrices[..., 0, :, :]
    return np.einsum("...gij,...gj->...gi", matrices[..., sums.design, :, :], vectors)


def posterior_means(of_groups: Posterior, first_side: Any, n: int) -> Floats:
    """Return each group's qualities about their mean, and what standing first is worth, (G, n + 1), or (P, G, n + 1).

    `first_side` is beta, a number or (P,).
    """
    means = about_their_mean(of_groups.mean[..., : n + 1], n)
    means[..., n] += np.reshape(first_side, (*np.shape(first_side), 1))
    return means


def posterior_covariances(of_groups: Posterior, n: int) -> Floats:
    """Return the designs' covariances of these, (D, n + 1, n + 1), or (P, D, n + 1, n + 1)."""
    rows = about_their_mean(of_groups.covariance[..., : n + 1, : n + 1], n)
    return about_their_mean(rows.swapaxes(-1, -2), n)


def about_their_mean(values: Floats, n: int) -> Floats:
    """Return values (..., n + 1) with the mean of the first n taken from these."""
    away = values.copy()
    away[..., :n] -= values[..., :n].mean(axis=-1, keepdims=True)
    return away


def log_evidence(pool: Sequence[PoolSums], at: Floats, prior: Prior = WEAK) -> tuple[Any, Floats]:
    """Return the logarithm of likelihood times prior, up to a constant, and its gradient in the parameters.

    Of one judge, `at` (9,), or of each judge of (P, 9).
    """
    away, judge = at - prior.mean, judges_at(at)
    gradient = -away @ prior.precision
    value = 0.5 * (away * gradient).sum(axis=-1)
    for sums in pool:
        of_size = posterior(sums, judge)
        value = value + log_likelihoods(sums, judge, of_size).sum(axis=-1)
        for name, slope in _slopes(sums, judge, of_size):
            gradient[..., _NAMES.index(name)] += slope
    return value, gradient


def log_probabilities(pool: Sequence[PoolSums], points: Floats, prior: Prior = WEAK) -> Floats:
    """Return the same logarithm alone, (P,), of each judge of `points` (P, 9).

    It is -inf for a judge without noise to speak of, whose numbers are beyond computing; only a point far out in the
    tail of a judge who contradicts nothing is such a judge.
    """
    away = points - prior.mean
    logs = -0.5 * np.einsum("pi,ij,pj->p", away, prior.precision, away)
    for part in at_a_time(len(points), pool, _LEARNT_AT_ONCE):
        at = judges_at(points[part])
        logs[part] += sum(log_likelihoods(sums, at, posterior(sums, at)).sum(axis=-1) for sums in pool)
    return np.where(np.isfinite(logs), logs, -np.inf)


def at_a_time(count: int, pool: Sequence[PoolSums], most: int = _NUMBERS_AT_ONCE) -> Iterator[slice]:
    """Yield which of so many judges are computed at a time: one, or as many as make arrays of `most` numbers."""
    numbers = max(((len(sums.design) + len(sums.single.number) * sums.n) * sums.n for sums in pool), default=1)
    some = max(1, most // numbers)
    return (slice(begin, begin + some) for begin in range(0, count, some))


def judges_at(points: Floats) -> Parameters[Floats]:
    """Return a point (9,) as the parameters of a judge, points (P, 9) as those of P judges."""
    return Parameters(*np.moveaxis(points, -1, 0))


def log_likelihoods(sums: PoolSums, at: Parameters[Amount], of_groups: Posterior) -> Floats:
    """Return each group's marginal likelihood, (G,) or (P, G): theta, b and delta are integrated out."""
    of = sums.design
    logs = np.linalg.slogdet(of_groups.precision)[1][..., of] + _across(np.log(prior_vars(at, sums.n)).sum(axis=-1))
    for term in _observed(_terms(sums, at)):
        logs = logs + term.block.number[of] * _across(np.log(term.noise))
    misfit = (of_groups.collected * of_groups.mean).sum(axis=-1) - squares(sums, at)
    return (misfit - logs) / 2


def squares(sums: PoolSums, at: Parameters[Amount]) -> Any:
    """Return for each group, (G,) or (P, G), the sum of its squared observations, each over its noise."""
    total = np.zeros(len(sums.design))
    for block, noise, _, offset, _ in _observed(_terms(sums, at)):
        shifted = block.square - 2 * _across(offset) * block.total + _across(offset) ** 2 * block.shifts[sums.design]
        total = total + shifted / _across(noise)
    return total


def _slopes(sums: PoolSums, at: Parameters[Amount], of_groups: Posterior) -> Iterator[tuple[str, Any]]:
    """Yield the gradient of the likelihood, as the posterior mean of the gradient given all (Fisher's identity)."""
    n, groups = sums.n, len(sums.design)
    per_design = np.bincount(sums.design, minlength=of_groups.covariance.shape[-3]).astype(np.float64)
    moments = (of_groups.mean**2).sum(axis=-2) + per_design @ np.diagonal(of_groups.covariance, axis1=-2, axis2=-1)
    scaled = moments / prior_vars(at, n)
    yield "log_quality_var", (scaled[..., :n].sum(axis=-1) - groups * n) / 2
    yield "log_side_var", (scaled[..., n] - groups) / 2
    yield "log_level_var", (scaled[..., n + 1] - groups) / 2
    single, halves, sides, levels = (_term_slopes(term, sums, of_groups, per_design) for term in _terms(sums, at))
    yield "log_preference_noise", _noise_slope(at.log_preference_noise) * (single.noise + halves.noise)
    yield "log_position_noise", _noise_slope(at.log_position_noise) * (single.noise + sides.noise)
    yield "log_level_noise", _noise_slope(at.log_level_noise) * levels.noise
    yield "level_share", levels.gain
    yield "level", levels.offset
    yield "first_side", single.offset + sides.offset


class _TermSlopes(NamedTuple):
    """Numbers, or (P,)."""

    noise: Any
    gain: Any
    offset: Any


def _term_slopes(term: _Term, sums: PoolSums, of_groups: Posterior, per_design: Floats) -> _TermSlopes:
    (block, noise, gain, offset, latent), n = term, sums.n
    if not block.number.any():
        return _TermSlopes(0.0, 0.0, 0.0)
    place, of = n + latent, sums.design
    theta, extra = of_groups.mean[..., :n], of_groups.mean[..., place] + _across(offset)
    covariance = of_groups.covariance * per_design[:, None, None]
    squares = (_each(block.information, sums, theta) * theta).sum(axis=(-1, -2))
    squares = squares + (covariance[..., :n, :n] * block.information).sum(axis=(-1, -2, -3))
    shifted = (block.shift[of] * theta).sum(axis=-1)
    crossed = (shifted * extra).sum(axis=-1) + (covariance[..., :n, place] * block.shift).sum(axis=(-1, -2))
    extras = extra**2 @ block.shifts[of] + covariance[..., place, place] @ block.shifts
    fitted, totals = (block.collected * theta).sum(axis=(-1, -2)), extra @ block.total
    error = block.square.sum() - 2 * (gain * fitted + totals - gain * crossed) + gain**2 * squares + extras
    return _TermSlopes(
        noise=(error / noise - float(per_design @ block.number)) / (2 * noise),
        gain=(fitted - gain * squares - crossed) / noise,
        offset=(block.total.sum() - gain * shifted.sum(axis=-1) - extra @ block.shifts[of]) / noise,
    )
