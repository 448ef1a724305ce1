"""A comparison's page, drawn from its archive and what it says, and written to a file."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Literal

from harness.archive.comparison_reader import ComparisonReader
from harness.archive.comparison_records import ComparisonInfo
from harness.archive.run_files import write_file
from harness.core.comparisons import ALPHA, ComparedQuery, ComparedSide, Comparison, Interval, SideResult
from harness.core.wording import counted
from harness.report.html.facts import Fact
from harness.report.html.lost_queries import LostQuery, lost_queries
from harness.report.summary.comparison import (
    MetQuery,
    losses,
    met_queries,
    method_words,
    places_of,
    probability_of_chance,
    rate,
    result_figures,
    sides_rows,
    win_rate,
)
from harness.report.text import date
from harness.transcripts.clean_text import clean

_CONTEXT = 3
"""Equal lines that are shown around a change."""
_MOST_LINES = 1_500
"""Above this number of lines the two are not compared: difflib takes the square of a length."""
_WORD_PAIRS = 12_000_000
"""Pairs of words that are looked at for all lines together; lines beyond that are compared as a whole."""
_ALIKE = 0.4
"""Share of equal words from which a changed line is marked word by word."""
_WORDS = re.compile(r"\w+|\s+|[^\w\s]")
_Opcodes = Sequence[tuple[str, int, int, int, int]]

Kind = Literal["same", "gone", "new", "skipped"]


@dataclass(frozen=True)
class DiffLine:
    """A line of a diff, in pieces; a piece is marked where only a part of the line changed."""

    kind: Kind
    pieces: tuple[tuple[str, bool], ...]


def instruction_diff(first: str, second: str) -> list[DiffLine] | None:
    """Return how `second` differs from `first`; None where they are too long to compare."""
    before, after = clean(first).splitlines(), clean(second).splitlines()
    if max(len(before), len(after)) > _MOST_LINES:
        return None
    groups = SequenceMatcher(None, before, after, autojunk=False).get_grouped_opcodes(_CONTEXT)
    return list(_Diff(before, after).lines([list(group) for group in groups]))


class _Diff:
    def __init__(self, before: Sequence[str], after: Sequence[str]) -> None:
        self._before, self._after = before, after
        self._word_pairs = _WORD_PAIRS

    def lines(self, groups: Sequence[_Opcodes]) -> Iterator[DiffLine]:
        end = 0
        for group in groups:
            yield from _skipped(group[0][1] - end)
            for tag, low, high, after_low, after_high in group:
                if tag == "equal":
                    yield from (_whole_of_instruction_diff("same", line) for line in self._before[low:high])
                else:
                    pairs = [
                        self._by_words(old, young)
                        for old, young in zip_longest(self._before[low:high], self._after[after_low:after_high])
                    ]
                    yield from (line for line, _ in pairs if line)
                    yield from (line for _, line in pairs if line)
                end = high
        yield from _skipped(len(self._before) - end)

    def _by_words(self, gone: str | None, new: str | None) -> tuple[DiffLine | None, DiffLine | None]:
        if gone is None or new is None:
            return (
                None if gone is None else _whole_of_instruction_diff("gone", gone),
                None if new is None else _whole_of_instruction_diff("new", new),
            )
        before, after = _WORDS.findall(gone), _WORDS.findall(new)
        self._word_pairs -= len(before) * len(after)
        if self._word_pairs < 0:
            return _whole_of_instruction_diff("gone", gone), _whole_of_instruction_diff("new", new)
        return _word_diff(before, after)


def _word_diff(before: Sequence[str], after: Sequence[str]) -> tuple[DiffLine, DiffLine]:
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    if matcher.ratio() < _ALIKE:
        return _whole_of_instruction_diff("gone", "".join(before)), _whole_of_instruction_diff("new", "".join(after))
    codes = matcher.get_opcodes()
    old = tuple(("".join(before[low:high]), tag != "equal") for tag, low, high, _, _ in codes if high > low)
    young = tuple(("".join(after[low:high]), tag != "equal") for tag, _, _, low, high in codes if high > low)
    return DiffLine("gone", old), DiffLine("new", young)


def _skipped(count: int) -> Iterator[DiffLine]:
    if count > 0:
        yield _whole_of_instruction_diff("skipped", f"{count:,} equal line{'s' if count > 1 else ''}")


def _whole_of_instruction_diff(kind: Kind, text: str) -> DiffLine:
    return DiffLine(kind, ((text, False),))


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
                f"{part.key}: {part.value}",
                counted(part.queries, "query", "queries"),
                part.win_rate,
                p,
                doubted=(part.p or 0.0) > ALPHA,
            )


_DETAILED = 40
"""Lost queries of two sides that are shown with their transcripts."""
_LISTED = 1_000
"""Queries in the table of all."""


@dataclass(frozen=True)
class LossSection:
    """What a side lost to another one."""

    result: SideResult
    lost: int
    shown: list[LostQuery]
    met: list[MetQuery]
    """All queries on which the two met, the second side's worst first."""

    @property
    def id(self) -> str:
        """The name of the section in links of the page."""
        return f"{self.result.sides[1]}{self.result.sides[0]}".lower()


