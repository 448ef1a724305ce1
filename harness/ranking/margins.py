"""`margins`: maximum a posteriori qualities from score margins, with a first-side effect."""

import numpy as np

from harness.ranking.comparisons import Comparisons, Fit, Floats, projected
from harness.ranking.first_side import PRIOR_DOF, PRIOR_FIRST_SIDE, PRIOR_QUALITY, PRIOR_SIGMA


def fit_margins(calls: Comparisons) -> Fit:
    """Fit m_k = score_first - score_second = theta_first - theta_second + beta + noise by ridge regression.

    Gaussian priors of precision Lambda = (1 on theta, 0.5 on beta), relative to the noise, give the mode
    (X'X + Lambda)^-1 X'm and Sigma = sigma^2 (X'X + Lambda)^-1, where
    sigma^2 = (RSS + nu0 s0^2) / (max(0, K - (n-1) - 1) + nu0), nu0 = 2, s0 = 1. The priors hold whatever the
    design: knockouts, perfect records and parts that never met give finite estimates, with the prior's own
    uncertainty where no call speaks. beta is always fitted: left out, it would inflate sigma where both orders are
    judged. Source: least squares rating (Massey 1997) with a Gaussian prior, that is Bayesian linear regression
    (Gelman et al., Bayesian Data Analysis, 14.2 and 14.8).
    """
    n, margin = calls.n, calls.score_first - calls.score_second
    inverse = ridge(calls)
    mode = inverse @ calls.collect(margin)
    residual = margin - calls.predict(mode)
    dof = max(0, len(margin) - (n - 1) - 1) + PRIOR_DOF
    variance = float(residual @ residual + PRIOR_DOF * PRIOR_SIGMA**2) / dof
    return Fit(
        estimates=mode[:-1] - mode[:-1].mean(),
        covariance=projected(variance * inverse[:-1, :-1]),
        first_side=float(mode[-1]),
        first_side_sd=float(np.sqrt(variance * inverse[-1, -1])),
        sigma=float(np.sqrt(variance)),
        components=calls.components(),
        calls=len(calls.first),
        converged=True,
    )


def ridge(calls: Comparisons) -> Floats:
    """Return (X'X + Lambda)^-1, (n+1, n+1): it depends on who met whom, not on what came of it."""
    prior = np.full(calls.n + 1, PRIOR_QUALITY)
    prior[-1] = PRIOR_FIRST_SIDE
    return np.linalg.inv(calls.information() + np.diag(prior))
