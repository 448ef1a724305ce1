"""By how much one entrant of a ranked group is better than another, and how surely."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

from harness.core.rankings import Match
from harness.ranking.comparisons import Fit
from harness.ranking.conclusions import collect_calls
from harness.ranking.margins import fit_margins
from harness.ranking.posteriors import probability_above_zero


@dataclass(frozen=True)
class PairEstimate:
    """What all judged calls of a group say of two of its entrants."""

    difference: float
    """The first less the second, in score points."""
    sd: float
    """How far the true difference lies from it: the root of the posterior's mean square."""
    p_above: float
    """Posterior probability that the first is above the second."""


def probabilities_above(matches: Sequence[Match]) -> Mapping[tuple[int, int], float]:
    """Return, for each two entrants (a, b) of a group's matches, the posterior probability that a is above b.

    It is that of the `margins` fit of all judged calls, with the covariance of the two. Empty where the matches hold no
    scores of calls: archives of 0.1.0, and listwise judges.
    """
    entrants, fit = _fit(matches)
    return probabilities_of_fit(fit, entrants) if fit else {}


def probabilities_of_fit(fit: Fit, entrants: Sequence[int]) -> Mapping[tuple[int, int], float]:
    """Return the same by a fit, which numbers the entrants by their place in `entrants`."""
    pairs = permutations(range(len(entrants)), 2)
    return {(entrants[i], entrants[j]): _estimate(fit, i, j).p_above for i, j in pairs}


def pair_estimate(matches: Sequence[Match], a: int, b: int) -> PairEstimate | None:
    """Return what the same fit says of two entrants; None where no judged calls connect them, and as above."""
    entrants, fit = _fit(matches)
    return pair_of_fit(fit, entrants, a, b) if fit else None


def pair_of_fit(fit: Fit, entrants: Sequence[int], a: int, b: int) -> PairEstimate | None:
    """Return what a fit says of two entrants, which it numbers by their place in `entrants`; None as above."""
    if a not in entrants or b not in entrants:
        return None
    i, j = entrants.index(a), entrants.index(b)
    connected = any(i in part and j in part for part in fit.components)
    return _estimate(fit, i, j) if connected else None


def _fit(matches: Sequence[Match]) -> tuple[list[int], Fit | None]:
    entrants = sorted({entrant for match in matches for entrant in (match.a, match.b)})
    calls = collect_calls(entrants, matches) if entrants else None
    return entrants, fit_margins(calls) if calls is not None and calls.first.size else None


def _estimate(fit: Fit, i: int, j: int) -> PairEstimate:
    covariance = fit.covariance
    variance = float(covariance[i, i] + covariance[j, j] - 2 * covariance[i, j])
    scale = math.sqrt(variance) if variance > 0 else 0.0
    difference, expected = float(fit.estimates[i] - fit.estimates[j]), float(fit.mean[i] - fit.mean[j])
    above = probability_above_zero(expected / scale if scale else 0.0, fit.dof)
    widening = math.sqrt(fit.dof / (fit.dof - 2)) if 2 < fit.dof < math.inf else 1.0
    return PairEstimate(difference, math.hypot(scale * widening, expected - difference), above)
