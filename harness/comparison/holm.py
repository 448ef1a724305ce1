"""Correction of several p by Holm."""

from collections.abc import Sequence

from harness.comparison.libraries import statistics_module


def holm(p: Sequence[float]) -> list[float]:
    """Return each p corrected for there being several, by Holm's step-down method."""
    if not p:
        return []
    corrected = statistics_module("statsmodels.stats.multitest").multipletests(list(p), method="holm")[1]
    return [float(value) for value in corrected]
