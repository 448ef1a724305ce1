"""Shares with their intervals, and agreement beyond chance."""

import math
from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

_Z = 1.959963984540054
"""Standard normal quantile of a two-sided 95 % interval."""


@dataclass(frozen=True)
class Share:
    """`part` of `whole`, with its 95 % interval."""

    part: int = 0
    whole: int = 0

    def __add__(self, other: "Share") -> "Share":
        return Share(self.part + other.part, self.whole + other.whole)

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
