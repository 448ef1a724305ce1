"""How many preferences a ranking gets right, wherever they come from: labels, rewards, another ranking, verdicts."""

from collections.abc import Iterable, Mapping
from itertools import combinations

Preference = tuple[int, int]
"""The better rollout, then the worse one."""


def preferences(values: Mapping[int, float]) -> list[Preference]:
    """Return the pairs that values tell apart, greater is better; equal values prefer neither."""
    pairs = ((a, b) if values[a] > values[b] else (b, a) for a, b in combinations(values, 2) if values[a] != values[b])
    return list(pairs)


def count_right(truth: Iterable[Preference], ranks: Mapping[int, float]) -> tuple[float, int]:
    """Return how many preferences `ranks` (0 is best) gets right, and of how many; a shared rank is half right.

    A preference about a rollout without a rank does not count. With r right of n, 2r/n - 1 is Kendall's tau over the
    pairs that the truth tells apart: Somers' d of the ranking given the truth (R. H. Somers, Am. Sociol. Rev. 27,
    1962); 1 is all right, 0 as by chance.
    """
    leads = [ranks[worse] - ranks[better] for better, worse in truth if better in ranks and worse in ranks]
    return sum(1.0 if lead > 0 else 0.5 if lead == 0 else 0.0 for lead in leads), len(leads)
