"""`tiers`: ArenaRL's own estimator (arXiv 2601.06487, phase 3)."""

from collections.abc import Mapping, Sequence
from fractions import Fraction

from harness.ranking.topology import Standing


def tiers(standings: Sequence[Standing]) -> Mapping[int, tuple[Fraction, ...]]:
    """Return each entrant's sort key, greater is better: round reached, then V, then seed score.

    Entrants with equal keys are tied. V is `Standing.mean`.
    """
    return {s.entrant: (Fraction(s.round_reached), s.mean, s.seed_score or Fraction()) for s in standings}
