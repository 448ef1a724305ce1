"""`pooled`: the judge learnt from all groups of a ranking, then each group's posterior."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from harness.ranking import pooled_model
from harness.ranking.comparisons import LEVEL_SHARE, WEAK, Comparisons, Fit, Floats, Parameters, Prior, share_at_ends
from harness.ranking.judge_kinds import learn_of_any_kind
from harness.ranking.juror_calls import LearntJuror, alike_until_3, echoes_among, learn_alike, of_jurors
from harness.ranking.juror_weights import STEPS, JuryVoices, learn_voice, on_groups
from harness.ranking.leanings import TakenOut
from harness.ranking.pooled_judge import FEW, LearntJudge
from harness.ranking.pooled_sums import PoolSums, pool_sums
from harness.ranking.posteriors import probabilities_above_zero
from harness.ranking.wild_calls import learn_sound_judge, wild_calls

MISFIT_AT_ENDS = 2.0
"""Differences are cut off at the ends of the scale, which the model does not know. Variances are made wider by so many
times the share of scores at the ends.

Without it the 90 % intervals cover 86 to 88 % under a noisy judge, 6 % of whose scores lie at an end, and 90 to 92 %
under a sharp one, where hardly any do (benchmarks/pooled.py, pools of 8 and more).
"""
_LEAST_TRACE, _LEAST_SPREAD = 1e-12, 1e-9
_LEAST_OF_SCALE = 0.5
"""A Student t has dof / (dof - 2) times the variance of its scale. A jury's scale is smaller by that, down to here.
That of a single judge or of a few groups is not: it makes up for what the model does not know (benchmarks/reliability).
"""
_FEWEST_JURORS = 2
_LEAST_SUM = 1e-12
_LEAST_SHARE = 1e-4
"""A step of noise that is less probable than this for every group is left out."""
_NOISES = [Parameters._fields.index(f"log_{name}_noise") for name in ("preference", "position", "level")]


def fit_pooled(groups: Sequence[Comparisons], prior: Prior = WEAK) -> list[Fit]:
    """Fit all groups at once, and return a fit for each, in order.

    The judge is learnt from the groups themselves; a few groups go by the kinds of judges there are. A prior that was
    learnt from other groups of the same judge (harness.ranking.profile) tells it nearly as much as these groups would.
    Given the parameters, the posterior of a group is normal. The parameters are not known exactly, and the fit is the
    average over them, as a Student t: its mean is the mean of the normals' means; their covariances and the covariance
    of their means add up to its scale, a jury's to its variance; its degrees of freedom are 2 / Var[log trace of the
    covariance], as a chi-square with that variance has them.
    """
    return fit_by(learnt_from(groups, prior), groups)


def fit_alone(group: Comparisons, prior: Prior = WEAK) -> Fit:
    """Return the fit of one group, which goes by what is known of judges beforehand for the most part."""
    return fit_pooled([group], prior)[0]


def learnt_from(groups: Sequence[Comparisons], prior: Prior = WEAK) -> LearntJudge:
    """Return the judge as the calls of these groups show them.

    Where probes show what a single judge leans to, the calls teach it twice: first how much of what it sees their level
    carries, then, without its leanings, all else. The same calls are not learnt from twice in a row: the page of a run
    shows the judge that its ranking has just learnt.
    """
    arrays = [(c.first, c.second, c.score_first, c.score_second, c.juror, c.features) for c in groups]
    content = tuple(None if array is None else array.tobytes() for of_group in arrays for array in of_group)
    return _learnt(_Lesson(prior, tuple(calls.n for calls in groups), content, groups))


@dataclass(frozen=True)
class _Lesson:
    """Calls, which are the same where their bytes are; a prior, which is by its identity."""

    prior: Prior
    entrants: tuple[int, ...]
    content: tuple[bytes | None, ...]
    groups: Sequence[Comparisons] = field(compare=False)


@lru_cache(maxsize=1)
def _learnt(lesson: _Lesson) -> LearntJudge:
    groups, prior = lesson.groups, lesson.prior
    jury = _voices(groups, prior)
    few = prior.any_kind and sum(calls.first.size > 0 for calls in groups) <= FEW
    learn = learn_of_any_kind if few else learn_sound_judge
    judge = learn(_heard(groups, jury), prior)
    if prior.leanings and not jury and any(calls.features is not None for calls in groups):
        taken_out = TakenOut(prior.leanings, judge.parameters.level_share)
        judge = replace(learn([taken_out.of(calls) for calls in groups], prior), leanings=taken_out)
    by_variance = prior.fit_version > 4 and not few and jury is not None and len(jury.voices) > 1
    return replace(judge, at_ends=share_at_ends(groups), jury=jury, by_variance=by_variance)


def _voices(groups: Sequence[Comparisons], prior: Prior) -> JuryVoices | None:
    """Return how jurors weigh, each by what its own calls show of it; None for a single judge."""
    calls = of_jurors(groups)
    if len(calls) < _FEWEST_JURORS:
        return None
    if prior.mean is not WEAK.mean:  # it was lent, and is of the jury as one judge: a juror by itself is another
        of_any = {"mean": WEAK.mean, "precision": WEAK.precision, "noise_widths": WEAK.noise_widths}
        prior = replace(prior, **of_any, any_kind=True)
    echoes = echoes_among(calls)
    heard = {
        seat: LearntJuror(own, pool_sums(own), learn_sound_judge(own, prior).parameters)
        for seat, own in calls.items()
        if seat not in echoes
    }
    if len(heard) == 1:
        mean = alike = 1.0
    elif prior.fit_version > 3:
        mean, decided = learn_alike(groups, heard)
        alike = decided if prior.fit_version > 4 else mean
    else:
        mean = alike = alike_until_3(groups, heard)
    return JuryVoices({seat: learn_voice(juror, mean) for seat, juror in heard.items()}, alike, echoes)


def _heard(groups: Sequence[Comparisons], jury: JuryVoices | None) -> Sequence[Comparisons]:
    return [jury.as_one(calls) for calls in groups] if jury else groups


def fit_by(judge: LearntJudge, groups: Sequence[Comparisons], *, tell_p_value: bool = True) -> list[Fit]:
    """Return the fit of each group under a judge who is learnt already, from these groups or from others.

    The p-value takes most of the time.
    """
    heard = [judge.leanings.of(calls) for calls in groups] if judge.leanings else _heard(groups, judge.jury)
    fits = dict[int, Fit]()
    wild = wild_calls(heard, judge)
    sound = wild.sound(heard)
    for sums in pool_sums(sound):
        of_leanings = _of_leanings(sums, sound, judge)
        fits |= _fits(sums, groups, judge, 1 / (1 - judge.wild_left), of_leanings, tell_p_value=tell_p_value)
    return [fits[place] for place in range(len(groups))]


def without_level(judge: LearntJudge) -> LearntJudge:
    """Return the same judge as if marks carried no absolute level: differences alone say what they say."""
    at = judge.points.at.copy()
    at[:, LEVEL_SHARE] = 0
    return replace(judge, parameters=judge.parameters._replace(level_share=0.0), points=judge.points._replace(at=at))


def _fits(
    sums: PoolSums,
    groups: Sequence[Comparisons],
    judge: LearntJudge,
    scale: float,
    of_leanings: Floats | None,
    *,
    tell_p_value: bool,
) -> dict[int, Fit]:
    """Return the fits of the groups of one size, by their places, with differences so many times as large.

    `of_leanings` (G, n + 1, n + 1): the covariance that comes of leanings that are not known exactly.
    """
    n, at, misfit = sums.n, judge.parameters, 1 + MISFIT_AT_ENDS * judge.at_ends
    of_points, of_noise = _over_points(sums, judge), on_groups(sums, at, judge.noise_widths)
    mean, wider = of_points.mean + of_noise.moved, of_noise.wider[:, :, None] * of_noise.wider[:, None, :]
    covariance = of_points.within[sums.design] * wider + of_noise.between + of_points.between
    misfit_of_equals = misfit
    if of_leanings is not None:
        misfit_of_equals *= 1 + _share_of_trace(of_leanings, covariance, n)
        covariance = covariance + of_leanings
    dof = 2 / np.maximum(of_points.log_scale_var[sums.design] + of_noise.log_scale_var, _LEAST_SPREAD)
    if judge.by_variance:
        covariance = covariance * np.maximum(1 - 2 / dof, _LEAST_OF_SCALE)[:, None, None]
    sigma = float(np.sqrt(np.exp([at.log_preference_noise, at.log_position_noise]).sum()))
    places: list[int] = sums.places.tolist()
    shared, seen = _shared(judge, [groups[place] for place in places])
    of_tastes = ((1 - shared) * seen)[:, :, None] * (np.eye(n) - 1 / n)
    columns: Any = (
        scale * shared * mean[:, :n],
        scale**2 * (misfit * shared[:, :, None] ** 2 * covariance[:, :n, :n] + of_tastes),
        *(mean[:, n].tolist(), np.sqrt(covariance[:, n, n]).tolist(), dof.tolist()),
        _p_values(sums, judge, of_noise.of_steps, misfit_of_equals).tolist() if tell_p_value else [None] * len(places),
    )
    of_each = zip(*columns, strict=True)
    return {
        place: Fit(estimates, spread, first, first_sd, sigma, groups[place], judge.converged, freedom, p_value=p_value)
        for place, (estimates, spread, first, first_sd, freedom, p_value) in zip(places, of_each, strict=True)
    }


def _of_leanings(sums: PoolSums, sound: Sequence[Comparisons], judge: LearntJudge) -> Floats | None:
    """Return what not knowing the leanings exactly adds to the covariance of each group, (G, n + 1, n + 1).

    The posterior's mean is linear in the calls, so what it moves with a leaning is what is taken out of them, fitted.
    """
    if not judge.leanings:
        return None
    places: list[int] = sums.places.tolist()
    parts = zip(*[judge.leanings.of_a_point(sound[place]) for place in places], strict=True)
    centred = judge.parameters._replace(level=0.0, first_side=0.0)
    moves = np.stack([_means(pool_sums(part)[0], centred) for part in parts], axis=-1)
    return moves @ judge.leanings.leanings.covariance @ moves.swapaxes(1, 2)


def _share_of_trace(part: Floats, whole: Floats, n: int) -> float:
    traces = [float(np.trace(matrices[:, :n, :n], axis1=1, axis2=2).sum()) for matrices in (part, whole)]
    return traces[0] / max(traces[1], _LEAST_TRACE)


def _shared(judge: LearntJudge, groups: Sequence[Comparisons]) -> tuple[Floats, float]:
    """Return which share of what it sees in each group all jurors of a jury see, (G, 1), and the variance of that.

    The rest is its jurors' own taste; a single judge has no such rest.
    """
    if not judge.jury:
        return np.ones((len(groups), 1)), 0.0
    seen = judge.jury.shared * float(np.exp(judge.parameters.log_quality_var))
    return np.array([[judge.jury.shared_in(calls)] for calls in groups]), seen


class _OverPoints(NamedTuple):
    """Averages over the points of a judge, for G groups of n rollouts in D designs."""

    mean: Floats
    """(G, n + 1)."""
    between: Floats
    """(G, n + 1, n + 1): the covariance of the points' means."""
    within: Floats
    """(D, n + 1, n + 1): the mean of the points' covariances."""
    log_scale_var: Floats
    """(D,): the variance of the logarithm of the posterior's scale."""


