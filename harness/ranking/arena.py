"""`arena`: anchor seeding, then seeded single elimination (ArenaRL, arXiv 2601.06487)."""

from collections.abc import Sequence

from harness.core.settings import OrderPolicy
from harness.ranking.bracket import SeededBracket
from harness.ranking.topology import Exact, Pairing, Played, Standing, exact_mean, orders


class Arena:
    """Phase 1: every sample meets the anchor; its score there seeds it. Phase 2: single elimination among all.

    The anchor's seed score is the mean of its own phase 1 scores. Equal seeds are ordered by index. A pair that
    phase 1 has judged is not judged again: its scores count for the bracket match as well.
    """

    name = "arena"

    def __init__(
        self, entrants: Sequence[int], anchor: int, order: OrderPolicy = "both", *, reuse: bool = True
    ) -> None:
        """Set up for `entrants` (rollout indices, `anchor` among them). Raises ValueError if it is not.

        Without `reuse` a pair that meets again is judged again, as the published code does: for comparison only.
        """
        if anchor not in entrants or len(set(entrants)) != len(entrants):
            raise ValueError(f"the anchor {anchor} must be one of the distinct entrants {list(entrants)}")
        self._entrants, self._anchor = tuple(entrants), anchor
        self._policy: OrderPolicy = order
        self._reuse = reuse
        self._samples = tuple(e for e in entrants if e != anchor)
        self._seeding: dict[int, Played] = {}
        self._open = {s: Pairing(s, anchor, 0, orders(s, anchor, order)) for s in self._samples}
        self._bracket: SeededBracket | None = None
        self._start_bracket()

    @property
    def matches(self) -> Sequence[Played]:
        """Seeding matches in entrant order, then the bracket by round and place."""
        seeding = [self._seeding[s] for s in self._samples if s in self._seeding]
        return [*seeding, *(self._bracket.matches if self._bracket else ())]

    def pairings(self) -> Sequence[Pairing]:
        """Return the open seeding matches, and once all are in the open bracket matches."""
        if self._bracket:
            return self._bracket.pairings()
        return list(self._open.values())

    def record(self, pairing: Pairing, score_a: Exact, score_b: Exact) -> None:
        """Take a result. Raises ValueError for a pairing that is not open."""
        if self._bracket:
            self._bracket.record(pairing, score_a, score_b)
            return
        if self._open.get(pairing.a) != pairing:
            raise ValueError(f"no open match between {pairing.a} and {pairing.b} in round {pairing.round}")
        del self._open[pairing.a]
        self._seeding[pairing.a] = Played(pairing, score_a, score_b)
        self._start_bracket()

    def standings(self) -> Sequence[Standing]:
        """Return each entrant's standing; the seed score is its first point."""
        return [self._standing(e) for e in self._entrants]

    def _start_bracket(self) -> None:
        if not self._open:
            seeds = sorted(self._entrants, key=lambda e: (-(self._seed_score(e) or 0), e))
            self._bracket = SeededBracket(seeds, self._policy, self._seeding_scores() if self._reuse else {})

    def _seed_score(self, entrant: int) -> Exact | None:
        if entrant != self._anchor:
            played = self._seeding.get(entrant)
            return played.score_a if played else None
        scores = [p.score_b for p in self._seeding.values()]
        return exact_mean(scores) if scores else None

    def _seeding_scores(self) -> dict[tuple[int, int], tuple[Exact, Exact]]:
        scores = dict[tuple[int, int], tuple[Exact, Exact]]()
        for played in self._seeding.values():
            a, b = played.pairing[:2]
            scores[a, b] = played.score_a, played.score_b
            scores[b, a] = played.score_b, played.score_a
        return scores

    def _standing(self, entrant: int) -> Standing:
        seed_score = self._seed_score(entrant)
        points = () if seed_score is None else (seed_score,)
        if self._bracket is None:
            return Standing(entrant, 0, points, seed_score)
        reached = self._bracket.round_reached(entrant)
        return Standing(entrant, reached, points + self._bracket.points(entrant), seed_score)


def match_bounds(n: int) -> tuple[int, int]:
    """Return the fewest and the most matches that have to be judged for `n` entrants.

    2(n-1) less the anchor's bracket matches, which repeat seeding pairs: at least one, at most one a round.
    """
    if n == 1:
        return (0, 0)
    return (2 * (n - 1) - (n - 1).bit_length(), 2 * (n - 1) - 1)
