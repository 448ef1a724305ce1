"""Single and double elimination: the seeded bracket, and `arena`, whose anchor seeds it (ArenaRL, arXiv 2601.06487)."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

from harness.core.settings import OrderPolicy
from harness.ranking.topology import Pairing, Played, Standing, Topology, exact_mean, orders


def seeded_order(size: int) -> list[int]:
    """Return the seeds (0 best) in bracket order for `size` places, a power of two.

    Neighbours meet in round one; seeds s and size-1-s are paired, and the best seeds can meet only at the end.
    """
    order = [0]
    while len(order) < size:
        order = [seed for s in order for seed in (s, 2 * len(order) - 1 - s)]
    return order


class _Bracket(Topology):
    """One single elimination. A tie goes to the better seed.

    The bracket has the next power of two of places; the places without an entrant are byes, and fall to the
    best seeds because the standard order pairs them with the missing worst ones.
    """

    def __init__(self, entrants: Sequence[int], order: OrderPolicy, *, reuse: bool = True) -> None:
        super().__init__(entrants)
        self._order: OrderPolicy = order
        self._reuse = reuse
        self._places: dict[Pairing, int] = {}
        self._reached = dict.fromkeys(entrants, 0)
        """How many rounds each entrant has come through, byes included."""

    def pairings(self) -> Sequence[Pairing]:
        """Return the open matches, by round and place."""
        return sorted(self._open, key=lambda p: (p.round, self._open[p]))

    def _start_bracket(self, seeds: Sequence[int]) -> None:
        size = 1 << (len(seeds) - 1).bit_length()
        self._seed_of = {entrant: seed for seed, entrant in enumerate(seeds)}
        self._slots: list[list[int | None]] = [[None] * (size >> level) for level in range(size.bit_length())]
        self._slots[0] = [seeds[s] if s < len(seeds) else None for s in seeded_order(size)]
        for place in range(0, size - 1, 2):
            self._settle(0, place)

    def _settle(self, level: int, place: int) -> None:
        """Open the match of two neighbours; let an entrant alone through; reuse the scores where the pair has met."""
        a, b = self._slots[level][place], self._slots[level][place + 1]
        if level == 0 and (a is None or b is None):
            self._advance(level, place, a if b is None else b)
        elif a is not None and b is not None:
            pairing = Pairing(a, b, level + 1, orders(a, b, self._order))
            self._places[pairing] = place
            if self._reuse and (played := self._repeat(pairing, place)):
                self._after(played)
            else:
                self._open_match(pairing, place)

    def _after(self, played: Played) -> None:
        a, b = played.pairing.a, played.pairing.b
        a_wins = (played.score_a, -self._seed_of[a]) > (played.score_b, -self._seed_of[b])
        self._advance(played.pairing.round - 1, self._places[played.pairing], a if a_wins else b)

    def _advance(self, level: int, place: int, winner: int | None) -> None:
        up = place // 2
        self._slots[level + 1][up] = winner
        if winner is not None:
            self._reached[winner] = level + 1
        if level + 2 < len(self._slots):
            self._settle(level + 1, up - up % 2)


class Single(_Bracket):
    """Single elimination among `seeds` (entrants, best first). Draw the seeds from an rng where no order is known."""

    name = "single"

    def __init__(self, seeds: Sequence[int], order: OrderPolicy = "both") -> None:
        """Set up. Raises ValueError for no entrants or an entrant named twice."""
        super().__init__(seeds, order)
        self._start_bracket(seeds)

    def standings(self) -> Sequence[Standing]:
        """Return each entrant's standing, in entrant order. There is no seed score."""
        points = self._points(self.matches)
        return [Standing(e, self._reached[e], points[e], None) for e in sorted(self._entrants)]


class Arena(_Bracket):
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
        super().__init__(entrants, order, reuse=reuse)
        for place, sample in enumerate(e for e in entrants if e != anchor):
            pairing = Pairing(sample, anchor, 0, orders(sample, anchor, order))
            self._places[pairing] = place
            self._open_match(pairing, place)
        self._end_seeding()

    def standings(self) -> Sequence[Standing]:
        """Return each entrant's standing; the seed score is its first point."""
        seeding = self._points(played for played in self.matches if not played.pairing.round)
        bracket = self._points(played for played in self.matches if played.pairing.round)
        seeds = {e: exact_mean(scores) for e, scores in seeding.items() if scores}
        return [
            Standing(e, self._reached[e], (*([seeds[e]] if e in seeds else []), *bracket[e]), seeds.get(e))
            for e in self._entrants
        ]

    def _after(self, played: Played) -> None:
        if played.pairing.round:
            super()._after(played)
        else:
            self._end_seeding()

    def _end_seeding(self) -> None:
        if not self._open:
            seeds = {s.entrant: s.seed_score or 0 for s in self.standings()}
            self._start_bracket(sorted(seeds, key=lambda e: (-seeds[e], e)))


def match_bounds(n: int) -> tuple[int, int]:
    """Return the fewest and the most matches that have to be judged for `n` entrants.

    2(n-1) less the anchor's bracket matches, which repeat seeding pairs: at least one, at most one a round.
    """
    if n == 1:
        return (0, 0)
    return (2 * (n - 1) - (n - 1).bit_length(), 2 * (n - 1) - 1)


_EMPTY = None
"""Nobody comes to this side: a bye."""


