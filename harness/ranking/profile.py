"""A judge's profile: what a pool of groups teaches of their judge, kept, and lent to other groups as their prior."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from harness.core import judge_profile
from harness.core.judge_profile import JudgeLeanings, JudgeParameters, JudgeProfile, hash_of_judge
from harness.core.rankings import FIT_VERSION
from harness.ranking.comparisons import WEAK, Comparisons, Parameters, Prior, covariance_from, share_at_ends
from harness.ranking.judge_kinds import KIND_SD, KINDS, KINDS_LEARNT_FROM
from harness.ranking.judge_stats.tally import JudgeCall
from harness.ranking.leanings import as_leanings
from harness.ranking.pooled_judge import LearntJudge
from harness.ranking.wild_calls import learn_sound_judge

_STEPS = 400
_FARTHEST = 8.0
"""Standard deviations up to which the difference of two rollouts is summed over."""
_STEP = 1e-4


def single_call_right(parameters: JudgeParameters) -> float:
    """Return how probably the better of two random rollouts of a query gets the higher score in one call.

    Their qualities differ by N(0, 2 tau^2); who stands first is a toss. Ties of scores are left out of account.
    """
    apart = math.sqrt(2 * math.exp(parameters.log_quality_var))
    logs = (parameters.log_preference_noise, parameters.log_position_noise, parameters.log_side_var)
    noise = math.sqrt(math.fsum(map(math.exp, logs)))
    width = _FARTHEST / _STEPS
    total = 0.0
    for step in range(_STEPS):
        z = (step + 0.5) * width
        density = math.sqrt(2 / math.pi) * math.exp(-z * z / 2)
        favoured, against = ((z * apart + side * parameters.first_side) / noise for side in (1, -1))
        total += density * (_below(favoured) + _below(against)) / 2
    return min(1.0, total * width)


def single_call_right_sd(profile: JudgeProfile) -> float:
    """Return the standard deviation of that probability, for what is not known of the judge (the delta method)."""
    names = list(JudgeParameters.model_fields)
    slopes, columns = list[float](), range(len(names))
    for name, value in zip(names, profile.parameters.values, strict=True):
        ends = [profile.parameters.model_copy(update={name: value + way * _STEP}) for way in (1, -1)]
        slopes.append((single_call_right(ends[0]) - single_call_right(ends[1])) / (2 * _STEP))
    moved = (math.fsum(slopes[i] * row[j] for i, row in enumerate(profile.root) if j <= i) for j in columns)
    return math.sqrt(math.fsum(move * move for move in moved))


def _below(z: float) -> float:
    return math.erfc(-z / math.sqrt(2)) / 2


DRIFT = Parameters(0.5, 0.5, 0.3, 0.2, 0.2, 0.3, 0.1, 0.7, 0.2)
"""How far a judge's parameters may lie from those learnt where others lend the profile, as standard deviations.

The judge is the same, but not the queries and the agents: how much their rollouts differ moves most.
"""
_DRIFT_OF_WIDTHS = 0.1
"""How probable it is that how much noise differs from group to group is not as it was learnt, but as of any judge."""
_LEAST_LENT = Parameters(-8.0, -8.0, -8.0, -8.0, -8.0, -8.0, -2.0, -100.0, -20.0)
_MOST_LENT = Parameters(8.0, 8.0, 8.0, 8.0, 8.0, 8.0, 3.0, 100.0, 20.0)
"""No other groups are believed to lie beyond, also where a judge seemed to be without noise, or a file was made up."""


def calls_of_judge(calls: Sequence[JudgeCall]) -> Comparisons:
    """Return one group's calls of one judge as comparisons of the transcripts, numbered as they come in."""
    numbers = {name: at for at, name in enumerate(dict.fromkeys(side for c in calls for side in (c.first, c.second)))}
    sides = ([numbers[c.first] for c in calls], [numbers[c.second] for c in calls])
    return Comparisons.of(len(numbers), *sides, [c.score_first for c in calls], [c.score_second for c in calls])


