"""A judge under watch: what a second judge says of groups that a policy was trained on, and an alarm at reward hacking.

Both judges mark the same rollouts. A policy that finds what only its judge likes gains under that judge alone. A
judge's gain is the slope of its mean mark over the training, in units of the spread of its marks within the first
groups, so that judges with other scales can be compared. There is an alarm where the training judge's gain is above 0
and the second's is below it, each surely enough to be asked after every group (the bound of a normal mixture, H.
Robbins, Annals of Mathematical Statistics 41, 1970, in quantiles of Student's t), and is below half of it at 97.5 %.
"""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from harness.core.rankings import GroupRanking
from harness.ranking.judge_stats.agreement import Share

_ALPHA = 0.02
_FIRST = 4
"""Groups that give the scale of a judge's marks."""
_FEWEST, _MOST = 8, 64
"""There is no alarm on fewer groups; it looks at so many of the last ones."""
_Z = 1.959963984540054


@dataclass(frozen=True)
class WatchedGroup:
    """A group that two judges marked: of each rollout the mean mark by either, and the characters of its answer."""

    step: int
    """The version of the policy."""
    marks: tuple[float, ...]
    second: tuple[float, ...]
    lengths: tuple[int, ...]
    flips: Share = field(default_factory=Share)
    """Of the training judge's matches in both orders, those whose orders name opposite winners."""


@dataclass(frozen=True)
class Gain:
    """How a judge's mean mark went over the training, first to last, in its own spreads; with its standard error."""

    value: float
    error: float

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval."""
        return self.value - _Z * self.error, self.value + _Z * self.error


@dataclass(frozen=True)
class WatchFigures:
    """What a watch shows of the groups so far. A length lean is the share of pairs in which the longer is preferred."""

    groups: int
    agreement: Share
    """Of the pairs of rollouts that both judges tell apart, those that they order alike."""
    length_lean: Share
    second_length_lean: Share
    flips: Share
    gain: Gain | None
    second_gain: Gain | None
    alarm: bool
    """The policy gains under the training judge and not under the second."""

    def as_dict(self, prefix: str = "judge_watch/") -> dict[str, float]:
        """Return figures, and the ends of their intervals, by name for a trainer's log, as far as known."""
        known: dict[str, tuple[float | None, tuple[float, float]]] = {
            "agreement": (self.agreement.value, self.agreement.interval),
            "length_lean": (self.length_lean.value, self.length_lean.interval),
            "second_length_lean": (self.second_length_lean.value, self.second_length_lean.interval),
            "flips": (self.flips.value, self.flips.interval),
        }
        gains = {"gain": self.gain, "second_gain": self.second_gain}
        known |= {name: (gain.value, gain.interval) for name, gain in gains.items() if gain}
        named = {
            f"{prefix}{name}{end}": number
            for name, (value, (low, high)) in known.items()
            if value is not None
            for end, number in (("", value), ("_low", low), ("_high", high))
        }
        return {f"{prefix}alarm": float(self.alarm), f"{prefix}groups": float(self.groups), **named}


def watch_figures(groups: Sequence[WatchedGroup], *, alarmed: bool = False) -> WatchFigures:
    """Return what some groups show, in the order of the training; one that `alarmed` before stays so."""
    pairs = [(g, a, b) for g in groups for a, b in combinations(range(len(g.marks)), 2)]
    apart = [(g, a, b) for g, a, b in pairs if g.marks[a] != g.marks[b] and g.second[a] != g.second[b]]
    alike = sum((g.marks[a] > g.marks[b]) == (g.second[a] > g.second[b]) for g, a, b in apart)
    return WatchFigures(
        groups=len(groups),
        agreement=Share(alike, len(apart)),
        length_lean=_lean((g.marks[a] - g.marks[b], g.lengths[a] - g.lengths[b]) for g, a, b in pairs),
        second_length_lean=_lean((g.second[a] - g.second[b], g.lengths[a] - g.lengths[b]) for g, a, b in pairs),
        flips=sum((g.flips for g in groups), Share()),
        gain=_gain(groups, groups, 1.0, 0.0),
        second_gain=_gain(groups, groups, 0.0, 1.0),
        alarm=alarmed or _alarms(groups),
    )


def mean_marks(ranking: GroupRanking) -> dict[int, float]:
    """Return the mean mark of each rollout that has any: over its matches, else the score of a listwise judge."""
    marks: dict[int, list[float]] = {}
    for match in ranking.matches:
        marks.setdefault(match.a, []).append(match.score_a)
        marks.setdefault(match.b, []).append(match.score_b)
    listed = {row.index: [row.score] for row in ranking.rollouts if row.score is not None}
    return {index: statistics.fmean(each) for index, each in (marks or listed).items()}


def _lean(differences: Iterable[tuple[float, int]]) -> Share:
    """Return how often the longer of two is the better marked, of pairs that differ in both."""
    apart = [(mark > 0) == (length > 0) for mark, length in differences if mark and length]
    return Share(sum(apart), len(apart))


def _alarms(groups: Sequence[WatchedGroup]) -> bool:
    last = groups[-_MOST:]
    if len(last) < _FEWEST:
        return False
    bound = _as_t(math.sqrt(2 * math.log(1 / _ALPHA) + math.log(1 + len(groups) / _FEWEST)), len(last) - 2)
    asked = ((1.0, 0.0, bound), (1.0, -1.0, bound), (0.5, -1.0, _Z))
    return all(
        (gain := _gain(groups, last, of_marks, of_second)) is not None and gain.value > least * gain.error
        for of_marks, of_second, least in asked
    )


def _as_t(z: float, freedom: int) -> float:
    """Return the quantile of Student's t that is as far out as `z` (Abramowitz and Stegun 26.7.5)."""
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def _gain(
    all_groups: Sequence[WatchedGroup], groups: Sequence[WatchedGroup], of_marks: float, of_second: float
) -> Gain | None:
    """Return the gain in `groups` of a sum of both judges' scaled means; None where steps or marks do not differ."""
    first = all_groups[:_FIRST]
    scale, second_scale = _spread(g.marks for g in first), _spread(g.second for g in first)
    steps = [group.step for group in groups]
    span = sum((step - statistics.fmean(steps)) ** 2 for step in steps) if steps else 0.0
    if len(groups) < _FIRST or not span or not scale or not second_scale:
        return None
    values = [
        of_marks * statistics.fmean(g.marks) / scale + of_second * statistics.fmean(g.second) / second_scale
        for g in groups
    ]
    middle = statistics.fmean(steps)
    slope = sum((step - middle) * value for step, value in zip(steps, values, strict=True)) / span
    level = statistics.fmean(values)
    off = [value - level - slope * (step - middle) for step, value in zip(steps, values, strict=True)]
    error = math.sqrt(sum(each**2 for each in off) / (len(groups) - 2) / span)
    length = max(steps) - min(steps)
    return Gain(slope * length, error * length)


def _spread(groups: Iterable[Sequence[float]]) -> float:
    """Return the pooled standard deviation of marks within groups."""
    squares = [(mark - statistics.fmean(marks)) ** 2 for marks in groups for mark in marks]
    return math.sqrt(statistics.fmean(squares)) if squares else 0.0
