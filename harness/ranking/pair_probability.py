"""How surely one entrant of a ranked group is better than another."""

import math
from collections.abc import Mapping, Sequence
from itertools import permutations

from harness.core.rankings import Match
from harness.ranking.conclusions import comparisons_of
from harness.ranking.margins import fit_margins
from harness.ranking.student import probability_above_zero


def probabilities_above(matches: Sequence[Match]) -> Mapping[tuple[int, int], float]:
    """Return, for each two entrants (a, b) of a group's matches, the posterior probability that a is above b.

    It is that of the `margins` fit of all judged calls, whatever estimator ranked the group, with the covariance of the
    two. Empty where the matches hold no scores of calls: archives of 0.1.0, and listwise judges.
    """
    entrants = sorted({entrant for match in matches for entrant in (match.a, match.b)})
    calls = comparisons_of(entrants, matches) if entrants else None
    if calls is None or not calls.first.size:
        return {}
    fit = fit_margins(calls)
    estimates, covariance = fit.estimates.tolist(), fit.covariance.tolist()
    probabilities: dict[tuple[int, int], float] = {}
    for i, j in permutations(range(len(entrants)), 2):
        variance = covariance[i][i] + covariance[j][j] - 2 * covariance[i][j]
        z = (estimates[i] - estimates[j]) / math.sqrt(variance) if variance > 0 else 0.0
        probabilities[entrants[i], entrants[j]] = probability_above_zero(z, fit.dof)
    return probabilities
