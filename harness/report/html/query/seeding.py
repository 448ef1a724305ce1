"""The seeding matches as lines of a table: every sample against the anchor."""

from collections.abc import Iterable
from dataclasses import dataclass

from harness.core.rankings import GroupRanking, Match
from harness.core.records import Group
from harness.report.summary.bracket import seeds_by_anchor


@dataclass(frozen=True)
class SeedLabel:
    """One entrant in the seeding: its score against the anchor, and the anchor's score against it."""

    place: int | None
    index: int
    score: float | None = None
    against: float | None = None
    match: int | None = None
    """The number of the match; None for the anchor's own line, and for a match that is open."""


def seeding_lines(group: Group, ranking: GroupRanking) -> list[SeedLabel]:
    """Return the seeding matches as lines, best seed first; the matches still open last."""
    played = [(number, match) for number, match in enumerate(ranking.matches, 1) if match.round == 0]
    if not played:
        return []
    order = seeds_by_anchor(ranking.matches)
    anchor = played[0][1].b
    entrants = [r.index for r in group.rollouts if r.status == "ok" and r.index != anchor]
    complete = set(entrants) <= set(order)
    by_sample = {match.a: (number, match) for number, match in played}

    def line(entrant: int, place: int | None) -> SeedLabel:
        if entrant == anchor:
            return SeedLabel(place, entrant, score=sum(match.score_b for _, match in played) / len(played))
        number, match = by_sample[entrant]
        return SeedLabel(place, entrant, match.score_a, match.score_b, number)

    lines = [line(entrant, place if complete else None) for place, entrant in enumerate(order, 1)]
    return lines + [SeedLabel(None, entrant) for entrant in entrants if entrant not in order]


def seeding_scale(matches: Iterable[Match]) -> tuple[int, int]:
    """Return whole marks below and above every seeding score, for the ends of an axis."""
    scores = [score for match in matches if match.round == 0 for score in (match.score_a, match.score_b)]
    return (int(min(scores)), max(int(max(scores)) + 1, int(min(scores)) + 2)) if scores else (0, 10)
