"""`bt`: maximum a posteriori Bradley-Terry qualities from wins, with a first-side effect."""

import numpy as np

from harness.ranking.comparisons import Comparisons, Fit, Floats, projected

_PRIOR_QUALITY, _PRIOR_FIRST_SIDE = 0.4, 0.2
"""Prior precisions, in logits."""
_STEPS, _HALVINGS, _ENOUGH = 100, 40, 1e-10


def fit_bt(calls: Comparisons) -> Fit:
    """Fit logit P(first wins) = theta_first - theta_second + beta, one observation a call, a tie half a win each.

    Gaussian priors of precision 0.4 on theta and 0.2 on beta; the mode by Newton's method with step halving, the
    posterior covariance from the Hessian there (Laplace). The log posterior is strictly concave, so there is one
    mode and it is finite also for knockouts, perfect records and parts that never met, where the prior's own
    uncertainty is left. `converged`: the gradient is below 1e-10 of the number of calls. Source: Bradley and Terry
    1952; order effect Davidson and Beaver 1977; priors as in Whelan 2017 (arXiv 1712.05311).
    """
    won = np.where(
        calls.score_first > calls.score_second, 1.0, np.where(calls.score_first < calls.score_second, 0.0, 0.5)
    )
    prior = np.full(calls.n + 1, _PRIOR_QUALITY)
    prior[-1] = _PRIOR_FIRST_SIDE
    at, converged = np.zeros(calls.n + 1), False
    for _ in range(_STEPS):
        p = _chance(calls.predict(at))
        slope = calls.collect(won - p) - prior * at
        hessian = calls.information(p * (1 - p)) + np.diag(prior)
        converged = bool(np.abs(slope).max() <= _ENOUGH * max(1, len(won)))
        if converged:
            break
        at = _better(calls, won, prior, at, np.linalg.solve(hessian, slope))
    inverse = np.linalg.inv(calls.information(_spread(calls, at)) + np.diag(prior))
    return Fit(
        estimates=at[:-1] - at[:-1].mean(),
        covariance=projected(inverse[:-1, :-1]),
        first_side=float(at[-1]),
        first_side_sd=float(np.sqrt(inverse[-1, -1])),
        sigma=None,
        of=calls,
        converged=converged,
    )


def _better(calls: Comparisons, won: Floats, prior: Floats, at: Floats, step: Floats) -> Floats:
    """Return `at` + `step`, the step halved until the log posterior does not fall (but for rounding)."""
    before = _log_posterior(calls, won, prior, at)
    for _ in range(_HALVINGS):
        if _log_posterior(calls, won, prior, at + step) >= before - 1e-12 * abs(before):
            break
        step = step / 2
    return at + step


def _log_posterior(calls: Comparisons, won: Floats, prior: Floats, at: Floats) -> float:
    x = calls.predict(at)
    return float((won * x - np.logaddexp(0, x)).sum() - (prior * at * at).sum() / 2)


def _chance(x: Floats) -> Floats:
    return (1 + np.tanh(x / 2)) / 2  # does not overflow


def _spread(calls: Comparisons, at: Floats) -> Floats:
    p = _chance(calls.predict(at))
    return p * (1 - p)
