"""`swiss`: a few rounds in which equals meet, and no two twice."""

from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from harness.core.settings import OrderPolicy
from harness.ranking.topology import Pairing, Played, Standing, Topology, orders


def usual_rounds(n: int) -> int:
    """Return log2 n, rounded up: the rounds after which one of n can be the only one unbeaten."""
    return (n - 1).bit_length()


class Swiss(Topology):
    """In each round those meet who have won as often and have not met before; the next round waits for all of it.

    A tie is half a win. Equals stand in the order of their mean scores, then of their seeds, and the upper half meets
    the lower; an odd one goes down to the next. With an odd number of entrants the bye of a round goes to the best
    who has had the fewest; it counts as won for the pairing, and in V not at all. More rounds than there are new
    opponents repeat matches, with their stored scores.
    """

    name = "swiss"

    def __init__(self, seeds: Sequence[int], order: OrderPolicy = "both", rounds: int | None = None) -> None:
        """Set up for `seeds` (entrants, best first). Raises ValueError for none, or an entrant named twice."""
        super().__init__(seeds)
        self._order: OrderPolicy = order
        self._rounds = usual_rounds(len(seeds)) if rounds is None else rounds
        self._seed_of = {e: seed for seed, e in enumerate(seeds)}
        self._byes, self._wins = Counter[int](), dict.fromkeys(seeds, 0)  # of wins two for each, one for a tie
        self._round = 0
        self._start_rounds()

    def standings(self) -> Sequence[Standing]:
        """Return each entrant's points, by index. There is no round to be thrown out of, and no seed score."""
        return sorted(super().standings(), key=lambda standing: standing.entrant)

    def _after(self, played: Played) -> None:
        self._count(played)
        self._start_rounds()

    def _start_rounds(self) -> None:
        while not self._open and self._round < self._rounds and len(self._entrants) > 1:
            self._round += 1
            for place, (a, b) in enumerate(self._draw()):
                pairing = Pairing(a, b, self._round, orders(a, b, self._order))
                if played := self._repeat(pairing, place):
                    self._count(played)
                else:
                    self._open_match(pairing, place)

    def _count(self, played: Played) -> None:
        a, b = played.score_a, played.score_b
        win = 1 if a == b else 2 * (a > b)
        self._wins[played.pairing.a] += win
        self._wins[played.pairing.b] += 2 - win

    def _draw(self) -> list[tuple[int, int]]:
        """Return the pairs of the next round, and give the bye of an odd number of entrants."""
        means = {s.entrant: s.mean_key for s in self.standings()}
        order = sorted(self._entrants, key=lambda e: (-self._wins_and_byes(e), -means[e], self._seed_of[e]))
        if len(order) % 2:
            rests = min(order, key=lambda e: self._byes[e])
            self._byes[rests] += 1
            order.remove(rests)
        pairs, odd_one_out = list[tuple[int, int]](), list[int]()
        for _, equals in groupby(order, self._wins_and_byes):
            group = odd_one_out + list(equals)
            odd_one_out = [group.pop()] if len(group) % 2 else []
            lower = group[len(group) // 2 :]
            for a in group[: len(group) // 2]:  # each with the first that it has not met if there is one
                b = next((e for e in lower if not self._have_met(a, e)), lower[0])
                lower.remove(b)
                pairs.append((a, b))
        return self._without_repeats(pairs)

    def _wins_and_byes(self, entrant: int) -> int:
        """Return the half points of an entrant for the pairing."""
        return self._wins[entrant] + 2 * self._byes[entrant]

    def _without_repeats(self, pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Break up pairs that have met by swapping opponents with the nearest pair that can be swapped with.

        Where each has met at most r others, one such pair exists among n if n - 2 > 2(r - 1): always, in log2 n rounds.
        """
        for at, (a, b) in enumerate(pairs):
            if not self._have_met(a, b):
                continue
            for other in sorted((o for o in range(len(pairs)) if o != at), key=lambda o: abs(o - at)):
                c, d = pairs[other]
                fits = [p for p in (((c, a), (d, b)), ((c, b), (d, a))) if not any(self._have_met(*m) for m in p)]
                if fits:
                    pairs[other], pairs[at] = fits[0]
                    break
        return pairs
