"""A judge at the ends of its scale: differences are cut off there, and intervals are too narrow."""

from collections.abc import Sequence

import numpy as np

from harness.ranking.comparisons import Comparisons

CEILING_FROM = 0.25
"""Share of scores at the ends of the scale from which intervals are too narrow (docs/estimators.md)."""
_BEGINNING = "ceiling: "
_LOWEST, _HIGHEST = 0.0, 10.0


def share_at_ends(groups: Sequence[Comparisons]) -> float:
    """Return the share of all scores that lie at an end of the scale, 0 or 10."""
    scores = [part for calls in groups for part in (calls.score_first, calls.score_second)]
    every = np.concatenate(scores) if scores else np.zeros(0)
    return float((np.isclose(every, _LOWEST) | np.isclose(every, _HIGHEST)).mean()) if every.size else 0.0


def ceiling_note(at_ends: float) -> str | None:
    """Return what a ranking by `pooled` says of such a judge; None for another."""
    if at_ends < CEILING_FROM:
        return None
    share = f"{100 * at_ends:.0f} % of the judge's scores stand at an end of the scale"
    return f"{_BEGINNING}{share}, so the intervals of this ranking are too narrow"


def without_ceiling_note(notes: Sequence[str]) -> tuple[str, ...]:
    """Return notes without what an earlier telling of the ranking said of such a judge."""
    return tuple(note for note in notes if not note.startswith(_BEGINNING))