def _over_points(sums: PoolSums, judge: LearntJudge) -> _OverPoints:
    n, mode = sums.n, judge.parameters
    start = _means(sums, mode)
    slopes = [
        _means(sums, mode._replace(**{name: getattr(mode, name) + 1})) - start for name in ("level", "first_side")
    ]
    linear = np.stack(slopes, axis=-1)
    moved, squares = np.zeros_like(start), linear @ judge.points.linear @ linear.swapaxes(1, 2)
    within, logs = np.zeros((len(sums.single.number), n + 1, n + 1)), list[Floats]()
    for part in pooled_model.at_a_time(len(judge.points.weights), [sums]):
        at, weights = judge.points.at[part], judge.points.weights[part]
        here = pooled_model.posterior(sums, pooled_model.judges_at(at))
        away = pooled_model.posterior_means(here, at[:, -1], n) - start
        moved += np.tensordot(weights, away, 1)
        squares += np.einsum("p,pgi,pgj->gij", weights, away, away)
        block = pooled_model.posterior_covariances(here, n)
        within += np.tensordot(weights, block, 1)
        logs.append(np.log(np.maximum(np.trace(block[..., :n, :n], axis1=-2, axis2=-1), _LEAST_TRACE)))
    spreads = np.concatenate(logs) - judge.points.weights @ np.concatenate(logs)
    return _OverPoints(
        mean=start + moved,
        between=squares - moved[:, :, None] * moved[:, None, :],
        within=within,
        log_scale_var=judge.points.weights @ spreads**2,
    )


