"""`margins`: a group's qualities from its score margins alone, with a first-side effect.

The estimates are a ridge fit, linear in the margins, so that an archive's scores are what they were, and that it can be
proved when no missing reply changes the winner (early_stop.py). The probabilities come from a posterior in which the
noise and the width of the qualities are both unknown.
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from harness.core.settings import OrderPolicy
from harness.ranking.comparisons import Comparisons, Fit, Floats, projected
from harness.ranking.fixed_pairs import Cyclic
from harness.ranking.judge_stats.orders import PRIOR_FIRST_SIDE, PRIOR_QUALITY
from harness.ranking.topology import Exact, Pairing

NOISE_DOF, NOISE_VAR = 3.0, 4.0
"""nu0 and s0^2: the noise of a call's margin is believed to be s0 score points with the weight of nu0 observations."""
QUALITY_DOF, QUALITY_VAR = 4.0, 2.0
"""nu1 and s1^2: the qualities are believed to lie s1 score points apart with the weight of nu1 rollouts."""
CROWDING: Floats = np.array([[1.0], [0.25], [0.0625]])
"""Both variances are believed to be so much smaller where a judge's marks stand close together."""
CROWDED: Floats = np.array([[0.6], [0.25], [0.15]])
"""How probable each is."""
RATIOS: Floats = np.geomspace(1 / 256, 256, 25)
"""lambda = sigma^2 / tau^2, noise over quality variance: the values over which the fit is averaged."""
_PRIOR_SUMS: Floats = CROWDING * (NOISE_DOF * NOISE_VAR + QUALITY_DOF * QUALITY_VAR * RATIOS)
_PRIOR_LOGS: Floats = QUALITY_DOF * np.log(RATIOS) + (NOISE_DOF + QUALITY_DOF) * np.log(CROWDING) + 2 * np.log(CROWDED)
_FEWEST_DOF = 3.0


class _Design(NamedTuple):
    """What follows from who met whom, for n entrants and R ratios. Groups of a run share few designs."""

    ridge: Floats
    """(n + 1, n + 1), (X'X + Lambda)^-1."""
    basis: Floats
    """B, (n + 1, n + 1), with (X'X + lambda Lambda)^-1 = B diag(shrunk) B' for every lambda."""
    shrunk: Floats
    """(R, n + 1)."""
    log_scale: Floats
    """(R,), log of the sum of `shrunk`."""
    log_odds: Floats
    """(R,), twice the log of what the determinants and the priors say of a ratio, up to a constant."""


class _Average(NamedTuple):
    """The average over ratios and crowdings, in the basis of the design."""

    mean: Floats
    variance: Floats
    dof: float
    noise_var: float


def fit_margins(calls: Comparisons) -> Fit:
    """Fit m_k = score_first - score_second = theta_first - theta_second + beta + noise, all variances unknown.

    The estimates are (X'X + Lambda)^-1 X'm, Lambda = (1 on theta, 0.5 on beta), finite whatever the design: knockouts,
    perfect records, parts that never met. beta is always fitted: left out, it would inflate the noise where both orders
    are judged. The posterior has theta ~ N(0, tau^2), beta ~ N(0, 2 tau^2), noise ~ N(0, sigma^2), and scaled inverse
    chi-square priors on sigma^2 and tau^2, each its own: how far rollouts are believed to differ does not grow with the
    noise. Given lambda = sigma^2 / tau^2 it is a Student t with nu0 + nu1 + K degrees of freedom about
    (X'X + lambda Lambda)^-1 X'm (Bayesian linear regression with conjugate priors: Gelman et al., Bayesian Data
    Analysis, 14.2 and 14.8). The fit's is the average over lambda, as a Student t of the same mean and covariance, with
    the degrees of freedom that the spread of the scales leaves.
    """
    margin = calls.score_first - calls.score_second
    design, collected = _find_design(calls), calls.collect(margin)
    mode = design.ridge @ collected
    at = _average(design, design.basis.T @ collected, float(margin @ margin), len(margin))
    center, variance = design.basis @ at.mean, design.basis @ at.variance @ design.basis.T
    return Fit(
        estimates=mode[:-1] - mode[:-1].mean(),
        covariance=projected(variance[:-1, :-1] * ((at.dof - 2) / at.dof)),
        first_side=float(mode[-1]),
        first_side_sd=math.hypot(math.sqrt(variance[-1, -1]), center[-1] - mode[-1]),
        sigma=math.sqrt(at.noise_var),
        of=calls,
        converged=True,
        dof=at.dof,
        center=center[:-1] - center[:-1].mean(),
    )