@dataclass(frozen=True)
class InstructionSection:
    """The instructions of two sides against each other."""

    first: ComparedSide
    second: ComparedSide
    lines: list[DiffLine] | None
    """None where they are too long to compare."""

    @property
    def equal(self) -> bool:
        """Whether both had the same instructions."""
        return self.first.instructions == self.second.instructions


def write_comparison_page(reader: ComparisonReader, comparison: Comparison, target: Path | None = None) -> Path:
    """Write the page of a comparison (mode 0600), whole or not at all, and return where it is.

    Without a target it is the report.html of the comparison's folder. Raises CannotWrite; ArchiveDamaged if a folder
    stands there, or a text of a transcript is missing.
    """
    target = target or reader.folder / "report.html"
    write_file(target, render_comparison_page(reader, comparison))
    return target


def render_comparison_page(reader: ComparisonReader, comparison: Comparison) -> str:
    """Return the page of a comparison: the same archive gives the same text.

    Of each two sides the first 40 lost queries are shown in full, and the page says so.
    """
    from harness.report.html.templates import page_template  # noqa: PLC0415 - only drawing a page loads jinja2

    queries = list(reader.queries())
    several = len(comparison.results) > 1
    return page_template("comparison_page.html.j2").render(
        info=reader.info,
        comparison=comparison,
        forest=forest(comparison),
        figures=[
            (result, [figure for figure in result_figures(result) if not ((not several) and figure.is_rate)])
            for result in comparison.results
        ],
        rows=sides_rows(comparison.figures),
        labels=[side.label for side in comparison.figures],
        instructions=[
            InstructionSection(first, second, instruction_diff(first.instructions, second.instructions))
            for first, second in pairwise(comparison.sides)
            if first.instructions is not None and second.instructions is not None
        ],
        losses=[_losses(reader, comparison, result, queries) for result in comparison.results],
        listed=_LISTED,
        about=_about(reader.info, comparison, _task_shown(reader.info, queries)),
    )


def _losses(
    reader: ComparisonReader, comparison: Comparison, result: SideResult, queries: Sequence[ComparedQuery]
) -> LossSection:
    places = places_of(comparison, result)
    lost = losses(queries, places)
    most = max(1, _DETAILED // len(comparison.results))
    shown = lost_queries(lost[:most], places, result.sides, reader.verdict, reader.blobs.get)
    return LossSection(result=result, lost=len(lost), shown=shown, met=met_queries(queries, places))


_TASKS = {
    "agent": "the agents' instructions and tools, which are the same on all sides",
    "file": "a file's text (--task)",
    "nothing": "the query alone, because instructions are not shown (--hide-instructions)",
}
_QUERY_ALONE = "the query alone, because the sides' instructions or tools differ"


def _task_shown(info: ComparisonInfo, queries: Sequence[ComparedQuery]) -> str:
    """Return what the judge was shown as the task, beside the query."""
    differ = sum(query.task_differs for query in queries)
    if not differ:
        return _TASKS[info.task_from]
    if differ == len(queries):
        return _QUERY_ALONE
    return f"on {counted(differ, 'query', 'queries')} {_QUERY_ALONE}; on the others {_TASKS[info.task_from]}"


def _about(info: ComparisonInfo, comparison: Comparison, task_shown: str) -> list[Fact]:
    """Return how the comparison was made: the particulars at its foot."""
    return [
        Fact("Comparison", info.id, date(info.created_at)),
        Fact("Judge", comparison.judge),
        Fact("Rubric", comparison.rubric),
        Fact("Task shown", task_shown),
        Fact("Pairs", f"{counted(info.pairs, 'cross pair')} of samples a query, and the anchors"),
        Fact("Drawn again", f"clusters of equal {info.cluster}" if info.cluster else "queries"),
        *(Fact(f"Side {side.label}", side.run, f"run.json {side.sha256[:12]}") for side in comparison.sides),
        Fact("Made with", ", ".join(f"{name} {version}" for name, version in info.versions.items())),
    ]
