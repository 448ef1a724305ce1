"""The drawing of a curve: agreement with the truth against judge calls, as one SVG file without a script."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from harness.core.errors import counted
from harness.ranking.curve import KEEP, CurvePoint, frontier
from harness.report.summary.curve import JudgingCurve, counted_calls, design_words
from harness.report.text import as_sentence, fixed

_LEFT, _RIGHT, _TOP, _BOTTOM = 64.0, 588.0, 92.0, 424.0
"""Where the plot stands in the drawing, in its own units."""
_STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0)
_TICKS = 7
_HEADING, _LINE = 80, 104
"""Characters of a line of the heading, and of the words below."""


@dataclass(frozen=True)
class LinearScale:
    """A linear scale from figures to places in the drawing, with its ticks."""

    low: float
    high: float
    start: float
    end: float
    step: float

    @classmethod
    def around(cls, low: float, high: float, start: float, end: float) -> "LinearScale":
        """Return a scale whose ends are ticks, and hold `low` and `high`."""
        span = max(high - low, 0.05)
        step = next((step for step in _STEPS if span / step <= _TICKS), span / _TICKS)
        return cls(math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step, start, end, step)

    def place(self, value: float) -> float:
        """Return where a figure stands."""
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)

    @property
    def ticks(self) -> Iterator[tuple[float, str]]:
        """Yield places and words of the ticks."""
        decimals = max(0, math.ceil(-math.log10(self.step) - 1e-9))
        for number in range(round((self.high - self.low) / self.step) + 1):
            value = self.low + number * self.step
            yield self.place(value), fixed(round(value, 9) + 0.0, decimals)


@dataclass(frozen=True)
class _Mark:
    """A point as it is drawn, with the ends of its interval: the topology is its colour, the estimator its shape."""

    x: float
    y: float
    low: float | None
    high: float | None
    topology: int
    estimator: str
    words: str


def curve_svg(curve: JudgingCurve) -> str:
    """Return the drawing: every point, the best ones joined by a line with intervals, and the sentence."""
    from harness.report.html.facts import page_template  # noqa: PLC0415 - jinja2 is loaded for a drawing only

    points = curve.curve.points
    best = frontier(points)
    across = LinearScale.around(0, max(point.calls for point in points), _LEFT, _RIGHT)
    lows = [point.tau.value for point in points] + [p.tau.low for p in best if p.tau.low is not None]
    highs = [point.tau.value for point in points] + [p.tau.high for p in best if p.tau.high is not None]
    up = LinearScale.around(*(min(0.0, *lows), max(highs)), _BOTTOM, _TOP)
    topologies = list(dict.fromkeys(point.design.topology for point in sorted(points, key=lambda p: p.design.topology)))
    estimators = list(dict.fromkeys(point.estimator for point in points))
    chosen = curve.curve.chosen

    def mark(point: CurvePoint) -> _Mark:
        design, tau = design_words(point.design), point.tau
        return _Mark(
            x=across.place(point.calls),
            y=up.place(tau.value),
            low=None if tau.low is None else up.place(tau.low),
            high=None if tau.high is None else up.place(tau.high),
            topology=topologies.index(point.design.topology),
            estimator=point.estimator,
            words=f"{design}, {point.estimator}: {counted_calls(point)}, tau {fixed(tau.value)}",
        )

    return page_template("curve.svg.j2").render(
        sentence=_lines(as_sentence(curve.sentence), _HEADING),
        truth=_lines(f"{curve.truth_words}; {counted(curve.queries, 'query', 'queries')}, {curve.by}"),
        notes=[line for note in curve.notes() for line in _lines(f"note: {note}")],
        across=across,
        up=up,
        marks=list(map(mark, points)),
        best=list(map(mark, best)),
        chosen=chosen and mark(chosen),
        kept=up.place(KEEP * curve.curve.reference.tau.value) if chosen else None,
        topologies=topologies,
        estimators=sorted(estimators),
    )


def _lines(text: str, length: int = _LINE) -> list[str]:
    """Return a text in lines that fit, which SVG does not break by itself."""
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) > length:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines
