"""What is believed of a judge before the groups are seen: the parameters of `pooled`, and a prior on them."""

import math
from dataclasses import dataclass, replace
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from harness.core.judge_profile import WIDTHS_OF_NOISE
from harness.ranking.comparisons import Floats

Amount = TypeVar("Amount", float, Floats)


class Parameters(NamedTuple, Generic[Amount]):
    """The model's parameters as the fit moves them: variances by their logarithm. In score points of 0 to 10.

    Of one judge as floats; of P judges at once as arrays (P,).
    """

    log_quality_var: Amount
    log_level_var: Amount
    log_side_var: Amount
    log_preference_noise: Amount
    """Of half the difference of two orders' margins."""
    log_position_noise: Amount
    """Of the mean of two orders' margins."""
    log_level_noise: Amount
    level_share: Amount
    """kappa."""
    level: Amount
    """mu."""
    first_side: Amount
    """beta."""


LEVEL_SHARE = Parameters._fields.index("level_share")
"""Where kappa stands among the parameters."""
PRIOR_MEAN = Parameters(
    log_quality_var=math.log(2),
    log_level_var=math.log(0.5),
    log_side_var=math.log(0.25),
    log_preference_noise=math.log(4),
    log_position_noise=math.log(0.7),
    log_level_noise=math.log(1),
    level_share=0.25,
    level=5.0,
    first_side=0.0,
)
"""Weak: eight groups outweigh it. It is what a group alone goes by, which cannot tell how much of a level is real: with
more belief in levels, the rollouts of a judge without any are ranked worse than by `margins` (benchmarks/pooled.py)."""
PRIOR_SD = Parameters(0.8, 1.2, 1.2, 1.3, 1.3, 1.2, 0.3, 3.0, 1.0)
NOISE_WIDTHS: Floats = np.array(WIDTHS_OF_NOISE)
"""(W,)."""
_ENDS: Floats = np.array([0.0, 0.15, 0.4, 0.65, 1.0, 1.4])
"""What each width stands for: all widths between two ends."""
_WIDTH_SD = 0.5
_CERTAIN = 1e8


def _half_normal() -> Floats:
    """Return how probable each width is of a judge of whom nothing is known, (W,)."""
    below = np.array([math.erf(end / _WIDTH_SD / math.sqrt(2)) for end in _ENDS])
    return np.diff(below) / below[-1]


@dataclass(frozen=True, eq=False)
class Prior:
    """What is believed of the parameters before the groups are seen: a normal."""

    mean: Floats
    """(9,)."""
    precision: Floats
    """(9, 9)."""
    noise_widths: Floats
    """(W,): how probable it is that noise differs so much from group to group (harness.ranking.group_noise)."""

    def without_levels(self) -> "Prior":
        """Return the same belief, but for certain that the level of a mark says nothing of its rollouts."""
        at, mean, precision = LEVEL_SHARE, self.mean.copy(), self.precision.copy()
        mean[at] = precision[at] = precision[:, at] = 0
        precision[at, at] = _CERTAIN
        return replace(self, mean=mean, precision=precision)


WEAK = Prior(np.array(PRIOR_MEAN), np.diag(np.array(PRIOR_SD) ** -2.0), _half_normal())
