"""`tiers`: ArenaRL's own estimator (arXiv 2601.06487, phase 3)."""

from collections.abc import Mapping, Sequence

from harness.ranking.topology import Standing


def tiers(standings: Sequence[Standing]) -> Mapping[int, tuple[float, ...]]:
    """Return each entrant's sort key, greater is better: round reached, then V, then seed score.

    Entrants with equal keys are tied. V is `Standing.mean`.
    """
    return {s.entrant: (s.round_reached, s.mean_key, s.seed_key) for s in standings}
