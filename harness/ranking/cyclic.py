"""`cyclic`: a budget of judge calls spread evenly over the pairs; then the other order of the closest pairs."""

from collections.abc import Sequence
from itertools import islice

from harness.core.settings import OrderPolicy
from harness.ranking.circle_method import balanced_sides, pairs_by_distance
from harness.ranking.schedule import ScheduledTopology
from harness.ranking.topology import Pairing, Played, exact_mean, orders


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


class Cyclic(ScheduledTopology):
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
            self._schedule.open_match(
                Pairing(a, b, number, orders(a, b, "both" if order == "both" else "single")), place
            )
            self._last_distance = number

    def _after(self, played: Played) -> None:
        """Open the second orders of the closest pairs once the whole first pass is played."""
        self._first_pass_left -= 1
        if self._first_pass_left == 0 and played.pairing.round <= self._last_distance:
            for place, (a, b) in enumerate(self._closest()):
                self._schedule.open_match(Pairing(b, a, self._last_distance + 1, ((b, a),)), place)

    def _closest(self) -> list[tuple[int, int]]:
        """Return the pairs to judge again, each as first and second stood."""
        if not self._second_pass:
            return []
        leads = {(p.pairing.a, p.pairing.b): p.score_a - p.score_b for p in self._schedule.matches}
        mean = exact_mean(list(leads.values()))
        return sorted(leads, key=lambda pair: abs(leads[pair] - mean))[: self._second_pass]
