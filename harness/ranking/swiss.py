"""`swiss`: a few rounds in which equals meet, and no two twice."""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

from harness.ranking.schedule import Schedule, distinct
from harness.ranking.topology import OrderPolicy, Pairing, Played, Standing, orders

_HALF = Fraction(1, 2)


def usual_rounds(n: int) -> int:
    """Return log2 n, rounded up: the rounds after which one of n can be the only one unbeaten."""
    return (n - 1).bit_length()


class Swiss:
    """In each round those meet who have won as often and have not met before; the next round waits for all of it.

    A tie is half a win. Equals stand in the order of their mean scores, then of their seeds, and the upper half meets
    the lower; an odd one goes down to the next. With an odd number of entrants the bye of a round goes to the best
    who has had the fewest; it counts as won for the pairing, and in V not at all. More rounds than there are new
    opponents repeat matches, with their stored scores.
    """

    name = "swiss"

    def __init__(self, seeds: Sequence[int], order: OrderPolicy = "both", rounds: int | None = None) -> None:
        """Set up for `seeds` (entrants, best first). Raises ValueError for none, or an entrant named twice."""
        self._seeds, self._schedule = distinct(seeds), Schedule()
        self._order: OrderPolicy = order
        self._rounds = usual_rounds(len(seeds)) if rounds is None else rounds
        self._seed_of = {e: seed for seed, e in enumerate(seeds)}
        self._byes, self._won = Counter[int](), dict.fromkeys(seeds, Fraction())
        self._round = 0
        self._start_rounds()

    @property
    def matches(self) -> Sequence[Played]:
        """The matches by round, from the top of the standings down."""
        return self._schedule.matches

    def pairings(self) -> Sequence[Pairing]:
        """Return the open matches of the round."""
        return self._schedule.pairings()

    def record(self, pairing: Pairing, score_a: Fraction, score_b: Fraction) -> None:
        """Take a result. Raises ValueError for a pairing that is not open."""
        self._count(self._schedule.record(pairing, score_a, score_b))
        self._start_rounds()

    def standings(self) -> Sequence[Standing]:
        """Return each entrant's points, in entrant order. There is no round to be thrown out of, and no seed score."""
        own = self._schedule.points(self._seeds)
        return [Standing(e, 0, own[e], None) for e in sorted(self._seeds)]

    def _start_rounds(self) -> None:
        while not self._schedule.pairings() and self._round < self._rounds and len(self._seeds) > 1:
            self._round += 1
            for place, (a, b) in enumerate(self._draw()):
                pairing = Pairing(a, b, self._round, orders(a, b, self._order))
                if played := self._schedule.repeat(pairing, place):
                    self._count(played)
                else:
                    self._schedule.open_match(pairing, place)

    def _count(self, played: Played) -> None:
        a, b = played.score_a, played.score_b
        won = _HALF if a == b else Fraction(a > b)
        self._won[played.pairing.a] += won
        self._won[played.pairing.b] += 1 - won

    def _draw(self) -> list[tuple[int, int]]:
        means = {s.entrant: s.mean for s in self.standings()}
        order = sorted(self._seeds, key=lambda e: (-self._won[e] - self._byes[e], -means[e], self._seed_of[e]))
        if len(order) % 2:
            rests = min(order, key=lambda e: self._byes[e])
            self._byes[rests] += 1
            order.remove(rests)
        groups: dict[Fraction, list[int]] = {}
        for e in order:
            groups.setdefault(self._won[e] + self._byes[e], []).append(e)
        pairs, left = list[tuple[int, int]](), list[int]()
        for equals in groups.values():
            group = left + equals
            left = [group.pop()] if len(group) % 2 else []
            pairs += self._folded(group)
        return self._without_repeats(pairs)

    def _folded(self, group: list[int]) -> list[tuple[int, int]]:
        """Pair the upper half of a group with the lower, each with the first that it has not met if there is one."""
        half = len(group) // 2
        lower, pairs = group[half:], list[tuple[int, int]]()
        for a in group[:half]:
            b = next((e for e in lower if not self._schedule.have_met(a, e)), lower[0])
            lower.remove(b)
            pairs.append((a, b))
        return pairs

    def _without_repeats(self, pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Break up pairs that have met by swapping opponents with the nearest pair that can be swapped with.

        Where each has met at most r others, one such pair exists among n if n - 2 > 2(r - 1): always, in log2 n rounds.
        """
        for at, (a, b) in enumerate(pairs):
            if not self._schedule.have_met(a, b):
                continue
            for other in sorted((o for o in range(len(pairs)) if o != at), key=lambda o: abs(o - at)):
                c, d = pairs[other]
                fits = [
                    p for p in (((c, a), (d, b)), ((c, b), (d, a))) if not any(self._schedule.have_met(*m) for m in p)
                ]
                if fits:
                    pairs[other], pairs[at] = fits[0]
                    break
        return pairs
