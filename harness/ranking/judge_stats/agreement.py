"""Agreement: shares with their intervals, kappa, preferences that a ranking gets right, and how far jurors agree.

Jurors are compared by margins, score of the first less score of the second, item by item; a positive margin names the
first the winner, zero a tie.
"""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Self

from harness.core.rankings import Agreement, Match, PairJudgment
from harness.ranking.rewards import average_ranks

_Z = 1.959963984540054
"""Standard normal quantile of a two-sided 95 % interval."""


class Addable:
    """The base of dataclasses of sums, which add up field by field."""

    def __add__(self, other: Self) -> Self:
        """Return the sums of both."""
        return type(self)(**{name: value + getattr(other, name) for name, value in vars(self).items()})


@dataclass(frozen=True)
class Share(Addable):
    """`part` of `whole`, with its 95 % interval."""

    part: int = 0
    whole: int = 0

    @property
    def value(self) -> float | None:
        """The share, 0..1; None of nothing."""
        return self.part / self.whole if self.whole else None

    @property
    def interval(self) -> tuple[float, float]:
        """The Wilson score interval at 95 % (E. B. Wilson, JASA 22, 1927); (0, 1) of nothing."""
        n = self.whole
        if not n:
            return 0.0, 1.0
        p, z2 = self.part / n, _Z * _Z
        middle = (p + z2 / (2 * n)) / (1 + z2 / n)
        half = _Z / (1 + z2 / n) * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n))
        low = 0.0 if self.part == 0 else max(0.0, middle - half)
        high = 1.0 if self.part == n else min(1.0, middle + half)
        return low, high

    def holds(self, value: float) -> bool:
        """Tell whether `value` lies within the interval: whether the share may well be that."""
        low, high = self.interval
        return low <= value <= high


def kappa(pairs: Iterable[tuple[Hashable, Hashable]]) -> float | None:
    """Return Cohen's kappa of paired labels: (observed - expected agreement) / (1 - expected).

    1 is full agreement, 0 what chance gives with the same frequencies; None where chance alone would agree fully, or
    without pairs. Source: J. Cohen, Educational and Psychological Measurement 20, 1960.
    """
    pairs = list(pairs)
    n = len(pairs)
    if not n:
        return None
    ours, theirs = Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    expected = sum(ours[label] * theirs[label] for label in ours) / (n * n)
    observed = sum(a == b for a, b in pairs) / n
    return None if expected == 1 else (observed - expected) / (1 - expected)


def krippendorff_alpha(units: Iterable[Sequence[Hashable]]) -> float | None:
    """Return Krippendorff's alpha of labels without an order, by unit, of which each has those of some of the raters.

    1 is full agreement, 0 what chance gives with the same frequencies; None where chance alone would agree fully, or
    where no unit has two labels. Source: K. Krippendorff, Content Analysis, 2004, chapter 11.
    """
    counts = [Counter(labels) for labels in units if len(labels) > 1]
    whole = sum(counts, Counter[Hashable]())
    n = whole.total()
    expected = n * n - sum(times**2 for times in whole.values())
    if not expected:
        return None
    observed = sum((of.total() ** 2 - sum(t**2 for t in of.values())) / (of.total() - 1) for of in counts)
    return 1 - (n - 1) * observed / expected


Preference = tuple[int, int]
"""The better rollout, then the worse one."""


def preferences(values: Mapping[int, float]) -> list[Preference]:
    """Return the pairs that values tell apart, greater is better; equal values prefer neither."""
    return [(a, b) if values[a] > values[b] else (b, a) for a, b in combinations(values, 2) if values[a] != values[b]]


