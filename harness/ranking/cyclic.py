"""`cyclic`: a budget of judge calls spread evenly over the pairs; then second looks at the closest ones."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import islice

from harness.ranking.circle_method import balanced_sides, pairs_by_distance
from harness.ranking.schedule import Schedule, distinct
from harness.ranking.topology import OrderPolicy, Pairing, Played, Standing, orders


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


class Cyclic:
    """The entrants stand on a circle, in the order given; distance after distance meets, sides balanced.

    When all pairs have met and calls are left, the closest are judged in the other order too. Close is a small
    margin, less the mean lead of the first side over all matches. Those matches wait for the whole first pass.
    """

    name = "cyclic"

    def __init__(self, entrants: Sequence[int], order: OrderPolicy | None = None, budget: int | None = None) -> None:
        """Set up; see `spread` for `order` and `budget`. Raises ValueError for entrants named twice or none."""
        self._entrants, self._schedule = distinct(entrants), Schedule()
        n = len(entrants)
        self._first, self._second = spread(n, order, budget)
        self._last = 0
        for place, (i, j, number) in enumerate(islice(pairs_by_distance(n), self._first)):
            x, y = (min(i, j), max(i, j)) if order == "single" else balanced_sides(i, j, n)
            a, b = entrants[x], entrants[y]
            self._schedule.open_match(
                Pairing(a, b, number, orders(a, b, "both" if order == "both" else "single")), place
            )
            self._last = number

    @property
    def matches(self) -> Sequence[Played]:
        """The matches by distance; the second orders last, closest first."""
        return self._schedule.matches

    def pairings(self) -> Sequence[Pairing]:
        """Return the open matches."""
        return self._schedule.pairings()

    def record(self, pairing: Pairing, score_a: Fraction, score_b: Fraction) -> None:
        """Take a result. Raises ValueError for a pairing that is not open."""
        played = self._schedule.record(pairing, score_a, score_b)
        self._first -= 1
        if self._first == 0 and played.pairing.round <= self._last:
            for place, (a, b) in enumerate(self._closest()):
                self._schedule.open_match(Pairing(b, a, self._last + 1, ((b, a),)), place)

    def standings(self) -> Sequence[Standing]:
        """Return each entrant's points. There are no rounds to reach and no seed scores."""
        return [Standing(e, 0, own, None) for e, own in self._schedule.points(self._entrants).items()]

    def _closest(self) -> list[tuple[int, int]]:
        """Return the pairs to judge again, each as first and second stood."""
        if not self._second:
            return []
        leads = {(p.pairing.a, p.pairing.b): p.score_a - p.score_b for p in self._schedule.matches}
        mean = sum(leads.values(), Fraction()) / len(leads)
        return sorted(leads, key=lambda pair: abs(leads[pair] - mean))[: self._second]
