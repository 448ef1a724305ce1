"""The tally of many groups: what `tally` sums up of each group by itself, for a stack of groups at once."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from harness.ranking.first_side import PRIOR_DOF, PRIOR_FIRST_SIDE, PRIOR_QUALITY, PRIOR_SIGMA
from harness.ranking.judge_stats.agreement import Share
from harness.ranking.judge_stats.orders import OrderSums
from harness.ranking.judge_stats.tally import TINY, JudgeCall, LengthSums, SideSums, Tally, tally

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Flags = NDArray[np.bool_]

_STACK = 256
"""Groups that are summed up at once."""
_FEW = 32
"""So many groups are not worth importing numpy for, where nothing else has."""
_MOST_ENTRANTS = 64
"""Larger groups are summed up by themselves: the stack is filled up to its largest group."""


@dataclass
class TallySum:
    """The tally of one judge over groups, summed up as they come."""

    _sum: Tally = field(default_factory=Tally)
    _waiting: list["_NumberedCalls"] = field(default_factory=list["_NumberedCalls"])

    def add(self, calls: Sequence[JudgeCall]) -> None:
        """Add the calls of a group."""
        if plain := _plain(calls):
            self._waiting.append(plain)
        else:
            self._sum += tally(calls)
        if len(self._waiting) == _STACK:
            self._sum_up()

    @property
    def tally(self) -> Tally:
        """The tally of all groups so far."""
        self._sum_up()
        return self._sum

    def _sum_up(self) -> None:
        if len(self._waiting) < _FEW:
            self._sum = sum((tally(group.calls) for group in self._waiting), self._sum)
        else:
            self._sum += _Stack(self._waiting).tally()
        self._waiting = []


class _NumberedCalls(NamedTuple):
    """The calls of a group, and of each who stood first and who second, numbered from 0 as they come."""

    calls: Sequence[JudgeCall]
    ends: Sequence[tuple[int, int]]
    entrants: int


def _plain(calls: Sequence[JudgeCall]) -> _NumberedCalls | None:
    """Return a group that has its place in a stack: it is not too large, and no question was asked again; or None."""
    numbers = dict[str, int]()
    ends = [(numbers.setdefault(c[0], len(numbers)), numbers.setdefault(c[1], len(numbers))) for c in calls]
    fits = 0 < len(numbers) <= _MOST_ENTRANTS and len({*ends}) == len(ends)
    return _NumberedCalls(calls, ends, len(numbers)) if fits else None


class _Stack:
    """G groups with K calls in all, among at most n entrants of each, numbered in each from 0 as they come."""

    def __init__(self, groups: Sequence[_NumberedCalls]) -> None:
        import numpy as np  # noqa: PLC0415 - a few groups are shown without numpy

        self._np = np
        self._groups = len(groups)
        columns = zip(*(call for group in groups for call in group.calls), strict=True)
        _, _, *scores, _, self._claimed, self._claimed_winner, self._repaired, self._words_first, self._words_second = (
            columns
        )
        ends = [of_call for group in groups for of_call in group.ends]
        self._at = np.repeat(np.arange(len(groups)), [len(group.ends) for group in groups])  # (K,) the group of a call
        self._first, self._second = np.array(ends, np.int64).T  # (K,) each
        self._entrants = np.array([group.entrants for group in groups])  # (G,)
        self._n = int(self._entrants.max())
        self._scores = np.array(scores, np.float64).T  # (K, 2)
        self._margins = np.round(self._scores[:, 0] - self._scores[:, 1], 9)  # (K,)
        shape = (len(groups), self._n, self._n)
        self._margin, self._asked = np.zeros(shape), np.zeros(shape, bool)  # of first against second
        self._margin[self._at, self._first, self._second] = self._margins
        self._asked[self._at, self._first, self._second] = True

    def tally(self) -> Tally:
        """Return the sum of the groups' tallies."""
        np, margins = self._np, self._margins
        decided, calls = int((np.abs(margins) > TINY).sum()), len(margins)
        return Tally(
            verdicts=calls,
            flips=self._flips(),
            first_wins=Share(int((margins > TINY).sum()), decided),
            ties=Share(calls - decided, calls),
            cycles=self._cycles(),
            claims=Share(sum(self._claimed), calls),
            claimed_winners=sum(self._claimed_winner),
            repaired=sum(self._repaired),
            marks=self._marks(),
            length=self._length(),
            side=self._side(),
            orders=self._orders(),
        )

    def _marks(self) -> dict[int, int]:
        np = self._np
        marks, times = np.unique(np.floor(self._scores + 0.5).astype(np.int64), return_counts=True)
        return dict(zip(marks.tolist(), times.tolist(), strict=True))

    def _flips(self) -> Share:
        np = self._np
        both = np.triu(self._asked & self._turned(self._asked))
        agree = self._margin * self._turned(self._margin)
        return Share(int((both & (agree > TINY**2)).sum()), int(both.sum()))

    def _cycles(self) -> Share:
        """Count triples by walks of three steps: each that goes round has three, each triangle of meetings six."""
        np = self._np
        met = (self._asked | self._turned(self._asked)).astype(float)
        beats = (self._margin - self._turned(self._margin) > TINY).astype(float)
        return Share(
            round(float(np.einsum("gij,gji->", beats @ beats, beats)) / 3),
            round(float(np.einsum("gij,gji->", met @ met, met)) / 6),
        )

    def _length(self) -> LengthSums:
        np, n = self._np, self._n
        sums, times, lengths = np.zeros((3, self._groups * n))
        known = np.zeros(self._groups * n, bool)
        sides = (
            (self._first, self._scores[:, 0], self._words_first),
            (self._second, self._scores[:, 1], self._words_second),
        )
        for node, score, length in sides:
            told = slice(None) if None not in length else np.array([words is not None for words in length], bool)
            at = (self._at * n + node)[told]
            sums += np.bincount(at, score[told], len(sums))
            times += np.bincount(at, minlength=len(sums))
            lengths[at] = [words for words in length if words is not None]
            known[at] = True
        sums, times, lengths, known = (values.reshape(-1, n) for values in (sums, times, lengths, known))
        known &= known.sum(axis=1, keepdims=True) > 1
        scores = np.round(sums / np.maximum(times, 1), 9)
        ours, theirs = self._centered_ranks(scores, known), self._centered_ranks(lengths, known)
        products = ((ours * theirs).sum(), (ours * ours).sum(), (theirs * theirs).sum())
        along, score_squares, length_squares = map(float, products)
        return LengthSums(along, score_squares, length_squares, int(known.sum()))

    def _centered_ranks(self, values: "Floats", known: "Flags") -> "Floats":
        """Return ranks about their mean, (G, n), 0 for the greatest; those who tie share; 0 where none is known."""
        np = self._np
        both = known[:, :, None] & known[:, None, :]
        above = values[:, None, :] - values[:, :, None]  # [g, i, j]: how far j is above i
        ranks = ((np.sign(above) * both).sum(axis=2)) / 2  # those above less those below: centered at 0
        return np.where(known, ranks, 0.0)

    def _side(self) -> SideSums:
        """Fit what standing first is worth, as `first_side` does; who is not there is tied to 0 by the prior alone."""
        np, n, groups = self._np, self._n, self._groups
        asked = self._asked.astype(float)
        matrix, collected = np.zeros((groups, n + 1, n + 1)), np.zeros((groups, n + 1))
        pairs = asked + self._turned(asked)
        matrix[:, :n, :n] = -pairs
        matrix[:, range(n), range(n)] += pairs.sum(axis=2) + PRIOR_QUALITY
        matrix[:, n, :n] = matrix[:, :n, n] = asked.sum(axis=2) - asked.sum(axis=1)
        matrix[:, n, n] = calls = asked.sum(axis=(1, 2))
        matrix[:, n, n] += PRIOR_FIRST_SIDE
        raw = np.zeros_like(asked)
        raw[self._at, self._first, self._second] = self._scores[:, 0] - self._scores[:, 1]
        collected[:, :n], collected[:, n] = raw.sum(axis=2) - raw.sum(axis=1), raw.sum(axis=(1, 2))
        units = np.zeros((groups, n + 1))
        units[:, n] = 1.0
        solved = np.linalg.solve(matrix, np.stack([collected, units], axis=2))
        mode, last = solved[:, :, 0], solved[:, n, 1]
        fitted = mode[:, :n, None] - mode[:, None, :n] + mode[:, n, None, None]
        squares = (((raw - fitted) ** 2) * asked).sum(axis=(1, 2))
        dof = np.maximum(0, calls - self._entrants) + PRIOR_DOF
        sds = np.sqrt((squares + PRIOR_DOF * PRIOR_SIGMA**2) / dof * last)
        effects = math.fsum((calls * mode[:, n]).tolist())
        return SideSums(effects, math.fsum(((calls * sds) ** 2).tolist()), float(calls.sum()))

    def _orders(self) -> OrderSums:
        """Sum up pairs in both orders; preferences are fitted by the pairs' Laplacian, each component's level at 0."""
        np, n = self._np, self._n
        both = self._asked & self._turned(self._asked)  # (G, n, n), each pair twice
        pairs = both.sum(axis=(1, 2)) / 2
        position = np.where(both, (self._margin + self._turned(self._margin)) / 2, 0.0)
        preference = np.where(both, (self._margin - self._turned(self._margin)) / 2, 0.0)
        shifts = position.sum(axis=(1, 2)) / 2
        means = shifts / np.maximum(pairs, 1)
        reached = self._reached(both)
        weights = both.astype(float)
        laplacian = reached / reached.sum(axis=2, keepdims=True) - weights
        laplacian[:, range(n), range(n)] += weights.sum(axis=2)
        qualities = np.linalg.solve(laplacian, preference.sum(axis=2)[:, :, None])[:, :, 0]
        left = np.where(both, preference - (qualities[:, :, None] - qualities[:, None, :]), 0.0)
        components = (1 / reached.sum(axis=2)).sum(axis=1)  # whoever is in no pair is one, too
        about = np.where(both, position - means[:, None, None], 0.0)
        count = int(pairs.sum())
        return OrderSums(
            count,
            float((about**2).sum()) / 2,
            count - int((pairs > 0).sum()),
            float((left**2).sum()) / 2,
            count - round(float((n - components).sum())),
            float(shifts.sum()),
            float((position**2).sum()) / 2,
        )

    def _reached(self, pairs: "Flags") -> "Floats":
        """Return which entrants pairs connect, (G, n, n) of 0 and 1, everyone with itself."""
        np = self._np
        reached = pairs | np.eye(self._n, dtype=bool)
        for _ in range(max(1, (self._n - 1).bit_length())):
            reached = (reached.astype(float) @ reached.astype(float)) > 0
        return reached.astype(float)

    def _turned(self, matrices: Any) -> Any:
        """Return each group's matrix with its rows as columns."""
        return matrices.swapaxes(1, 2)
