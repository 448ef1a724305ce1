"""Where the rollouts of one query stand: the headline, and a line of the ranking table for each."""

from dataclasses import dataclass

from harness.core.rankings import GroupRanking
from harness.core.records import Group, Rollout
from harness.report.summary.first_two import first_places
from harness.report.summary.match_verdicts import VerdictLookup
from harness.report.summary.placed_rollouts import (
    PlacedRollout,
    place_of,
    placed_rollouts,
    places_by_margins,
    rollout_label,
)
from harness.report.text import as_sentence, enumeration, readable_name, signed, temperature_words


@dataclass(frozen=True)
class StandingsLine:
    """One rollout in the ranking table."""

    row: PlacedRollout
    place: str
    """From 1, `=` where several share it."""
    by_margins: str | None
    """The place that the margins alone would give; None without a margin."""
    temperature: str
    effective: str | None
    """The temperature that was in force, where it is not the one asked for."""
    bar: float
    """The advantage as a share of the greatest in the group, -1..1."""


def standings(group: Group, ranking: GroupRanking) -> list[StandingsLine]:
    """Return a line a rollout, best first."""
    placed = placed_rollouts(group, ranking)
    by_margins = places_by_margins(p.ranked for p in placed)
    greatest = max((abs(p.ranked.advantage or 0.0) for p in placed), default=0.0) or 1.0
    return [
        StandingsLine(
            row=p,
            place=place_of(p, placed),
            by_margins=by_margins.get(p.rollout.index),
            temperature=temperature_words(p.rollout.requested.temperature),
            effective=_effective(p.rollout),
            bar=round((p.ranked.advantage or 0.0) / greatest, 3),
        )
        for p in placed
    ]


def _effective(rollout: Rollout) -> str | None:
    if rollout.effective.uniform or not rollout.calls:
        return None
    temperature = rollout.effective.temperature
    if temperature in (None, rollout.requested.temperature):
        return "not the same in every call"
    return f"{temperature:g}"


def headline(group: Group, ranking: GroupRanking, verdicts: VerdictLookup) -> tuple[str, str]:
    """Return what the ranking came to, in a sentence, and a second sentence on why."""
    places = first_places(group, ranking, verdicts)
    best, leaders = places.ranked, places.leaders
    if not best:
        return "No rollout has a place.", ""
    if len(best) == 1:
        return as_sentence(f"{rollout_label(best[0])} stands alone"), ""
    if len(leaders) == len(best):
        return f"All {len(best)} rollouts share one rank.", "Nothing in the judging tells them apart."
    if len(leaders) > 1:
        return f"Rollouts {enumeration([str(r.index) for r in leaders])} share first place.", ""
    if places.match is None:
        failed = best[1].status == "failed"
        return (
            (f"#1 {rollout_label(best[0])}.", "All others failed.") if failed else (as_sentence(places.comparison), "")
        )
    reasons = "; ".join(places.match.reasons(_lead)) or "level on every dimension"
    return as_sentence(places.comparison), as_sentence(reasons)


def _lead(dimension: str, marks: float) -> str:
    return f"{readable_name(dimension)} {signed(marks, 1)}"