def count_right(truth: Iterable[Preference], ranks: Mapping[int, float]) -> tuple[float, int]:
    """Return how many preferences `ranks` (0 is best) gets right, and of how many; a shared rank is half right.

    A preference about a rollout without a rank does not count. With r right of n, 2r/n - 1 is Kendall's tau over the
    pairs that the truth tells apart: Somers' d of the ranking given the truth (R. H. Somers, Am. Sociol. Rev. 27,
    1962); 1 is all right, 0 as by chance.
    """
    leads = [ranks[worse] - ranks[better] for better, worse in truth if better in ranks and worse in ranks]
    return sum(1.0 if lead > 0 else 0.5 if lead == 0 else 0.0 for lead in leads), len(leads)


JurorMargins = Mapping[str, Mapping[Hashable, float]]
"""By juror, then by item; an item that a juror did not judge is not there."""


def agreement(margins: JurorMargins) -> tuple[Agreement, ...]:
    """Return the agreement of each two jurors on the items that both judged, in the jurors' order."""
    agreements: list[Agreement] = []
    for jurors in combinations(margins, 2):
        first, second = (margins[juror] for juror in jurors)
        both = [item for item in first if item in second]
        a, b = [first[item] for item in both], [second[item] for item in both]
        figures = {"kappa": winner_kappa(a, b), "spearman": spearman(a, b)}
        agreements.append(Agreement(jurors=jurors, items=len(both), **figures))
    return tuple(agreements)


def match_margins(
    matches: Iterable[Match], verdict: Callable[[str], PairJudgment | None], group: str = ""
) -> dict[str, dict[Hashable, float]]:
    """Return each judge's margin on each match, the mean over its orders; a repeated match counts once."""
    margins: dict[str, dict[Hashable, float]] = {}
    for match in (m for m in matches if not m.repeated):
        leads_by_judge: dict[str, list[float]] = {}
        for key, first in zip(match.verdicts, match.shown_first, strict=True):
            if judged := verdict(key):
                lead = judged.a.combined - judged.b.combined
                leads_by_judge.setdefault(judged.judge, []).append(lead if first == match.a else -lead)
        for judge, leads in leads_by_judge.items():
            margins.setdefault(judge, {})[group, match.a, match.b] = round(math.fsum(leads) / len(leads), 9)
    return margins


def mean_agreement(agreements: Iterable[Agreement]) -> tuple[Agreement, ...]:
    """Return each two jurors' figures over many groups: the mean, weighted by items, of the groups that have one."""
    by_pair: dict[tuple[str, str], list[Agreement]] = {}
    for pair in agreements:
        by_pair.setdefault(pair.jurors, []).append(pair)
    return tuple(
        Agreement(
            jurors=jurors,
            items=sum(group.items for group in groups),
            kappa=_weighted_mean((group.kappa, group.items) for group in groups),
            spearman=_weighted_mean((group.spearman, group.items) for group in groups),
        )
        for jurors, groups in by_pair.items()
    )


def _weighted_mean(figures: Iterable[tuple[float | None, int]]) -> float | None:
    pairs = [(value, weight) for value, weight in figures if value is not None]
    return math.fsum(value * weight for value, weight in pairs) / sum(weight for _, weight in pairs) if pairs else None


def winner_kappa(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Return Cohen's kappa of the margins' signs: first, second, tie. None where chance alone explains everything."""
    signs = ([(margin > 0) - (margin < 0) for margin in margins] for margins in (a, b))
    return kappa(zip(*signs, strict=True))


def spearman(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Return Pearson's correlation of the ranks, ties sharing the average rank; None where one side is constant."""
    x, y = centred_ranks(a), centred_ranks(b)
    if not any(x) or not any(y):
        return None
    covered = math.fsum(i * j for i, j in zip(x, y, strict=True))
    spread = math.sqrt(math.fsum(i * i for i in x) * math.fsum(j * j for j in y))
    return max(-1.0, min(1.0, covered / spread))


def centred_ranks(values: Sequence[float]) -> list[float]:
    """Return the rank of each value, less the mean rank."""
    ranks = average_ranks(dict(enumerate(values)))
    return [float(ranks[i]) - (len(values) - 1) / 2 for i in range(len(values))]
