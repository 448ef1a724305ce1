"""The versions of the fit behind a ranking's probabilities. A ranking's head names its version.

Version 1 took the noise for known and the width of the qualities for tied to it, and so was too sure of itself.
Version 2 takes neither for known. Since version 3 the probabilities beside an estimator without a fit come from
`pooled`, which learns how much noise differs from group to group (harness.ranking.group_noise), and from fewer groups.
Version 4 takes a judge whose levels seem to speak against the rollouts for one without levels. Since version 5
`pooled` learns each juror of a jury by itself. What stopped early by one version is played again by it.
"""

from collections.abc import Callable, Mapping

import numpy as np

from harness.core.rankings import FIT_VERSION, SecondOpinion
from harness.core.settings import EstimatorName
from harness.ranking.comparisons import Comparisons, Fit, projected
from harness.ranking.first_side import PRIOR_DOF, PRIOR_SIGMA
from harness.ranking.margins import fit_margins, ridge


def _margins_1(calls: Comparisons) -> Fit:
    """Return the same estimates with the normal posterior of one noise for all, as ridge regression has it.

    sigma^2 = (RSS + nu0 s0^2) / (max(0, K - (n-1) - 1) + nu0), nu0 = 2, s0 = 1, and Sigma = sigma^2 (X'X + Lambda)^-1.
    """
    margin, inverse = calls.score_first - calls.score_second, ridge(calls)
    mode = inverse @ calls.collect(margin)
    residual = margin - calls.predict(mode)
    dof = max(0, len(margin) - (calls.n - 1) - 1) + PRIOR_DOF
    variance = float(residual @ residual + PRIOR_DOF * PRIOR_SIGMA**2) / dof
    return Fit(
        estimates=mode[:-1] - mode[:-1].mean(),
        covariance=projected(variance * inverse[:-1, :-1]),
        first_side=float(mode[-1]),
        first_side_sd=float(np.sqrt(variance * inverse[-1, -1])),
        sigma=float(np.sqrt(variance)),
        of=calls,
        converged=True,
    )


MARGINS: Mapping[int, Callable[[Comparisons], Fit]] = {
    1: _margins_1,
    2: fit_margins,
    3: fit_margins,
    4: fit_margins,
    5: fit_margins,
}
"""`margins` by version; harness.core.rankings.FIT_VERSION is that of new rankings."""

_WITHOUT_A_FIT = {"tiers", "wins"}
_POOLED_SINCE = _FEWER_LEARNT_FROM_SINCE = 3


def secondary_fit(estimator: EstimatorName, version: int = FIT_VERSION) -> SecondOpinion:
    """Return which fit stands beside an estimator in rankings of a version."""
    return "pooled" if version >= _POOLED_SINCE and estimator in _WITHOUT_A_FIT else "margins"


def groups_learnt_from(version: int = FIT_VERSION) -> int:
    """Return how many groups of a ranking teach `pooled` the judge at most; more teach nothing that these have not."""
    return 512 if version >= _FEWER_LEARNT_FROM_SINCE else 2000
