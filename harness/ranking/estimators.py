"""The estimators by name: how the matches of a tournament become a score for each entrant.

To add an estimator: write a function from `Evidence` to `Estimate`, name it in `harness.core.settings.EstimatorName`,
and enter it in `ESTIMATORS`.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from harness.core.rankings import Match, SecondOpinion
from harness.core.settings import EstimatorName
from harness.ranking.comparisons import WEAK, Comparisons, Fit, Floats, Prior, projected
from harness.ranking.margins import fit_margins
from harness.ranking.pooled import fit_alone
from harness.ranking.posteriors import BILLION
from harness.ranking.topology import Standing

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
    p = _chance(calls.predict(at))
    inverse = np.linalg.inv(calls.information(p * (1 - p)) + np.diag(prior))
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


def win_shares(entrants: Iterable[int], matches: Sequence[Match]) -> dict[int, Fraction]:
    """Return points over matches for each entrant, 0 without a match; greater is better, equal is tied.

    A share, not a sum, so that byes neither help nor harm; where all play equally often, as in a round robin, the
    order is that of the points (Copeland's score). A repeated pair counts again, as its tournament says.
    """
    points = {e: [0, 0] for e in entrants}
    for m in matches:
        for side in (m.a, m.b):
            points[side][0] += 1 if m.winner is None else 2 * (m.winner == side)
            points[side][1] += 2
    return {e: Fraction(won, most) if most else Fraction() for e, (won, most) in points.items()}


def tiers(standings: Sequence[Standing]) -> Mapping[int, tuple[float, ...]]:
    """Return each entrant's sort key, greater is better: round reached, then V, then seed score.

    Entrants with equal keys are tied. V is `Standing.mean`.
    """
    return {s.entrant: (s.round_reached, s.mean_key, s.seed_key) for s in standings}


@dataclass(frozen=True)
class Evidence:
    """What a tournament left to estimate from. The calls and the fit number the entrants as `standings` does."""

    standings: Sequence[Standing]
    matches: Sequence[Match]
    calls: Comparisons
    """The judged calls behind the matches, each once."""
    of_pool: Fit | None = None
    """The `pooled` fit of the calls, if the judge was learnt from other groups, too."""
    prior: Prior = WEAK
    """What `pooled` believes of the judge beforehand."""

    @cached_property
    def margins(self) -> Fit:
        """The `margins` fit of the calls."""
        return fit_margins(self.calls)

    @cached_property
    def pooled(self) -> Fit:
        """The `pooled` fit of the calls; a group alone goes by what is known of the judge."""
        return self.of_pool or fit_alone(self.calls, self.prior)


@dataclass(frozen=True)
class Estimate:
    """A score for each entrant, greater is better; equal scores are tied."""

    scores: Mapping[int, float]
    keys: Mapping[int, Any]
    """What the entrants are sorted by, greater is better: exact, and with what decides between equal scores."""
    exact: Callable[[], Mapping[int, Fraction]]
    """Returns the scores without rounding."""
    fit: Fit | None = None
    """The fit that the scores come from. With a fit a group is ranked as soon as its calls connect all entrants."""


NO_ESTIMATE = Estimate({}, {}, dict[int, Fraction])
"""Of nobody."""


def _by_tiers(evidence: Evidence) -> Estimate:
    """Return V as the score, and the tiers as keys."""
    standings = evidence.standings
    scores = {s.entrant: s.score for s in standings}
    return Estimate(scores, tiers(standings), lambda: {s.entrant: s.mean for s in standings})


def _by_wins(evidence: Evidence) -> Estimate:
    shares = win_shares([s.entrant for s in evidence.standings], evidence.matches)
    return Estimate({entrant: float(share) for entrant, share in shares.items()}, shares, lambda: shares)


def _equals(matches: Sequence[Match]) -> Mapping[int, Collection[int]]:
    """Return who had one text, for each entrant that is not alone: a verdict's key stands for one text on each side."""
    equals, stood = dict[int, set[int]](), dict[tuple[str, bool], int]()
    for m in matches:
        for key, first in zip(m.verdicts, m.shown_first, strict=False):  # of scores from elsewhere there are no keys
            for entrant in (m.a, m.b):
                if (other := stood.setdefault((key, entrant == first), entrant)) != entrant:
                    joined = equals.get(entrant, {entrant}) | equals.get(other, {other})
                    equals |= dict.fromkeys(joined, joined)
    return equals


def _by_fit(evidence: Evidence, fit: Fit, least_apart: int = 0) -> Estimate:
    """Return the modes as scores, to 9 places, so that ties are ties.

    Those are equal, too, that lie closer than `least_apart` billionths of a score point: sums over a pool differ by
    less with the order of its groups. Entrants of equal texts get their mean, from fit_version 6 on.
    """
    level, before = dict[int, int](), -BILLION * BILLION
    found = {s.entrant: score for s, score in zip(evidence.standings, fit.billionths, strict=True)}
    if evidence.prior.fit_version > 5:
        found |= {e: sum([found[x] for x in equals]) // len(equals) for e, equals in _equals(evidence.matches).items()}
    for score in sorted(found.values()):
        if score - before >= least_apart:
            before = score
        level[score] = before
    keys = {entrant: level[score] for entrant, score in found.items()}
    scores = {entrant: score / BILLION for entrant, score in keys.items()}
    return Estimate(scores, keys, lambda: {e: Fraction(score, BILLION) for e, score in keys.items()}, fit)


ESTIMATORS: Mapping[EstimatorName, Callable[[Evidence], Estimate]] = {
    "tiers": _by_tiers,
    "wins": _by_wins,
    "margins": lambda evidence: _by_fit(evidence, evidence.margins),
    "bt": lambda evidence: _by_fit(evidence, fit_bt(evidence.calls)),
    "pooled": lambda evidence: _by_fit(evidence, evidence.pooled, least_apart=1000),
}
"""Every estimator by the name that users give it."""


def secondary_fit(estimator: EstimatorName) -> SecondOpinion:
    """Return which fit stands beside an estimator: `pooled` beside one without a fit of its own."""
    return "pooled" if estimator in {"tiers", "wins"} else "margins"


def rests_on_pooled(estimator: EstimatorName) -> bool:
    """Tell whether `pooled` ranks, or gives the probabilities beside what ranks."""
    return "pooled" in {estimator, secondary_fit(estimator)}
