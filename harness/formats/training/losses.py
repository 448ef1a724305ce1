"""What an export leaves out, counted by what it was and why."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

Unit = Literal["group", "rollout", "pair", "line", "part of a line"]
"""What is left out. Of a line, a part: something in its calls that its format has no place for."""
_UNITS: tuple[Unit, ...] = ("group", "rollout", "pair", "line", "part of a line")
_PLURALS = {unit: f"{unit}s" for unit in _UNITS} | {"part of a line": "parts of lines"}


class LeftOut(Exception):
    """A line cannot be written in this format; the text says why, the same for all such lines."""


@dataclass
class Losses:
    """Counts of what was left out. The order is that in which an export meets them: groups, rollouts, pairs, lines."""

    counts: Counter[tuple[Unit, str]] = field(default_factory=Counter[tuple[Unit, str]])

    def add(self, unit: Unit, reason: str, times: int = 1) -> None:
        """Count something that is left out."""
        self.counts[unit, reason] += times

    def rows(self) -> Iterator[tuple[Unit, str, int]]:
        """Yield unit, reason and count; units in the order of an export, the most frequent reason first."""
        for unit, reason in sorted(self.counts, key=lambda key: (_UNITS.index(key[0]), -self.counts[key], key[1])):
            yield unit, reason, self.counts[unit, reason]

    def lines(self) -> list[str]:
        """Return the counts as lines for people."""
        return [f"{times:,} {unit if times == 1 else _PLURALS[unit]}: {why}" for unit, why, times in self.rows()]
