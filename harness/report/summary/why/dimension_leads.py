"""The dimensions of a pair's verdicts: the marks of both sides, and which dimensions the matches were won on."""

from collections.abc import Mapping, Sequence

from harness.core.verdicts import SideScores
from harness.report.summary.why.pair_records import DimensionLead


def dimension_leads(sides: Sequence[tuple[SideScores, SideScores]]) -> tuple[DimensionLead, ...]:
    """Return the dimensions that both sides were marked on, in the rubric's order; `sides` is a pair a verdict."""
    marks: dict[str, list[tuple[int, int]]] = {}
    for a, b in sides:
        for name, mark in a.dimensions.items():
            if name in b.dimensions:
                marks.setdefault(name, []).append((mark, b.dimensions[name]))
    means = {name: (_mean([a for a, _ in pairs]), _mean([b for _, b in pairs])) for name, pairs in marks.items()}
    lead = sum(a.combined - b.combined for a, b in sides)
    decisive = decided({name: a - b for name, (a, b) in means.items()}, lead)
    return tuple(DimensionLead(name, pair, name in decisive) for name, pair in means.items())


def decided(differences: Mapping[str, float], lead: float) -> set[str]:
    """Return the dimensions that decided: the fewest, greatest first, that outweigh all that speak against the winner.

    `lead` is by how much the winner's side leads, below 0 where the other side won. Where nothing speaks against the
    winner that is the greatest lead alone; leads of one size count together. Empty where nobody won.
    """
    way = (lead > 0) - (lead < 0)
    towards = {name: way * difference for name, difference in differences.items()}
    against = -sum(difference for difference in towards.values() if difference < 0)
    chosen: set[str] = set()
    total, smallest = 0.0, 0.0
    for name, difference in sorted(towards.items(), key=lambda item: -item[1]):
        if difference <= 0 or (chosen and total > against and difference < smallest):
            break
        chosen.add(name)
        total, smallest = total + difference, difference
    return chosen


def _mean(marks: Sequence[int]) -> float:
    return sum(marks) / len(marks)
