"""The estimators by name: how the matches of a tournament become a score for each entrant.

To add an estimator: write a function from `Evidence` to `Estimate`, name it in `harness.core.settings.EstimatorName`,
and enter it in `ESTIMATORS`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from harness.core.rankings import Match
from harness.core.settings import EstimatorName
from harness.ranking.bt import fit_bt
from harness.ranking.comparisons import Comparisons, Fit
from harness.ranking.judge_prior import WEAK, Prior
from harness.ranking.margins import fit_margins
from harness.ranking.pooled import fit_alone
from harness.ranking.posteriors import BILLION
from harness.ranking.tiers import tiers
from harness.ranking.topology import Standing
from harness.ranking.wins import win_shares


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
_OF_ROUNDING = 1000
"""Billionths of a score point. Sums over a pool differ by less with the order of its groups."""


def _by_tiers(evidence: Evidence) -> Estimate:
    """Return V as the score, and the tiers as keys."""
    standings = evidence.standings
    scores = {s.entrant: s.score for s in standings}
    return Estimate(scores, tiers(standings), lambda: {s.entrant: s.mean for s in standings})


def _by_wins(evidence: Evidence) -> Estimate:
    shares = win_shares([s.entrant for s in evidence.standings], evidence.matches)
    return Estimate({entrant: float(share) for entrant, share in shares.items()}, shares, lambda: shares)


def by_fit(evidence: Evidence, fit: Fit) -> Estimate:
    """Return the modes as scores, to 9 places, so that ties are ties."""
    return _scored(evidence, fit.billionths, fit)


def _scored(evidence: Evidence, billionths: Sequence[int], fit: Fit) -> Estimate:
    keys = dict(zip([s.entrant for s in evidence.standings], billionths, strict=True))
    scores = {entrant: score / BILLION for entrant, score in keys.items()}
    return Estimate(scores, keys, lambda: {e: Fraction(score, BILLION) for e, score in keys.items()}, fit)


def _by_pooled(evidence: Evidence) -> Estimate:
    """Rank by the fit that the other groups are in, too, if they are known."""
    fit = evidence.pooled
    return _scored(evidence, _levelled(fit.billionths), fit)


def _levelled(billionths: Sequence[int]) -> list[int]:
    """Return scores in which those are equal that only the rounding of a long computation can tell apart."""
    level, before = dict[int, int](), -BILLION * BILLION
    for score in sorted(billionths):
        if score - before >= _OF_ROUNDING:
            before = score
        level[score] = before
    return [level[score] for score in billionths]


ESTIMATORS: Mapping[EstimatorName, Callable[[Evidence], Estimate]] = {
    "tiers": _by_tiers,
    "wins": _by_wins,
    "margins": lambda evidence: by_fit(evidence, evidence.margins),
    "bt": lambda evidence: by_fit(evidence, fit_bt(evidence.calls)),
    "pooled": _by_pooled,
}
"""Every estimator by the name that users give it."""
OF_A_GROUP: tuple[EstimatorName, ...] = ("tiers", "wins", "margins", "bt")
"""Those that need no other group than the one that they rank."""