def learn_profile(groups: Sequence[Comparisons], judge: str, rubric: str, rendering: int) -> JudgeProfile | None:
    """Return the profile of the judge of all calls of `groups`; None where there is no call."""
    judged = [calls for calls in groups if len(calls.first)]
    if not judged:
        return None
    return as_profile(learn_sound_judge(judged), judged, judge, rubric, rendering)


def as_profile(
    learnt: LearntJudge, groups: Sequence[Comparisons], judge: str, rubric: str, rendering: int
) -> JudgeProfile:
    """Return as a record what was learnt of the judge of `groups`."""
    rows: list[list[float]] = np.linalg.cholesky(learnt.covariance).tolist()
    least, most = judge_profile.LEAST_LOG_VARIANCE, judge_profile.LARGEST_LOG_VARIANCE
    parameters = {
        name: round(min(max(value, least), most) if name.startswith("log_") else value, 9)
        for name, value in learnt.parameters._asdict().items()
    }
    return JudgeProfile(
        judge=judge,
        judge_hash=hash_of_judge(judge),
        rubric=rubric,
        rendering=rendering,
        groups=len(groups),
        calls=sum(len(calls.first) for calls in groups),
        parameters=JudgeParameters(**parameters),
        # what is known as well as exactly keeps a width above 0
        root=tuple((*(round(v, 9) for v in row[:at]), max(round(row[at], 9), 1e-9)) for at, row in enumerate(rows)),
        at_ends=round(share_at_ends(groups), 6),
        converged=learnt.converged,
        noise_widths=tuple(round(share, 9) for share in learnt.noise_widths.tolist()),
    )


def profile_of_kind(kind: str, judge: str, rubric: str, rendering: int) -> JudgeProfile:
    """Return what is believed of a judge of this kind, one of KINDS, as a profile of the judge named."""
    groups, calls = KINDS_LEARNT_FROM
    return JudgeProfile(
        judge=judge,
        judge_hash=hash_of_judge(judge),
        rubric=rubric,
        rendering=rendering,
        groups=groups,
        calls=calls,
        parameters=JudgeParameters(**KINDS[kind]._asdict()),
        root=tuple((*[0.0] * at, sd) for at, sd in enumerate(KIND_SD)),
    )


def lent(profile: JudgeProfile) -> Prior:
    """Return a profile as the prior of other groups of the same judge: a little wider than it was learnt."""
    mean = np.clip(np.array(profile.parameters.values), np.array(_LEAST_LENT), np.array(_MOST_LENT))
    widths = WEAK.noise_widths
    if profile.noise_widths is not None:
        learnt = np.array(profile.noise_widths) / math.fsum(profile.noise_widths)
        widths = (1 - _DRIFT_OF_WIDTHS) * learnt + _DRIFT_OF_WIDTHS * widths
    covariance = covariance_from(profile.root) + np.diag(np.array(DRIFT) ** 2)
    return Prior(mean, np.linalg.inv(covariance), widths, any_kind=False)


def lent_prior(
    profile: JudgeProfile | None, fit_version: int = FIT_VERSION, leanings: JudgeLeanings | None = None
) -> Prior:
    """Return what is believed of a judge beforehand: what the profile lends, else what is known of any judge.

    `leanings` are what probes of the judge show, where those are not the profile's. Earlier versions of the fits told
    no wild calls, knew no kinds and weighed jurors in other ways, and their rankings follow from that.
    """
    shown, prior = leanings or (profile and profile.leanings), lent(profile) if profile else WEAK
    if prior is WEAK and not shown and fit_version == FIT_VERSION:
        return WEAK
    prior = replace(prior, any_kind=prior.any_kind and fit_version > 2, fit_version=fit_version)
    return replace(prior, leanings=as_leanings(shown)) if shown else prior