def _means(sums: PoolSums, at: Parameters[float]) -> Floats:
    return pooled_model.posterior_means(pooled_model.posterior(sums, at), at.first_side, sums.n)


def _p_values(sums: PoolSums, judge: LearntJudge, of_steps: Floats, misfit: float) -> Floats:
    """Return each group's p-value, (G,): how often equals would look at least as different.

    It is the average over what is not known of the judge.

    Where the judge is known well that is a group's own noise: `of_steps`, (G, S), is how probable each step of it is.
    Else it is the judge, of whom his points tell. Variances of noise are `misfit` times what was learnt.

    What a group's calls say of its rollouts under a judge is c = J theta + noise, with what marks and standing first
    are worth integrated out: J is the information of the calls, and J the variance of the noise, too. If all rollouts
    are equally good, c is N(0, J) in the n - 1 directions that tell rollouts apart. The most powerful statistic against
    qualities of N(0, tau^2) is the likelihood ratio (Neyman and Pearson 1933), which grows with

        T = c' (J + I / tau^2)^-1 c,

    under equals a sum of squared normals weighted by lambda / (lambda + 1 / tau^2), lambda the eigenvalues of J. Its
    tail is that of the chi-square with the same first three moments (Imhof 1961, Biometrika 48), by the cube root of
    Wilson and Hilferty (1931).
    """
    wider = math.log(misfit)
    if judge.points.is_known_well:
        used = np.flatnonzero(of_steps.max(axis=0) >= _LEAST_SHARE)
        weights = of_steps[:, used] / of_steps[:, used].sum(axis=1, keepdims=True)
        judges = _noisier(np.tile(np.array(judge.parameters), (len(used), 1)), STEPS[used, None] + wider)
    else:
        weights, judges = judge.points.weights, _noisier(judge.points.at, wider)
    parts = [
        _of_judges(sums, pooled_model.judges_at(judges[part])) for part in pooled_model.at_a_time(len(judges), [sums])
    ]
    return (weights * np.concatenate(parts).T).sum(axis=1)