@dataclass
class _Node:
    """A place where two meet, and where winner and loser go from there: a node and a side of it; None is out."""

    stage: int
    place: int
    sides: dict[int, int | None] = field(default_factory=dict[int, int | None])
    """Who stands on side 0 and on side 1; a side is missing while that is not known."""
    winner_to: "tuple[_Node, int] | None" = None
    loser_to: "tuple[_Node, int] | None" = None


class Double(Topology):
    """An upper bracket as in `single`; who loses there drops to the lower bracket, whose winner meets the upper's.

    The final is one match. Byes fall to the best seeds, a tie goes to the better seed, and where two meet again
    their scores count again. Stages count both brackets in the order in which they can be played.
    """

    name = "double"

    def __init__(self, seeds: Sequence[int], order: OrderPolicy = "both") -> None:
        """Set up for `seeds` (entrants, best first). Raises ValueError for none, or an entrant named twice."""
        super().__init__(seeds)
        self._order: OrderPolicy = order
        self._seed_of = {e: seed for seed, e in enumerate(seeds)}
        self._reached = dict.fromkeys(seeds, 0)
        self._nodes: dict[Pairing, _Node] = {}
        size = 1 << (len(seeds) - 1).bit_length()
        places = [seeds[s] if s < len(seeds) else _EMPTY for s in seeded_order(size)]
        for at, node in enumerate(_upper_and_lower(size)):
            self._arrive((node, 0), places[2 * at])
            self._arrive((node, 1), places[2 * at + 1])

    def pairings(self) -> Sequence[Pairing]:
        """Return the open matches."""
        return sorted(self._open, key=lambda p: (p.round, self._nodes[p].place))

    def standings(self) -> Sequence[Standing]:
        """Return each entrant's standing, by index: the last stage it came to; the champion's is one more."""
        points = self._points(self.matches)
        return [Standing(e, self._reached[e], points[e], None) for e in sorted(self._entrants)]

    def _after(self, played: Played) -> None:
        self._leave(self._nodes[played.pairing], played)

    def _arrive(self, to: "tuple[_Node, int] | None", entrant: int | None) -> None:
        """Put someone, or the certainty that nobody comes, on a side of a node, and play on from there if it may be."""
        if to is None:
            return
        node, side = to
        node.sides[side] = entrant
        if len(node.sides) < 2:
            return
        a, b = node.sides[0], node.sides[1]
        if a is None or b is None:
            self._arrive(node.winner_to, b if a is None else a)
            self._arrive(node.loser_to, _EMPTY)
            return
        self._reached |= {a: node.stage, b: node.stage}
        pairing = Pairing(a, b, node.stage, orders(a, b, self._order))
        if played := self._repeat(pairing, node.place):
            self._leave(node, played)
        else:
            self._nodes[pairing] = node
            self._open_match(pairing, node.place)

    def _leave(self, node: _Node, played: Played) -> None:
        a, b = played.pairing.a, played.pairing.b
        a_wins = (played.score_a, -self._seed_of[a]) > (played.score_b, -self._seed_of[b])
        winner, loser = (a, b) if a_wins else (b, a)
        if node.winner_to is None:
            self._reached[winner] = node.stage + 1
        self._arrive(node.winner_to, winner)
        self._arrive(node.loser_to, loser)


def judged_in_double(n: int) -> tuple[int, int]:
    """Return the fewest and the most of the 2(n-1) matches that have to be judged: the others repeat a pair.

    Two may meet again only where the halves of the lower bracket can hold one and whom it has beaten: counted over
    the links of all brackets up to 256 places, that is at most places/8 + 3 matches, the final among them. Up to
    five entrants one repeat at least cannot be avoided.
    """
    size = 1 << (n - 1).bit_length()
    repeats = size // 8 + 3 if size > 8 else size.bit_length() - 1
    return 2 * (n - 1) - repeats, 2 * (n - 1) - (1 < n <= 5)


def _upper_and_lower(size: int) -> list[_Node]:
    """Return the first round of the upper bracket for `size` places, a power of two, with all that follows linked.

    Losers of the upper bracket drop in mirrored or shifted, so that they meet those they have beaten late.
    """
    levels = size.bit_length() - 1
    if levels == 0:
        return []
    upper = [_row(3 * level or 1, size >> (level + 1)) for level in range(levels)]
    lower = [_row(3 * j - 1 + half * 2, size >> (j + 1)) for j in range(1, levels) for half in (0, 1)]
    final = _Node(3 * levels - 1, 0)
    for row, above in itertools.pairwise(upper):
        for p, node in enumerate(row):
            node.winner_to = (above[p // 2], p % 2)
    for r, (row, after) in enumerate(itertools.pairwise(lower)):
        for p, node in enumerate(row):
            node.winner_to = (after[p // 2], p % 2) if r % 2 else (after[p], 0)
    for p, node in enumerate(upper[0]):
        node.loser_to = (lower[0][p // 2], p % 2) if lower else (final, 1)
    for j, row in enumerate(upper[1:], 1):
        for p, node in enumerate(row):
            across = len(row) - 1 - p if j % 2 else (p + len(row) // 2) % len(row)
            node.loser_to = (lower[2 * j - 1][across], 1)
    upper[-1][0].winner_to = (final, 0)
    if lower:
        lower[-1][0].winner_to = (final, 1)
    return upper[0]


def _row(stage: int, nodes: int) -> list[_Node]:
    return [_Node(stage, place) for place in range(nodes)]


BRACKETS = frozenset({Arena.name, Single.name})
"""The topologies of which a report draws the matches after the seeding as one bracket."""
