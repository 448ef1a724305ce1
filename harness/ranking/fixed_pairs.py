"""The topologies whose pairs are known beforehand or by rounds: `round_robin`, `cyclic`, `swiss`."""

import functools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, islice

import numpy as np
import numpy.typing as npt

from harness.core.settings import OrderPolicy
from harness.ranking.topology import Pairing, Played, Standing, Topology, exact_mean, orders


def balanced_sides(i: int, j: int, n: int) -> tuple[int, int]:
    """Return places `i` and `j` of `n` in the order that balances the sides.

    Each stands first against the next floor((n-1)/2) places; pairs across the diameter alternate. Over all pairs nobody
    stands first more than once more often than second.
    """
    i, j = min(i, j), max(i, j)
    ahead = 2 * (j - i)
    return (i, j) if ahead < n or (ahead == n and i % 2 == 0) else (j, i)


def circle_round(i: int, j: int, n: int) -> int:
    """Return the round 1..n-1 (1..n for odd n) in which places `i` and `j` meet: one match a place and round.

    The circle method: the last place of an even number stays put while the others turn.
    """
    m = n - 1 + n % 2
    i, j = min(i, j), max(i, j)
    return (2 * i if j == m else i + j) % m + 1


def pairs_by_distance(n: int) -> Iterator[tuple[int, int, int]]:
    """Yield every pair of places (i, i + d mod n) once, with the number 1, 2, ... of its distance d in `distances`.

    Any beginning of the sequence is balanced: within a distance the pairs run along the circle in steps of d, every
    other one first, so that the numbers of matches of any two places differ by at most two.
    """
    for number, d in enumerate(distances(n), 1):
        if 2 * d == n:
            yield from ((i, i + d, number) for i in range(d))
            continue
        rings = int(np.gcd(n, d))
        length = n // rings
        steps = [2 * t % length if length % 2 else 2 * t % length + 2 * t // length for t in range(length)]
        half = length // 2
        for part in (steps[:half], steps[half:]):
            for start in range(rings):
                for step in part:
                    i = (start + step * d) % n
                    yield i, (i + d) % n, number


@functools.lru_cache(maxsize=8)
def distances(n: int) -> tuple[int, ...]:
    """Return the distances 1..n//2 of a circle of n places in the order in which matches at them teach most.

    First 1, whose ring connects all. Then always the one that lowers the mean posterior variance of the qualities
    most per match: with unit noise and prior precision 1 that is mean 1/(1 + L_k) over the eigenvalues
    L_k = sum over distances of 2 - 2 cos(2 pi k d / n) of the circulant comparison graph (A-optimal design).
    """
    left = np.arange(1, n // 2 + 1)
    cost = np.where(2 * left == n, 0.5, 1.0)
    adds: npt.NDArray[np.float64] = (2 - 2 * np.cos(2 * np.pi * np.outer(left, np.arange(n)) / n)) * cost[:, None]
    precision, chosen = np.ones(n), list[int]()
    while len(left):
        gain = (np.sum(1 / precision) - np.sum(1 / (precision + adds), axis=1)) / cost
        best = int(np.argmax(gain.round(9))) if chosen else 0  # rounded: equals must tie on every machine
        chosen.append(int(left[best]))
        precision = precision + adds[best]
        left, cost, adds = np.delete(left, best), np.delete(cost, best), np.delete(adds, best, axis=0)
    return tuple(chosen)


def usual_budget(n: int, order: OrderPolicy | None = None) -> int:
    """Return the judge calls of `cyclic` where none are named: each pair once, but no more than ArenaRL's 4(n-1).

    With `order` both each pair takes two.
    """
    return min(n * (n - 1) // (1 if order == "both" else 2), 4 * (n - 1))


def spread(n: int, order: OrderPolicy | None = None, budget: int | None = None) -> tuple[int, int]:
    """Return the matches of the first pass and of the second, for n entrants.

    `budget` is in judge calls. With no `order` both passes judge one order a match, the second the other order of
    pairs that have met; with `both` there is one pass of matches of two calls; otherwise one of one call.
    """
    pairs, calls = n * (n - 1) // 2, usual_budget(n, order) if budget is None else budget
    first = min(pairs, calls // 2 if order == "both" else calls)
    return first, min(first, calls - first) if order is None and first == pairs else 0


class Cyclic(Topology):
    """The entrants stand on a circle, in the order given; distance after distance meets, sides balanced.

    When all pairs have met and calls are left, the closest pairs are judged in the other order too. Close is a small
    margin, less the mean lead of the first side over all matches. Those matches wait for the whole first pass.
    `matches` are in the order of distances; the second orders come last, the closest first.
    """

    name = "cyclic"

    def __init__(self, entrants: Sequence[int], order: OrderPolicy | None = None, budget: int | None = None) -> None:
        """Set up; see `spread` for `order` and `budget`. Raises ValueError for entrants named twice or none."""
        super().__init__(entrants)
        n = len(entrants)
        self._first_pass_left, self._second_pass = spread(n, order, budget)
        self._last_distance = 0
        for place, (i, j, number) in enumerate(islice(pairs_by_distance(n), self._first_pass_left)):
            x, y = (min(i, j), max(i, j)) if order == "single" else balanced_sides(i, j, n)
            a, b = entrants[x], entrants[y]
            self._open_match(Pairing(a, b, number, orders(a, b, "both" if order == "both" else "single")), place)
            self._last_distance = number

    def _after(self, played: Played) -> None:
        """Open the second orders of the closest pairs once the whole first pass is played."""
        self._first_pass_left -= 1
        if self._first_pass_left == 0 and played.pairing.round <= self._last_distance:
            leads = {(p.pairing.a, p.pairing.b): p.score_a - p.score_b for p in self.matches}
            mean = exact_mean(list(leads.values()))
            closest = sorted(leads, key=lambda pair: abs(leads[pair] - mean))[: self._second_pass]
            for place, (a, b) in enumerate(closest):
                self._open_match(Pairing(b, a, self._last_distance + 1, ((b, a),)), place)


class NoMatches(Topology):
    """A tournament without a match, which ranks nobody."""

    name = "none"


class Anchor(Topology):
    """n-1 matches, all open at once. A sample's seed score is its score; the anchor's is the mean of its scores."""

    name = "anchor"

    def __init__(self, entrants: Sequence[int], anchor: int, order: OrderPolicy = "both") -> None:
        """Set up for `entrants` (rollout indices, `anchor` among them). Raises ValueError if it is not."""
        super().__init__(entrants)
        if anchor not in entrants:
            raise ValueError(f"the anchor {anchor} must be one of the entrants {list(entrants)}")
        for place, sample in enumerate(e for e in entrants if e != anchor):
            self._open_match(Pairing(sample, anchor, 0, orders(sample, anchor, order)), place)

    def standings(self) -> Sequence[Standing]:
        """Return each entrant's standing; its seed score is its only point."""
        points = self._points(self.matches)
        seeds = {e: exact_mean(scores) for e, scores in points.items() if scores}
        return [Standing(e, 0, (seeds[e],) if e in seeds else (), seeds.get(e)) for e in self._entrants]


class RoundRobin(Topology):
    """n(n-1)/2 matches, all open at once; in a round everyone plays at most once.

    `balanced` sides are those of the circle (`balanced_sides`).
    """

    name = "round_robin"

    def __init__(self, entrants: Sequence[int], order: OrderPolicy = "both") -> None:
        """Set up. Raises ValueError for no entrants or an entrant named twice."""
        super().__init__(entrants)
        n = len(entrants)
        pairs = sorted((circle_round(i, j, n), i, j) for j in range(n) for i in range(j))
        for place, (number, i, j) in enumerate(pairs):
            first, second = balanced_sides(i, j, n) if order == "balanced" else (i, j)
            a, b = entrants[first], entrants[second]
            shown = orders(a, b, "both" if order == "both" else "single")
            self._open_match(Pairing(a, b, number, shown), place)


class GivenPairs(Topology):
    """The pairs that somebody else has drawn, all open at once, in one round."""

    name = "given"

    def __init__(
        self,
        pairs: Sequence[tuple[int, int]],
        in_orders: Mapping[tuple[int, int], tuple[tuple[int, int], ...]] | None = None,
    ) -> None:
        """Set up; `in_orders` says in which orders a pair is judged, by default in both.

        Raises ValueError without a pair, or for an entrant against itself.
        """
        super().__init__(sorted({entrant for pair in pairs for entrant in pair}))
        for place, (a, b) in enumerate(pairs):
            if a == b:
                raise ValueError(f"entrant {a} cannot meet itself")
            judged_in = orders(a, b, "both") if in_orders is None else in_orders[a, b]
            self._open_match(Pairing(a, b, 0, judged_in), place)


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