def _noisier(points: Floats, logs: Any) -> Floats:
    noisier = points.copy()
    noisier[:, _NOISES] += logs
    return noisier


def _of_judges(sums: PoolSums, at: Parameters[Floats]) -> Floats:
    """Return each group's p-value under each of P judges, (P, G)."""
    precision, of = np.exp(-at.log_quality_var)[:, None, None], sums.design
    information, collected = _contrasts(sums, pooled_model.posterior(sums, at), precision)
    values, vectors = np.linalg.eigh(information)
    values = np.maximum(values, 0)
    along, known = (collected[:, :, None] @ vectors[:, of])[:, :, 0], values + precision
    return _beyond((along**2 / known[:, of]).sum(axis=-1), (values / known)[:, of])


def _contrasts(sums: PoolSums, of_groups: pooled_model.Posterior, precision: Floats) -> tuple[Floats, Floats]:
    """Return J, (P, D, n - 1, n - 1), and c, (P, G, n - 1), in an orthonormal basis of the differences of n rollouts.

    What is integrated out by its prior: the rollouts' mean, what standing first is worth in the group, its level.
    """
    n = sums.n
    turn = np.eye(n + 2)
    turn[:n, :n] = np.linalg.qr(np.column_stack([np.ones(n), np.eye(n)[:, 1:]]))[0][:, [*range(1, n), 0]]
    matrix, vector = turn.T @ of_groups.precision @ turn, of_groups.collected @ turn
    told, rest = slice(n - 1), slice(n - 1, None)
    matrix[..., range(n - 1), range(n - 1)] -= precision
    gain = matrix[..., told, rest] @ np.linalg.inv(matrix[..., rest, rest])
    taken = (vector[:, :, None, rest] @ gain.swapaxes(-1, -2)[:, sums.design])[:, :, 0]
    return matrix[..., told, told] - gain @ matrix[..., rest, told], vector[..., told] - taken


def _beyond(value: Floats, weights: Floats) -> Floats:
    """Return how probably the squares of normals, weighted by (..., k), sum to more than `value`, (...)."""
    first, second, third = (np.maximum((weights**power).sum(axis=-1), _LEAST_SUM) for power in (1, 2, 3))
    dof = second**3 / third**2
    chi_square = np.maximum(dof + (value - first) * np.sqrt(dof / second), 0)
    spread = 2 / (9 * dof)
    z = ((chi_square / dof) ** (1 / 3) - 1 + spread) / np.sqrt(spread)
    return probabilities_above_zero(-z, math.inf)
