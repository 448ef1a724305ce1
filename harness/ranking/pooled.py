"""`pooled`: the judge learnt from all groups of a ranking, then each group's posterior."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from harness.ranking.ceiling import share_at_ends
from harness.ranking.comparisons import Comparisons, Fit, Floats, projected
from harness.ranking.maximum import maximum
from harness.ranking.pooled_model import PRIOR_MEAN, WEAK, Parameters, Posterior, Prior, log_evidence, posterior
from harness.ranking.pooled_sums import PoolSums, pool_sums, thinned

GROUPS_LEARNT_FROM = 2000
"""More teach nothing of a judge that its first two thousand groups of a size have not taught, and take time."""
_STEP = 1e-3
"""Of the numerical derivatives: parameters are logarithms, shares and score points."""
_LEAST_CURVATURE = 0.1
"""The prior's own; less is rounding."""


@dataclass(frozen=True, eq=False)
class LearntJudge:
    """What a pool of groups teaches of their judge."""

    parameters: Parameters
    """The mode of the posterior."""
    covariance: Floats
    """(9, 9), of the parameters about the mode, by Laplace's approximation."""
    converged: bool
    at_ends: float = 0.0
    """Share of the scores that it was learnt from which lie at an end of the scale."""


def fit_pooled(groups: Sequence[Comparisons], prior: Prior = WEAK) -> list[Fit]:
    """Fit all groups at once, and return a fit for each, in order.

    The judge is learnt from the groups themselves; a group alone goes by the prior for the most part. A prior that was
    learnt from other groups of the same judge (harness.ranking.profile) tells it nearly as much as these groups would.
    The posterior of a group is a Student t: given the parameters it is normal, and that the parameters are not known
    exactly adds to the covariance what their error does to the estimates (Kass and Steffey 1989, section 3.1), and sets
    the degrees of freedom, 2 / Var[log trace of the covariance], as a chi-square with that variance has them.
    """
    pool = pool_sums(groups)
    return _fits_by(learn_judge(pool, prior), pool, groups)


def fit_alone(group: Comparisons, prior: Prior = WEAK) -> Fit:
    """Return the fit of one group, which goes by what is known of its judge beforehand for the most part."""
    return fit_pooled([group], prior)[0]


def learnt_from(groups: Sequence[Comparisons], prior: Prior = WEAK) -> LearntJudge:
    """Return the judge as the calls of these groups show them."""
    return replace(learn_judge(pool_sums(groups), prior), at_ends=share_at_ends(groups))


def fit_by(judge: LearntJudge, groups: Sequence[Comparisons]) -> list[Fit]:
    """Return the fit of each group under a judge who is learnt already, from these groups or from others."""
    return _fits_by(judge, pool_sums(groups), groups)


def _fits_by(judge: LearntJudge, pool: Sequence[PoolSums], groups: Sequence[Comparisons]) -> list[Fit]:
    fits: dict[int, Fit] = {}
    for sums in pool:
        fits |= _fits(sums, groups, judge)
    return [fits[place] for place in range(len(groups))]


def learn_judge(pool: Sequence[PoolSums], prior: Prior = WEAK) -> LearntJudge:
    """Return the judge by whom the groups' scores are most probable, the prior included."""
    some = [thinned(sums, GROUPS_LEARNT_FROM) for sums in pool]
    count = sum(len(sums.design) for sums in some)

    def evidence(at: Floats) -> tuple[float, Floats]:
        return log_evidence(some, Parameters(*at.tolist()), prior)

    start = np.array(Parameters(*prior.mean.tolist())._replace(level=_mean_level(some)))
    guess = np.linalg.inv(prior.precision + 3.0 * count * np.eye(len(start)))
    at, converged = maximum(evidence, start, guess)
    slopes = [(evidence(at - step)[1] - evidence(at + step)[1]) / (2 * _STEP) for step in _steps()]
    values, vectors = np.linalg.eigh((np.array(slopes) + np.array(slopes).T) / 2)
    covariance = (vectors / np.maximum(values, _LEAST_CURVATURE)) @ vectors.T
    return LearntJudge(Parameters(*at.tolist()), covariance, converged)


def _mean_level(pool: Sequence[PoolSums]) -> float:
    count = sum(float(sums.levels.number[sums.design].sum()) for sums in pool)
    return sum(float(sums.levels.total.sum()) for sums in pool) / count if count else PRIOR_MEAN.level


def _steps() -> Floats:
    return np.eye(len(PRIOR_MEAN)) * _STEP


def _fits(sums: PoolSums, groups: Sequence[Comparisons], judge: LearntJudge) -> dict[int, Fit]:
    """Return the fits of the groups of one size, by their places."""
    n, at = sums.n, judge.parameters
    here = posterior(sums, at)
    means = _about_their_mean(here, n)
    covariances = np.array([projected(matrix[:n, :n]) for matrix in here.covariance])
    moves, spreads = _sensitivity(sums, at)
    logs = spreads @ judge.covariance
    dofs = 2 / np.maximum((logs * spreads).sum(axis=1), 1e-9)
    noise = np.exp([at.log_preference_noise, at.log_position_noise]).sum()
    first = here.mean[:, n] + at.first_side
    first_var = here.covariance[:, n, n] + judge.covariance[-1, -1]
    placed: list[tuple[int, int]] = list(zip(sums.places.tolist(), sums.design.tolist(), strict=True))
    return {
        place: Fit(
            estimates=means[g],
            covariance=covariances[design] + moves[g] @ judge.covariance @ moves[g].T,
            first_side=float(first[g]),
            first_side_sd=float(np.sqrt(first_var[design])),
            components=groups[place].components(),
            calls=len(groups[place].first),
            sigma=float(np.sqrt(noise)),
            converged=judge.converged,
            dof=float(dofs[design]),
        )
        for g, (place, design) in enumerate(placed)
    }


def _sensitivity(sums: PoolSums, at: Parameters) -> tuple[Floats, Floats]:
    """Return how a step in each parameter moves the estimates (G, n, 9), and the log trace of a covariance (D, 9)."""
    moves: list[Floats] = []
    spreads: list[Floats] = []
    for step in _steps():
        after, before = (_projected(sums, Parameters(*(np.array(at) + way * step).tolist())) for way in (1, -1))
        moves.append((after[0] - before[0]) / (2 * _STEP))
        spreads.append((after[1] - before[1]) / (2 * _STEP))
    return np.stack(moves, axis=-1), np.stack(spreads, axis=-1)


def _projected(sums: PoolSums, at: Parameters) -> tuple[Floats, Floats]:
    n, of_groups = sums.n, posterior(sums, at)
    block = of_groups.covariance[:, :n, :n]
    trace = np.trace(block, axis1=1, axis2=2) - block.sum(axis=(1, 2)) / n
    return _about_their_mean(of_groups, n), np.log(np.maximum(trace, 1e-12))


def _about_their_mean(of_groups: Posterior, n: int) -> Floats:
    """Return the qualities of each group's rollouts about the group's mean, (G, n)."""
    qualities = of_groups.mean[:, :n]
    return qualities - qualities.mean(axis=1, keepdims=True)
