"""Where the rollouts of one query stand: the headline, and a line of the table for each."""

from dataclasses import dataclass

from harness.core.rankings import GroupRanking
from harness.core.records import Group, Rollout
from harness.report.summary import Row, Verdicts, named, outcome, place_of, places_by_margins, rows
from harness.report.text import enumeration, sentence, signed, temperature_words, words


@dataclass(frozen=True)
class Line:
    """One rollout in the ranking table."""

    row: Row
    place: str
    """From 1, `=` where several share it."""
    by_margins: str | None
    """The place that the margins alone would give; None without a margin."""
    temperature: str
    effective: str | None
    """The temperature that really held, where it is not the one asked for."""
    bar: float
    """The advantage as a share of the greatest in the group, -1..1."""


def lines(group: Group, ranked: GroupRanking) -> list[Line]:
    """Return a line a rollout, best first."""
    found = rows(group, ranked)
    by_margins = places_by_margins(row.ranked for row in found)
    widest = max((abs(row.ranked.advantage or 0.0) for row in found), default=0.0) or 1.0
    return [
        Line(
            row=row,
            place=place_of(row, found),
            by_margins=by_margins.get(row.rollout.index),
            temperature=temperature_words(row.rollout.requested.temperature),
            effective=_effective(row.rollout),
            bar=round((row.ranked.advantage or 0.0) / widest, 3),
        )
        for row in found
    ]


def _effective(rollout: Rollout) -> str | None:
    if rollout.effective.uniform or not rollout.calls:
        return None
    held = rollout.effective.temperature
    return "not the same in every call" if held in (None, rollout.requested.temperature) else f"{held:g}"


def headline(group: Group, ranked: GroupRanking, verdicts: Verdicts) -> tuple[str, str]:
    """Return what came out, in a sentence, and a second one on why."""
    found = outcome(group, ranked, verdicts)
    best, leaders = found.ranked, found.leaders
    if not best:
        return "No rollout has a place.", ""
    if len(best) == 1:
        return sentence(f"{named(best[0])} stands alone"), ""
    if len(leaders) == len(best):
        return f"All {len(best)} rollouts share one rank.", "Nothing in the judging tells them apart."
    if len(leaders) > 1:
        return f"Rollouts {enumeration([str(r.index) for r in leaders])} share first place.", ""
    if found.duel is None:
        failed = best[1].status == "failed"
        return (f"#1 {named(best[0])}.", "All others failed.") if failed else (sentence(found.first_two), "")
    reasons = "; ".join(found.duel.reasons(_lead)) or "level on every dimension"
    return sentence(found.first_two), sentence(reasons)


def _lead(dimension: str, marks: float) -> str:
    return f"{words(dimension)} {signed(marks, 1)}"
