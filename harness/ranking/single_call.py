"""How often a single call of a judge is right, from what was learnt of the judge."""

import math

from harness.core.judge_profile import JudgeParameters, JudgeProfile

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
    slopes = [_slope(profile.parameters, name) for name in names]
    columns = range(len(names))
    moved = (math.fsum(slopes[i] * row[j] for i, row in enumerate(profile.root) if j <= i) for j in columns)
    return math.sqrt(math.fsum(move * move for move in moved))


def _slope(parameters: JudgeParameters, name: str) -> float:
    ends = (parameters.model_copy(update={name: getattr(parameters, name) + way * _STEP}) for way in (1, -1))
    after, before = map(single_call_right, ends)
    return (after - before) / (2 * _STEP)


def _below(z: float) -> float:
    return math.erfc(-z / math.sqrt(2)) / 2
