"""The rows of an index, and what they can be filtered by."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.archive.page_folder import page_name
from harness.core.plurals import counted
from harness.report.summary.group import QueryLine
from harness.report.text import fixed

_FIELDS = 5
"""Fields of the metadata that the index can be filtered by."""
_VALUES = 20
"""Different values of a field above which nobody picks one of them from a list."""
_SHOWN = 6
"""Fields of the metadata that a row shows."""
_WIDTH, _EDGE = 96, 4
"""Of the drawing of the scores, in its own units."""


@dataclass(frozen=True)
class Spread:
    """The scores of a query as ticks on a line, the anchor's as a dot."""

    ticks: tuple[float, ...]
    dot: float | None
    label: str


@dataclass(frozen=True)
class IndexRow:
    """A query in the index."""

    line: QueryLine
    page: str
    """The file name of its page."""
    spread: Spread | None
    chosen: Mapping[str, str]
    """Its values in the fields that the index can be filtered by, each under the name of an attribute."""
    metadata: Sequence[tuple[str, str]]

    @property
    def flipped(self) -> bool:
        """Whether the two orders of any match name opposite winners."""
        return self.line.flips[0] > 0


@dataclass(frozen=True)
class Filter:
    """A field of the metadata that rows can be filtered by."""

    attribute: str
    label: str
    values: Sequence[str]


def index_filters(lines: Sequence[QueryLine]) -> list[Filter]:
    """Return the fields of the metadata that have few different values, the most common fields first."""
    named = Counter(name for line in lines for name in line.metadata)
    values = {name: {_words(line.metadata[name]) for line in lines if name in line.metadata} for name in named}
    picked = [name for name, _ in named.most_common() if 1 < len(values[name]) <= _VALUES][:_FIELDS]
    return [Filter(f"m{i}", name, sorted(values[name])) for i, name in enumerate(picked)]


def index_rows(lines: Sequence[QueryLine], filters: Sequence[Filter]) -> list[IndexRow]:
    """Return a row for each line; scores of one kind are drawn on one scale."""
    scales = _scales(lines)
    return [
        IndexRow(
            line=line,
            page=page_name(line.id),
            spread=_spread(line, *scales[line.score_name]) if line.scores else None,
            chosen={f.attribute: _words(line.metadata[f.label]) for f in filters if f.label in line.metadata},
            metadata=[(name, _words(value)) for name, value in line.metadata.items()][:_SHOWN],
        )
        for line in lines
    ]


def _words(value: float | str) -> str:
    return value[:40] if isinstance(value, str) else f"{value:g}"


def _scales(lines: Sequence[QueryLine]) -> dict[str, tuple[float, float]]:
    scales: dict[str, tuple[float, float]] = {}
    for line in lines:
        if line.scores:
            low, high = scales.get(line.score_name, (min(line.scores), max(line.scores)))
            scales[line.score_name] = min(low, *line.scores), max(high, *line.scores)
    return scales


def _spread(line: QueryLine, low: float, high: float) -> Spread:
    def place(score: float) -> float:
        share = (score - low) / (high - low) if high > low else 0.5
        return round(_EDGE + share * (_WIDTH - 2 * _EDGE), 1)

    least, most = fixed(min(line.scores)), fixed(max(line.scores))
    return Spread(
        ticks=tuple(dict.fromkeys(place(score) for score in line.scores)),
        dot=None if line.anchor_score is None else place(line.anchor_score),
        label=f"{counted(len(line.scores), 'score')} from {least} to {most}",
    )
