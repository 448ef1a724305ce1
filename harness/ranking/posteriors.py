"""What the posteriors of many fits of one size say of their entrants, all at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.ranking.best_draws import chances_of_best
from harness.ranking.rounding import rounded_rows
from harness.ranking.student import probabilities_above_zero

_Floats = NDArray[np.floating[Any]]
BILLION = 10**9
_FEWEST_DOF = 2
"""Up to here a Student t has no standard deviation, and its scale is given."""


class Figures(NamedTuple):
    """What a fit says of n entrants as records hold it: each of n rounded numbers."""

    billionths: Sequence[int]
    """The estimates to nine decimals, so that ties are ties, in whole numbers."""
    sds: Sequence[float]
    p_best: Sequence[float]
    p_above_mean: Sequence[float]


@dataclass(frozen=True, eq=False)
class Posteriors:
    """G posteriors of n entrants each, normal or Student t, about their means."""

    estimates: _Floats
    """(G, n)."""
    means: _Floats
    """(G, n)."""
    covariances: _Floats
    """(G, n, n)."""
    dofs: _Floats
    """(G,); inf for a normal."""

    @cached_property
    def variances(self) -> _Floats:
        """(G, n)."""
        has_sd = (self.dofs > _FEWEST_DOF) & np.isfinite(self.dofs)
        dofs = np.where(has_sd, self.dofs, 2 * _FEWEST_DOF)
        widening = np.where(has_sd, dofs / (dofs - 2), 1.0)
        return np.maximum(self._scales * widening[:, None], 0)

    @property
    def sds(self) -> _Floats:
        """How far each entrant's quality relative to the group's mean lies from the estimate, (G, n).

        The root of the posterior's mean square: its standard deviation, where its mean is the estimate.
        """
        return np.sqrt(self.variances + (self.means - self.estimates) ** 2)

    @property
    def reliabilities(self) -> _Floats:
        """1 - mean posterior variance / variance of the means, (G,); 0 where that is negative or nothing differs."""
        spread, unsure = (self.means * self.means).sum(axis=1), self.variances.sum(axis=1)
        return np.where(spread > 0, np.fmax(0.0, 1 - unsure / np.where(spread > 0, spread, 1.0)), 0.0)

    @cached_property
    def best(self) -> _Floats:
        """Each entrant's probability of being best, (G, n), sum 1, under the joint posterior.

        Monte Carlo over 4096 fixed draws: the same input gives the same output; standard error at most 0.008.
        """
        return chances_of_best(self.means, self.covariances, self.dofs.tolist())

    @cached_property
    def above_mean(self) -> _Floats:
        """Each entrant's posterior probability of being above the group's mean, (G, n)."""
        scales = np.sqrt(np.maximum(self._scales, 0))
        return probabilities_above_zero(self.means / np.where(scales > 0, scales, 1.0), self.dofs[:, None])

    @property
    def billionths(self) -> list[list[int]]:
        """The estimates of each to nine decimals, in whole numbers, however large."""
        return [list(map(round, row)) for row in (rounded_rows(self.estimates, 9) * BILLION).tolist()]

    def figures(self) -> list[Figures]:
        """Return what records hold of each."""
        columns: Any = (rounded_rows(self.sds, 6), rounded_rows(self.best, 4), rounded_rows(self.above_mean, 4))
        return list(map(Figures, self.billionths, *(column.tolist() for column in columns)))

    @property
    def _scales(self) -> _Floats:
        return np.diagonal(self.covariances, axis1=1, axis2=2)