def ridge(calls: Comparisons) -> Floats:
    """Return (X'X + Lambda)^-1, (n+1, n+1): it depends on who met whom, not on what came of it."""
    return _find_design(calls).ridge


def _find_design(calls: Comparisons) -> _Design:
    return _design(calls.n, calls.first.tobytes(), calls.second.tobytes())


@lru_cache(maxsize=256)
def _design(n: int, first: bytes, second: bytes) -> _Design:
    calls = Comparisons.of(
        n, *(np.frombuffer(side, np.int64) for side in (first, second)), *np.zeros((2, len(first) // 8))
    )
    information, prior = calls.information(), np.full(n + 1, PRIOR_QUALITY)
    prior[-1] = PRIOR_FIRST_SIDE
    values, vectors = np.linalg.eigh(information / np.sqrt(np.outer(prior, prior)))
    shrunk = 1 / (np.maximum(values, 0) + RATIOS[:, None])
    return _Design(
        ridge=np.linalg.inv(information + np.diag(prior)),
        basis=vectors / np.sqrt(prior)[:, None],
        shrunk=shrunk,
        log_scale=np.log(shrunk.sum(axis=1)),
        log_odds=np.log(RATIOS[:, None] * shrunk).sum(axis=1),
    )


def _average(design: _Design, collected: Floats, square: float, calls: int) -> _Average:
    """Average over ratios and crowdings: each has its ridge estimate, its noise, and odds by the margins."""
    dof = NOISE_DOF + QUALITY_DOF + calls
    means = collected * design.shrunk
    sums = _PRIOR_SUMS + np.maximum(square - means @ collected, 0)
    log_sums = np.log(sums)
    odds = _PRIOR_LOGS + design.log_odds - dof * log_sums
    weights = np.exp((odds - odds.max()) / 2)
    weights /= weights.sum()
    of_ratio, noise_vars = weights.sum(axis=0), (weights * sums).sum(axis=0) / (dof - 2)
    log_scales = log_sums + design.log_scale
    log_scales -= (weights * log_scales).sum()
    mean = of_ratio @ means
    apart = (means - mean) * np.sqrt(of_ratio)[:, None]
    return _Average(
        mean=mean,
        variance=np.diag(noise_vars @ design.shrunk) + apart.T @ apart,
        dof=max(_FEWEST_DOF, 1 / (1 / dof + float((weights * log_scales**2).sum()) / 2)),
        noise_var=float(noise_vars.sum()),
    )


SPAN = 10.0
"""The widest margin that one call can give: scores run from 0 to 10."""
_JurorScores = tuple[int, int, float, float, int]
"""Who was shown first and who second, what each scored, and the juror's seat."""
_TINY = 1e-9
"""A lead below this is a draw, and floating point: scores are given to a tenth."""


class EarlyStop(Cyclic):
    """`cyclic`, round by round, until the leader cannot be caught any more.

    With `sure` 1 the winner by `margins` is certain: whatever the calls left over could say, the fit of all planned
    calls would name the same winner. With `sure` below 1 the tournament is over as soon as the leader's posterior
    probability of being best reaches `sure`, by `fit`.
    """

    def __init__(
        self,
        entrants: Sequence[int],
        order: OrderPolicy | None = None,
        budget: int | None = None,
        *,
        sure: float = 1.0,
        fit: Callable[[Comparisons], Fit] = fit_margins,
        units: int = 1,
    ) -> None:
        """Set up as `Cyclic` does, with one order a match.

        Results are recorded in `units` to a score point. Raises ValueError for `sure` not in (0, 1].
        """
        if not 0 < sure <= 1:
            raise ValueError(f"sure must be above 0 and at most 1, got {sure}")
        super().__init__(entrants, order, budget)
        self._sure, self._fit, self._units = sure, fit, units
        self._number = {e: i for i, e in enumerate(entrants)}
        self._plan = list(self._open)
        self._scores: dict[Pairing, tuple[float, float]] = {}
        self._of_jurors: dict[Pairing, Sequence[_JurorScores]] = {}
        self._over = False
        self.last_fit: Fit | None = None
        """The fit that was looked at last, of the calls up to then; None with `sure` 1, which needs none."""

    @property
    def saved_calls(self) -> int:
        """The planned calls that need not be made any more; 0 until it is decided."""
        return len(self._plan) - len(self._scores) if self._over else 0

    def pairings(self) -> Sequence[Pairing]:
        """Return the open matches of the first round that has any; none once the winner is decided."""
        left = list(self._open)
        return [p for p in left if not self._over and p.round == left[0].round]

    def add_juror_scores(self, pairing: Pairing, scores: Sequence[_JurorScores]) -> None:
        """Take what the jurors of a jury gave the sides of a match, before its result; nothing of a single judge."""
        if scores:
            self._of_jurors[pairing] = scores

    def record(self, pairing: Pairing, score_a: Exact, score_b: Exact) -> None:
        """Take a result. Raises ValueError for a pairing that is not open."""
        super().record(pairing, score_a, score_b)
        self._scores[pairing] = float(score_a / self._units), float(score_b / self._units)
        if any(p.round == pairing.round for p in self._open):
            return
        if self._sure == 1:
            made = np.array([p in self._scores for p in self._plan])
            self._over = leads_for_certain(self._calls(self._plan), made)
        else:
            self.last_fit = self._fit(self._calls([p for p in self._plan if p in self._scores]))
            self._over = bool(self.last_fit.p_best().max() >= self._sure)

    def _calls(self, pairings: Sequence[Pairing]) -> Comparisons:
        if self._of_jurors and self._sure < 1:
            calls = [call for pairing in pairings for call in self._of_jurors[pairing]]
            first, second = ([self._number[pair[side]] for *pair, _, _, _ in calls] for side in (0, 1))
            *_, of_first, of_second, jurors = zip(*calls, strict=True)
            return Comparisons.of(len(self._number), first, second, of_first, of_second, jurors)
        a, b = ([self._number[getattr(p, side)] for p in pairings] for side in "ab")
        of_a, of_b = ([self._scores.get(p, (0.0, 0.0))[side] for p in pairings] for side in (0, 1))
        return Comparisons.of(len(self._number), a, b, of_a, of_b)


def leads_for_certain(plan: Comparisons, made: "np.ndarray[tuple[int], np.dtype[np.bool_]]") -> bool:
    """Tell whether one entrant is sure to top the `margins` fit of all of `plan`, whatever the calls not `made` say.

    The fit is linear in the margins m: theta_l - theta_r = c m. The calls made give a part of the lead; each other call
    takes at worst SPAN |c_k| away.
    """
    design = np.zeros((len(made), plan.n + 1))
    rows = np.arange(len(made))
    design[rows, plan.first], design[rows, plan.second], design[:, -1] = 1.0, -1.0, 1.0
    weights: Floats = (ridge(plan) @ design.T)[:-1]
    so_far = weights[:, made] @ (plan.score_first - plan.score_second)[made]
    leader = int(so_far.argmax())
    ahead = so_far[leader] - so_far
    at_risk = SPAN * np.abs(weights[leader] - weights)[:, ~made].sum(axis=1)
    return bool(np.all(np.delete(ahead > at_risk + _TINY, leader)))
