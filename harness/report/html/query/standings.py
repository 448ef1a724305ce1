"""Where the rollouts of one query stand: a line of the ranking table for each."""

from dataclasses import dataclass

from harness.core.rankings import GroupRanking
from harness.core.records import Group, Rollout
from harness.report.summary.placed_rollouts import (
    PlacedRollout,
    place_of,
    placed_rollouts,
    places_by_secondary_fit,
)
from harness.report.text import temperature_words


@dataclass(frozen=True)
class StandingsLine:
    """One rollout in the ranking table."""

    row: PlacedRollout
    place: str
    """From 1, `=` where several share it."""
    beside: str | None
    """The place that the second opinion would give; None without one."""
    temperature: str
    effective: str | None
    """The temperature that was in force, where it is not the one asked for."""
    bar: float
    """The advantage as a share of the greatest in the group, -1..1."""


def standings(group: Group, ranking: GroupRanking) -> list[StandingsLine]:
    """Return a line a rollout, best first."""
    placed = placed_rollouts(group, ranking)
    judged = ranking.status == "complete" or ranking.matches
    beside = places_by_secondary_fit((p.ranked for p in placed), ranking.matches) if judged else {}
    greatest = max((abs(p.ranked.advantage or 0.0) for p in placed), default=0.0) or 1.0
    return [
        StandingsLine(
            row=p,
            place=place_of(p, placed),
            beside=beside.get(p.rollout.index),
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
