"""Seeded single elimination: the standard bracket that `arena` and `single` play."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from harness.core.settings import OrderPolicy
from harness.ranking.topology import Exact, Pairing, Played, orders

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
