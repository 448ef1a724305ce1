"""Wild calls, whose scores follow no rollout: told from the others by what these lead to expect, and not heard.

A call is wild with a probability that is learnt, and both of its scores are then uniform over the scale. Else it is as
the model of `pooled` has it (a normal with uniform noise about it: Banfield and Raftery 1993, Biometrics 49). What its
scores should be goes by the group's other calls: a residual of the fit over one less its leverage. Of the calls that
are heard some are wild, too; what they say of differences is smaller by their share.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.ranking.comparisons import WEAK, Comparisons, Floats, Prior
from harness.ranking.juror_weights import SHARES, STEPS
from harness.ranking.pooled_judge import LearntJudge, learn_judge
from harness.ranking.pooled_model import posterior
from harness.ranking.pooled_sums import PoolSums, pool_sums

_SCALE = 10.0
_BELIEVED, _BELIEF = 0.02, 20.0
"""What is believed of the share of wild calls before the calls are seen, and how many calls outweigh it.

Where the calls make it smaller none is told from the others: most judges' groups stay as they would be without.
"""
_MOST = 0.3
"""Where more calls seem wild the judge is noisy, and no call is told from the others."""
_SURELY = 0.85
"""A call that is less probably wild is heard."""
_WIDER, _LEAST_QUALITY_VAR, _LEAST_NOISE = 4.0, 2.0, 0.25
"""Rollouts that differ more than those of other groups make no call wild, nor does a judge almost without noise."""
_MOST_LEVERAGE, _LEAST_SHARE = 0.95, 1e-12
_ROUNDS, _STEPS_OF_SHARE = 4, 4
_Mask = NDArray[np.bool_]


class WildCalls(NamedTuple):
    """What is known of the wild calls of groups."""

    share: float
    """Of all calls; 0 where none is told from the others."""
    heard: list[_Mask]
    """For each group which of its calls are heard."""
    left: float
    """The share of wild calls among those that are heard."""

    def sound(self, groups: Sequence[Comparisons]) -> list[Comparisons]:
        """Return groups as they are heard."""
        return [calls if of.all() else _some(calls, of) for calls, of in zip(groups, self.heard, strict=True)]


def _some(calls: Comparisons, of: _Mask) -> Comparisons:
    scores = calls.score_first[of], calls.score_second[of]
    return Comparisons(calls.n, calls.first[of], calls.second[of], *scores, features=calls.features)


def learn_sound_judge(groups: Sequence[Comparisons], prior: Prior = WEAK) -> LearntJudge:
    """Return the judge by whom the groups' scores are most probable, and how many of its calls are wild.

    None are where the prior is one that tells no wild calls.
    """
    wild = _none_wild(groups)
    judge = learn_judge(pool_sums(groups), prior)
    for _ in range(_ROUNDS if prior.fit_version > 1 else 0):
        before, wild = wild, _told(groups, judge, wild)
        if all(map(np.array_equal, wild.heard, before.heard)):
            break
        judge = learn_judge(pool_sums(wild.sound(groups)), prior)
    judge = replace(judge, wild=wild.share)
    return replace(judge, wild_left=wild_calls(groups, judge).left) if judge.wild else judge


def wild_calls(groups: Sequence[Comparisons], judge: LearntJudge) -> WildCalls:
    """Return which calls of groups seem wild under a judge who is learnt already."""
    wild = _none_wild(groups)
    for _ in range(_ROUNDS if judge.wild else 0):
        before, wild = wild, _told(groups, judge, wild, judge.wild)
        if all(map(np.array_equal, wild.heard, before.heard)):
            break
    return wild


def _none_wild(groups: Sequence[Comparisons]) -> WildCalls:
    return WildCalls(0.0, [np.ones(len(calls.first), np.bool_) for calls in groups], 0.0)


def _told(
    groups: Sequence[Comparisons], judge: LearntJudge, before: WildCalls, share: float | None = None
) -> WildCalls:
    """Return which calls seem wild, going by the calls heard `before`; their share is learnt unless it is given.

    A group whose other calls would not connect who met is heard as a whole.
    """
    logs = _logs_if_wild(groups, before, judge)
    if share is None:
        share = _learnt_share(np.concatenate([*logs, np.zeros(0)]))
    if not _BELIEVED < share <= _MOST:
        return _none_wild(groups)
    wild = [_probable(of, share) for of in logs]
    heard = [of < _SURELY for of in wild]
    for kept, calls in zip(heard, groups, strict=True):
        if not kept.all() and _some(calls, kept).components != calls.components:
            kept[:] = True
    left = sum(float(of[kept].sum()) for of, kept in zip(wild, heard, strict=True))
    return WildCalls(share, heard, left / max(1, sum(int(kept.sum()) for kept in heard)))


def _learnt_share(logs: Floats) -> float:
    share = _BELIEVED
    for _ in range(_STEPS_OF_SHARE):
        share = float(_probable(logs, share).sum() + _BELIEVED * _BELIEF) / (len(logs) + _BELIEF)
    return share


def _probable(logs: Floats, share: float) -> Floats:
    return (1 + np.tanh((logs + np.log(share / (1 - share))) / 2)) / 2  # does not overflow


def _logs_if_wild(groups: Sequence[Comparisons], before: WildCalls, judge: LearntJudge) -> list[Floats]:
    """Return for each group the logarithms, (K,), of how much more probable its calls are if they are wild."""
    quality = max(_WIDER * np.exp(judge.parameters.log_quality_var), _LEAST_QUALITY_VAR)
    wider = replace(judge, parameters=judge.parameters._replace(log_quality_var=float(np.log(quality))))
    ends = [(part.min(), part.max()) for of in groups for part in (of.score_first, of.score_second) if part.size]
    scale = max(_SCALE, float(np.ptp(ends))) if ends else _SCALE
    logs: dict[int, Floats] = {}
    for sums in pool_sums(before.sound(groups)):
        places: list[int] = sums.places.tolist()
        some = [groups[place] for place in places]
        of_size = -2 * np.log(scale) - _log_densities(sums, some, [before.heard[place] for place in places], wider)
        logs |= zip(places, np.split(of_size, np.cumsum([len(calls.first) for calls in some])[:-1]), strict=True)
    return [logs[place] for place in range(len(groups))]


def _log_densities(sums: PoolSums, groups: Sequence[Comparisons], heard: Sequence[_Mask], judge: LearntJudge) -> Floats:
    """Return how probable the calls of groups of one size are by the other calls, as logarithms, one after another."""
    n, at, of_groups = sums.n, judge.parameters, posterior(sums, judge.parameters)
    names, told = ("first", "second", "score_first", "score_second"), np.concatenate(heard)
    first, second, a, b = (np.concatenate([getattr(calls, name) for calls in groups]) for name in names)
    group = np.repeat(np.arange(len(groups)), [len(calls.first) for calls in groups])
    latent, share = np.full(len(group), n), at.level_share / 2
    margin, level = a - b - at.first_side, (a + b) / 2 - at.level
    of_margin: Any = ((first, 1.0), (second, -1.0), (latent, 1.0))
    of_level: Any = ((first, share), (second, share), (latent + 1, 1.0))
    noises = np.exp(at.log_preference_noise) + np.exp(at.log_position_noise), np.exp(at.log_level_noise)
    logs = np.tile(np.log(np.maximum(judge.noise_widths @ SHARES, _LEAST_SHARE)), (len(group), 1))
    for value, parts, noise in zip(
        (margin, level), (of_margin, of_level), np.maximum(noises, _LEAST_NOISE), strict=True
    ):
        away = value - sum(weight * of_groups.mean[group, place] for place, weight in parts)
        known = sum(v * w * of_groups.covariance[sums.design[group], i, j] for i, v in parts for j, w in parts) / noise
        spared = np.where(told, 1 / (1 - np.clip(known, 0, _MOST_LEVERAGE)), 1.0)
        variance = noise * np.where(told, spared, 1 + known)
        squares: Floats = (away * spared) ** 2 / variance
        logs -= (squares[:, None] * np.exp(-STEPS) + STEPS + np.log(2 * np.pi * variance)[:, None]) / 2
    return np.logaddexp.reduce(logs, axis=1)
