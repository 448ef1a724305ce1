"""Stopping early for best-of-N: the matches of `cyclic`, played until the winner is certain."""

from collections.abc import Callable, Sequence

import numpy as np

from harness.core.settings import OrderPolicy
from harness.ranking.comparisons import Comparisons, Fit, Floats
from harness.ranking.fixed_pairs import Cyclic
from harness.ranking.margins import fit_margins, ridge
from harness.ranking.topology import Exact, Pairing

SPAN = 10.0
"""The widest margin that one call can give: scores run from 0 to 10."""
_JurorScores = tuple[int, int, float, float, int]
"""Who was shown first and who second, what each scored, and the juror's seat."""
_TINY = 1e-9
"""A lead below this is a draw, and floating point: scores are given to a tenth."""


class EarlyStop(Cyclic):
    """`cyclic`, round by round, until the leader cannot be caught any more.

    With `sure` 1 the winner by `margins` is certain: whatever the calls left over could say, the fit of all planned
    calls would name the same winner. With `sure` below 1 the tournament is over as soon as the leader's posterior
    probability of being best reaches `sure`, by `fit`.
    """

    def __init__(
        self,
        entrants: Sequence[int],
        order: OrderPolicy | None = None,
        budget: int | None = None,
        *,
        sure: float = 1.0,
        fit: Callable[[Comparisons], Fit] = fit_margins,
        units: int = 1,
    ) -> None:
        """Set up as `Cyclic` does, with one order a match.

        Results are recorded in `units` to a score point. Raises ValueError for `sure` not in (0, 1].
        """
        if not 0 < sure <= 1:
            raise ValueError(f"sure must be above 0 and at most 1, got {sure}")
        super().__init__(entrants, order, budget)
        self._sure, self._fit, self._units = sure, fit, units
        self._number = {e: i for i, e in enumerate(entrants)}
        self._plan = list(self._open)
        self._scores: dict[Pairing, tuple[float, float]] = {}
        self._of_jurors: dict[Pairing, Sequence[_JurorScores]] = {}
        self._over = False
        self.last_fit: Fit | None = None
        """The fit that was looked at last, of the calls up to then; None with `sure` 1, which needs none."""

    @property
    def saved_calls(self) -> int:
        """The planned calls that need not be made any more; 0 until it is decided."""
        return len(self._plan) - len(self._scores) if self._over else 0

    def pairings(self) -> Sequence[Pairing]:
        """Return the open matches of the first round that has any; none once the winner is decided."""
        left = list(self._open)
        return [p for p in left if not self._over and p.round == left[0].round]

    def add_juror_scores(self, pairing: Pairing, scores: Sequence[_JurorScores]) -> None:
        """Take what the jurors of a jury gave the sides of a match, before its result; nothing of a single judge."""
        if scores:
            self._of_jurors[pairing] = scores

    def record(self, pairing: Pairing, score_a: Exact, score_b: Exact) -> None:
        """Take a result. Raises ValueError for a pairing that is not open."""
        super().record(pairing, score_a, score_b)
        self._scores[pairing] = float(score_a / self._units), float(score_b / self._units)
        if any(p.round == pairing.round for p in self._open):
            return
        if self._sure == 1:
            made = np.array([p in self._scores for p in self._plan])
            self._over = leads_for_certain(self._calls(self._plan), made)
        else:
            self.last_fit = self._fit(self._calls([p for p in self._plan if p in self._scores]))
            self._over = bool(self.last_fit.p_best().max() >= self._sure)

    def _calls(self, pairings: Sequence[Pairing]) -> Comparisons:
        if self._of_jurors and self._sure < 1:
            calls = [call for pairing in pairings for call in self._of_jurors[pairing]]
            first, second = ([self._number[pair[side]] for *pair, _, _, _ in calls] for side in (0, 1))
            *_, of_first, of_second, jurors = zip(*calls, strict=True)
            return Comparisons.of(len(self._number), first, second, of_first, of_second, jurors)
        a, b = ([self._number[getattr(p, side)] for p in pairings] for side in "ab")
        of_a, of_b = ([self._scores.get(p, (0.0, 0.0))[side] for p in pairings] for side in (0, 1))
        return Comparisons.of(len(self._number), a, b, of_a, of_b)


def leads_for_certain(plan: Comparisons, made: "np.ndarray[tuple[int], np.dtype[np.bool_]]") -> bool:
    """Tell whether one entrant is sure to top the `margins` fit of all of `plan`, whatever the calls not `made` say.

    The fit is linear in the margins m: theta_l - theta_r = c m. The calls made give a part of the lead; each other call
    takes at worst SPAN |c_k| away.
    """
    design = np.zeros((len(made), plan.n + 1))
    rows = np.arange(len(made))
    design[rows, plan.first], design[rows, plan.second], design[:, -1] = 1.0, -1.0, 1.0
    weights: Floats = (ridge(plan) @ design.T)[:-1]
    so_far = weights[:, made] @ (plan.score_first - plan.score_second)[made]
    leader = int(so_far.argmax())
    ahead = so_far[leader] - so_far
    at_risk = SPAN * np.abs(weights[leader] - weights)[:, ~made].sum(axis=1)
    return bool(np.all(np.delete(ahead > at_risk + _TINY, leader)))
