"""Win rates with their intervals as the lines of a forest plot."""

from collections.abc import Iterator
from dataclasses import dataclass

from harness.core.comparisons import ALPHA, Comparison, Interval, SideResult
from harness.core.plurals import counted
from harness.report.summary.comparison import method_words, probability_of_chance, rate, win_rate


@dataclass(frozen=True)
class ForestLine:
    """A win rate on a scale from 0 to 100 %."""

    label: str
    of: str
    """What it was counted over."""
    interval: Interval
    p: str = ""
    whole: bool = False
    """Whether it is the win rate itself, not that of a part of the pairs."""
    doubted: bool = False
    """Whether nothing is shown even where the interval leaves out one half: for p by Holm, or for open pairs."""

    @property
    def words(self) -> str:
        """The win rate and its interval."""
        return rate(self.interval)

    @property
    def shown(self) -> str:
        """Which way the interval lies away from one half: up, down, or neither."""
        if self.doubted:
            return ""
        if self.interval.low > 0.5:
            return "up"
        return "down" if self.interval.high < 0.5 else ""

    def at(self, share: float) -> str:
        """Return a place on the scale for CSS; what lies outside stands at the end."""
        return f"{100 * min(1.0, max(0.0, share)):.2f}%"


def forest(comparison: Comparison) -> list[ForestLine]:
    """Return the win rates of a comparison: of each two sides, and for two sides of parts of their pairs."""
    if len(comparison.results) != 1:
        return [_whole(f"{r.sides[1]} against {r.sides[0]}", r) for r in comparison.results if r.pairs]
    (result,) = comparison.results
    whole = [_whole("All pairs", result)] if result.pairs else []
    return [*whole, *_variants(result), *_slices(comparison)]


def _whole(label: str, r: SideResult) -> ForestLine:
    p = probability_of_chance(r.p if r.p_holm is None else r.p_holm)
    return ForestLine(
        label, f"{counted(r.pairs, 'pair')}, {method_words(r)}", win_rate(r), p, whole=True, doubted=r.shown is None
    )


def _variants(r: SideResult) -> Iterator[ForestLine]:
    if r.length_controlled:
        yield ForestLine("At equal length", "fitted to all pairs", r.length_controlled)
    if r.without_forfeits:
        lost = counted(sum(r.forfeits), "pair")
        yield ForestLine("Without failures", f"all but {lost} lost by failing", r.without_forfeits)
    if r.anchors:
        yield ForestLine("Anchors", "pairs at temperature 0", r.anchors)


def _slices(comparison: Comparison) -> Iterator[ForestLine]:
    for part in comparison.slices:
        if part.win_rate:
            p = "" if part.p is None else probability_of_chance(part.p)
            yield ForestLine(
                f"{part.key}: {part.value}", _queries(part.queries), part.win_rate, p, doubted=(part.p or 0.0) > ALPHA
            )


def _queries(count: int) -> str:
    return counted(count, "query", "queries")
