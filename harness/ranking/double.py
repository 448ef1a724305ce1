"""`double`: double elimination with given seeds; who has lost twice is out."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

from harness.core.settings import OrderPolicy
from harness.ranking.knockout import seeded_order
from harness.ranking.topology import Pairing, Played, Standing, Topology, orders

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
