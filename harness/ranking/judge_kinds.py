"""Kinds of judges: what is believed of the judge of a few queries, whose calls hardly tell it.

Most judges are sharp, usual or noisy, or their marks carry no absolute level. Each kind is a prior, beside that of a
judge of whom nothing is known. The judge of a few groups is the mixture of what they teach by each of these, weighted
by the evidence for it (by Laplace's approximation: Kass and Raftery 1995, J. Am. Stat. Assoc. 90).
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from harness.ranking.comparisons import PRIOR_MEAN, PRIOR_SD, WEAK, Comparisons, Floats, Parameters, Prior
from harness.ranking.pooled_judge import JudgePoints, LearntJudge, learn_judge
from harness.ranking.pooled_model import log_evidence
from harness.ranking.pooled_sums import pool_sums
from harness.ranking.wild_calls import learn_sound_judge, wild_calls


def _kind(preference: float, position: float, level: float, side: float, share: float) -> Parameters[float]:
    """Return the middle of a kind: noises as logarithms of variances, of the first side's too, a real level's share."""
    noises = {"log_preference_noise": preference, "log_position_noise": position, "log_level_noise": level}
    return PRIOR_MEAN._replace(log_quality_var=_QUALITY, log_side_var=side, level_share=share, **noises)


_QUALITY = 0.7
"""How far rollouts differ is the queries' and the agent's, and the same for all kinds."""
KINDS = {
    "sharp": _kind(-0.7, -0.95, -1.1, -2.8, 0.5),
    "usual": _kind(0.55, 0.3, -0.2, -1.45, 0.5),
    "noisy": _kind(1.35, 1.1, 0.4, -0.7, 0.5),
    "relative": _kind(1.35, 1.1, 0.4, -0.7, 0.0),
}
KINDS_LEARNT_FROM = 600, 600 * 56
"""So many groups and calls of each of the judges of benchmarks/simulated_judge.py; usual lies between two of them."""
KIND_SD = PRIOR_SD._replace(
    log_quality_var=0.6,
    log_side_var=0.7,
    log_preference_noise=0.5,
    log_position_noise=0.5,
    log_level_noise=0.5,
    level_share=0.2,
)
"""How far judges of one kind may lie from its middle: by a factor of 1.3 in the sd of noise, either way."""
_LEAST_WEIGHT = 0.01
"""A kind of which the calls leave less is none."""


def prior_of(kind: str) -> Prior:
    """Return what is believed of a judge of this kind, one of KINDS."""
    return Prior(np.array(KINDS[kind]), np.diag(np.array(KIND_SD) ** -2.0), WEAK.noise_widths, any_kind=False)


def learn_of_any_kind(groups: Sequence[Comparisons], prior: Prior = WEAK) -> LearntJudge:
    """Return the judge of a few groups: of one of the kinds, or as `prior` has it."""
    prior = replace(prior, any_kind=False)
    unknown = learn_sound_judge(groups, prior)
    sums = pool_sums(wild_calls(groups, unknown).sound(groups))
    priors = [prior, *map(prior_of, KINDS)]
    judges = [unknown, *(learn_judge(sums, kind) for kind in priors[1:])]
    logs = np.zeros(len(priors))  # of how probable the calls are by each prior, up to a constant that all share
    for at, (judge, of) in enumerate(zip(judges, priors, strict=True)):
        volume = float(np.linalg.slogdet(of.precision)[1] + np.linalg.slogdet(judge.covariance)[1])
        logs[at] = float(log_evidence(sums, np.array(judge.parameters), of)[0]) + volume / 2
    return replace(
        _mixture(judges, np.exp(logs - np.logaddexp.reduce(logs))), wild=unknown.wild, wild_left=unknown.wild_left
    )


def _mixture(judges: Sequence[LearntJudge], weights: Floats) -> LearntJudge:
    """Return the most probable of the judges, with the points of all: averages over them are the mixture's."""
    kept = np.flatnonzero(weights > _LEAST_WEIGHT).tolist()
    some, shares = [judges[at] for at in kept], weights[kept] / weights[kept].sum()
    points = JudgePoints(
        at=np.concatenate([judge.points.at for judge in some]),
        weights=np.concatenate([share * judge.points.weights for share, judge in zip(shares, some, strict=True)]),
        linear=np.tensordot(shares, np.stack([judge.points.linear for judge in some]), 1),
    )
    return replace(
        some[int(shares.argmax())],
        points=points,
        noise_widths=shares @ np.stack([judge.noise_widths for judge in some]),
        converged=all(judge.converged for judge in some),
    )
