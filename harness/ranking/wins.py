"""`wins`: the share of points won, a win 1 and a tie 1/2."""

from collections.abc import Iterable, Sequence
from fractions import Fraction

from harness.core.rankings import Match


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
