"""Single elimination: the seeded bracket, `single`, and `arena`, whose anchor seeds it (ArenaRL, arXiv 2601.06487)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from harness.core.settings import OrderPolicy
from harness.ranking.topology import Exact, Pairing, Played, Standing, distinct, exact_mean, orders

EarlierScores = Mapping[tuple[int, int], tuple[Exact, Exact]]
"""The scores of pairs that have met before, either way round."""


def seeded_order(size: int) -> list[int]:
    """Return the seeds (0 best) in bracket order for `size` places, a power of two.

    Neighbours meet in round one; seeds s and size-1-s are paired, and the best seeds can meet only at the end.
    """
    order = [0]
    while len(order) < size:
        order = [seed for s in order for seed in (s, 2 * len(order) - 1 - s)]
    return order


@dataclass
class SeededBracket:
    """One single elimination among `seeds` (entrants, best first). A tie goes to the better seed.

    The bracket has the next power of two of places; the places without an entrant are byes, and fall to the
    best seeds because the standard order pairs them with the missing worst ones.
    """

    seeds: Sequence[int]
    policy: OrderPolicy
    earlier_scores: EarlierScores
    _slots: list[list[int | None]] = field(init=False)
    _open: dict[Pairing, tuple[int, int]] = field(init=False, default_factory=dict[Pairing, tuple[int, int]])
    """Open matches, each with its round, from 0, and its place."""
    _played: dict[tuple[int, int], Played] = field(init=False, default_factory=dict[tuple[int, int], Played])
    _reached: dict[int, int] = field(init=False)
    _points: dict[int, list[Exact]] = field(init=False)

    def __post_init__(self) -> None:
        size = 1
        while size < len(self.seeds):
            size *= 2
        self._rank_of = {entrant: seed for seed, entrant in enumerate(self.seeds)}
        self._reached = dict.fromkeys(self.seeds, 0)
        self._points = {entrant: [] for entrant in self.seeds}
        self._slots = [[self.seeds[s] if s < len(self.seeds) else None for s in seeded_order(size)]]
        while len(self._slots[-1]) > 1:
            self._slots.append([None] * (len(self._slots[-1]) // 2))
        for place in range(0, size - 1, 2):
            self._settle(0, place)

    @property
    def matches(self) -> list[Played]:
        """The matches played so far, by round and place."""
        return [self._played[key] for key in sorted(self._played)]

    def pairings(self) -> list[Pairing]:
        """Return the open matches, by round and place."""
        return sorted(self._open, key=self._open.__getitem__)

    def record(self, pairing: Pairing, score_a: Exact, score_b: Exact) -> None:
        """Take a result. Raises ValueError for a pairing that is not open."""
        if (key := self._open.pop(pairing, None)) is None:
            raise ValueError(f"no open match between {pairing.a} and {pairing.b} in round {pairing.round}")
        self._finish(key, Played(pairing, score_a, score_b))

    def round_reached(self, entrant: int) -> int:
        """Return how many rounds `entrant` has come through, byes included."""
        return self._reached[entrant]

    def points(self, entrant: int) -> tuple[Exact, ...]:
        """Return the scores of `entrant`, one a match played, by round."""
        return tuple(self._points[entrant])

    def _settle(self, level: int, place: int) -> None:
        """Open the match of two neighbours; let an entrant alone through; reuse the scores where the pair has met."""
        a, b = self._slots[level][place], self._slots[level][place + 1]
        if level == 0 and (a is None or b is None):
            self._advance(level, place, a if b is None else b)
        elif a is not None and b is not None:
            pairing = Pairing(a, b, level + 1, orders(a, b, self.policy))
            if scores := self.earlier_scores.get((a, b)):
                self._finish((level, place), Played(pairing, *scores, repeated=True))
            else:
                self._open[pairing] = level, place

    def _finish(self, key: tuple[int, int], played: Played) -> None:
        self._played[key] = played
        a, b = played.pairing.a, played.pairing.b
        self._points[a].append(played.score_a)  # whoever plays in a round has played in those before
        self._points[b].append(played.score_b)
        a_wins = (played.score_a, -self._rank_of[a]) > (played.score_b, -self._rank_of[b])
        self._advance(*key, a if a_wins else b)

    def _advance(self, level: int, place: int, winner: int | None) -> None:
        up = place // 2
        self._slots[level + 1][up] = winner
        if winner is not None:
            self._reached[winner] = level + 1
        if level + 2 < len(self._slots):
            self._settle(level + 1, up - up % 2)


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


class Single:
    """Single elimination among `seeds` (entrants, best first). Draw the seeds from an rng where no order is known."""

    name = "single"

    def __init__(self, seeds: Sequence[int], order: OrderPolicy = "both") -> None:
        """Set up. Raises ValueError for no entrants or an entrant named twice."""
        self._seeds = distinct(seeds)
        self._bracket = SeededBracket(self._seeds, order, {})

    @property
    def matches(self) -> Sequence[Played]:
        """The matches by round and place."""
        return self._bracket.matches

    def pairings(self) -> Sequence[Pairing]:
        """Return the open matches."""
        return self._bracket.pairings()

    def record(self, pairing: Pairing, score_a: Exact, score_b: Exact) -> None:
        """Take a result. Raises ValueError for a pairing that is not open."""
        self._bracket.record(pairing, score_a, score_b)

    def standings(self) -> Sequence[Standing]:
        """Return each entrant's standing, in entrant order. There is no seed score."""
        return [Standing(e, self._bracket.round_reached(e), self._bracket.points(e), None) for e in sorted(self._seeds)]


def match_bounds(n: int) -> tuple[int, int]:
    """Return the fewest and the most matches that have to be judged for `n` entrants.

    2(n-1) less the anchor's bracket matches, which repeat seeding pairs: at least one, at most one a round.
    """
    if n == 1:
        return (0, 0)
    return (2 * (n - 1) - (n - 1).bit_length(), 2 * (n - 1) - 1)
