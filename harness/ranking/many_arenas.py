"""Many tournaments of `arena` among as many entrants each, played at once by scores that are all known beforehand.

The same design as `harness.ranking.arena`, which plays one tournament as scores come; a test holds the two together.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.ranking.bracket import seeded_order

_Whole = NDArray[np.int64]
_Bools = NDArray[np.bool_]


class ManyArenas(NamedTuple):
    """G tournaments of n entrants, numbered from 0, with M = 2 (n - 1) matches each, in the order of `Arena`."""

    rounds: _Whole
    """(M,)."""
    a: _Whole
    """(G, M), and so are the next four."""
    b: _Whole
    score_a: _Whole
    score_b: _Whole
    repeated: _Bools
    reached: _Whole
    """(G, n): how many rounds of the bracket each entrant has come through."""


def play_arenas(scores: _Whole, anchor: int) -> ManyArenas:
    """Play all tournaments to the end.

    `scores` (G, n, n), n at least 2, has what each entrant got against each other one, in any unit that makes them
    whole numbers.
    """
    count, n, _ = scores.shape
    samples = np.array([entrant for entrant in range(n) if entrant != anchor])
    seeding = scores[:, samples, anchor]
    of_seeding = np.empty((count, n), np.int64)  # times n - 1, so that the anchor's mean is a whole number
    of_seeding[:, samples], of_seeding[:, anchor] = seeding * (n - 1), scores[:, anchor, samples].sum(axis=1)
    bracket = _Bracket(scores, np.argsort(-of_seeding, axis=1, kind="stable"))
    a, b, score_a, score_b = (np.concatenate(of_rounds, axis=1) for of_rounds in zip(*bracket.played, strict=True))
    return ManyArenas(
        rounds=np.array([0] * (n - 1) + bracket.rounds),
        a=np.concatenate([np.broadcast_to(samples, seeding.shape), a], axis=1),
        b=np.concatenate([np.full(seeding.shape, anchor), b], axis=1),
        score_a=np.concatenate([seeding, score_a], axis=1),
        score_b=np.concatenate([scores[:, anchor, samples], score_b], axis=1),
        repeated=np.concatenate([np.zeros(seeding.shape, bool), (a == anchor) | (b == anchor)], axis=1),
        reached=bracket.reached,
    )


class _Bracket:
    """The brackets of G tournaments, played round by round."""

    def __init__(self, scores: _Whole, entrants: _Whole) -> None:
        """Play to the end among `entrants` (G, n), the best seed first."""
        self._scores, self._entrants, self._all = scores, entrants, np.arange(len(scores))[:, None]
        self.reached = np.zeros(entrants.shape, np.int64)
        self.played: list[tuple[Any, ...]] = []
        """Of each round a, b and their scores, (G, matches) each."""
        self.rounds: list[int] = []
        n, size = entrants.shape[1], 1
        while size < n:
            size *= 2
        seeds = np.tile(seeded_order(size), (len(scores), 1))
        for level in range(1, size.bit_length()):
            seeds = self._winners(level, seeds[:, ::2], seeds[:, 1::2])

    def _winners(self, level: int, first: _Whole, second: _Whole) -> _Whole:
        """Play a round among the seeds (G, places) of each two neighbours, and return those of the winners."""
        above, below = np.minimum(first, second), np.maximum(first, second)
        is_match = below[0] < self._entrants.shape[1]  # a seed that nobody has loses in the first round, and is a bye
        met = first[:, is_match], second[:, is_match]
        a, b = (self._entrants[self._all, of_side] for of_side in met)
        score_a, score_b = self._scores[self._all, a, b], self._scores[self._all, b, a]
        self.played.append((a, b, score_a, score_b))
        level = self.reached.max() + 1
        self.rounds += [level] * a.shape[1]
        winners = above.copy()
        a_wins = (score_a > score_b) | ((score_a == score_b) & (met[0] < met[1]))
        winners[:, is_match] = np.where(a_wins, *met)
        self.reached[self._all, self._entrants[self._all, winners]] = level
        return winners
