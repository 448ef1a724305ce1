"""A comparison's page, and above 100 queries a page for each of them, drawn from its archive."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

from harness.archive.comparison_reader import ComparisonReader
from harness.archive.page_folder import PageFolder, opened_pages, pages_folder, remove_pages
from harness.archive.run_files import write_file
from harness.core import comparisons
from harness.core.errors import counted
from harness.core.records import digest
from harness.report.html.compared_queries import QueryRow, TwoSides, pairings, shown_queries
from harness.report.html.curve_svg import LinearScale
from harness.report.html.diffs import instruction_diff
from harness.report.html.facts import Fact, page_template, sources_digest, versions_fact
from harness.report.html.filtered_index import script_hash
from harness.report.summary.comparison import (
    chance_words,
    method_words,
    rate,
    result_figures,
    sides_rows,
    strength_rows,
    win_rate,
)
from harness.report.text import date


@dataclass(frozen=True)
class ForestLine:
    """A win rate on a scale from 0 to 100 %."""

    label: str
    of: str
    """What it was counted over."""
    interval: comparisons.Interval
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


def forest(comparison: comparisons.Comparison) -> list[ForestLine]:
    """Return the win rates of a comparison: of each two sides, and for two sides of parts of their pairs."""
    if len(comparison.results) != 1:
        return [_whole(f"{r.sides[1]} against {r.sides[0]}", r) for r in comparison.results if r.pairs]
    (result,) = comparison.results
    lost = f"all but {counted(sum(result.forfeits), 'pair')} lost by failing"
    labels = counted(result.people.labels, "labelled pair") if result.people else ""
    equal = next((figure.meaning for figure in result_figures(result) if figure.label == "at equal length"), "")
    parts = (
        ("By people", labels, result.people and result.people.rate),
        ("At equal length", equal, result.length_controlled),
        ("Without failures", lost, result.without_forfeits),
        ("Anchors", "rollout 0 of both", result.anchors),
    )
    lines = [_whole("All pairs", result)] if result.pairs else []
    lines += [ForestLine(label, of, interval) for label, of, interval in parts if interval]
    for part in comparison.slices:
        if part.win_rate:
            p, of = "" if part.p is None else chance_words(part.p), counted(part.queries, "query", "queries")
            doubted = (part.p or 0.0) > comparisons.ALPHA
            lines.append(ForestLine(f"{part.key}: {part.value}", of, part.win_rate, p, doubted=doubted))
    return lines


def _whole(label: str, r: comparisons.SideResult) -> ForestLine:
    p = chance_words(r.p if r.p_holm is None else r.p_holm)
    of = f"{counted(r.pairs, 'pair')}, {method_words(r)}"
    return ForestLine(label, of, win_rate(r), p, whole=True, doubted=r.shown is None)


@dataclass(frozen=True)
class FrontMark:
    """A side on the plot of strength against what a rollout takes."""

    label: str
    x: float
    y: float
    low: float
    high: float
    beaten: bool


@dataclass(frozen=True)
class Front:
    """The plot: scales in the drawing's units, and a mark for each side."""

    axis: str
    across: LinearScale
    up: LinearScale
    marks: Sequence[FrontMark]


def front(comparison: comparisons.Comparison) -> Front | None:
    """Return the strengths against cost, or against time where no side costs anything; None for two sides."""
    figures = {side.label: side for side in comparison.figures}
    takes = {label: 1000 * side.usd.value for label, side in figures.items() if side.usd}
    axis = "USD for 1,000 rollouts"
    if not any(takes.values()):
        axis = "seconds a rollout"
        takes = {label: side.duration_s.value for label, side in figures.items() if side.duration_s}
    placed = [side for side in comparison.strengths if side.label in takes]
    if len(placed) < 2:
        return None
    ends = [end for side in placed for end in (side.strength.low, side.strength.high)]
    across, up = LinearScale.around(0, max(takes.values()), 56, 590), LinearScale.around(min(ends), max(ends), 250, 16)
    marks = [
        FrontMark(
            label=side.label,
            x=across.place(takes[side.label]),
            y=up.place(side.strength.value),
            low=up.place(side.strength.low),
            high=up.place(side.strength.high),
            beaten=bool(side.beaten_by),
        )
        for side in placed
    ]
    return Front(axis, across, up, marks)


_TASKS = {
    "agent": "the agents' instructions and tools, which are the same on all sides",
    "file": "a file's text (--task)",
    "nothing": "the query alone, because instructions are not shown (--hide-instructions)",
}
_QUERY_ALONE = "the query alone, because the sides' instructions or tools differ"
_IN_ONE = 100
"""Queries above which each has a page of its own, as a run's have."""


def write_comparison_page(
    reader: ComparisonReader, comparison: comparisons.Comparison, target: Path | None = None
) -> Path:
    """Write the page (mode 0600), whole or not at all, by default as report.html of the comparison's folder.

    The same archive gives the same text. Above 100 queries a folder beside it, named for it (`report/`), holds a page
    for each query. Raises CannotWrite, and ArchiveDamaged if something else stands at the place of either, or a text of
    a transcript is missing.
    """
    target = target or reader.folder / "report.html"
    drawing, folder = _Drawing(reader, comparison), pages_folder(target)
    if drawing.in_one:
        remove_pages(folder)
    else:
        with opened_pages(folder, remember=True) as pages:
            drawing.write_query_pages(pages, target.name)
    write_file(target, drawing.page(folder.name))
    return target


class _Drawing:
    """What a comparison's page and the pages of its queries are drawn from."""

    def __init__(self, reader: ComparisonReader, comparison: comparisons.Comparison) -> None:
        self._reader, self._comparison, self._queries = reader, comparison, list(reader.queries())
        self._pairings = pairings(comparison, self._queries)

    @property
    def in_one(self) -> bool:
        """Whether one page shows all queries in full."""
        return sum(len(pairing.rows) for pairing in self._pairings) <= _IN_ONE

    def page(self, folder: str) -> str:
        """Return the page of the whole."""
        reader, comparison, of_pairings = self._reader, self._comparison, self._pairings
        several = len(comparison.results) > 1
        return page_template("comparison_page.html.j2").render(
            info=reader.info,
            spent=reader.index.spent,
            comparison=comparison,
            forest=forest(comparison),
            front=front(comparison),
            figures=[
                (result, [figure for figure in result_figures(result) if several or not figure.is_rate])  # else plotted
                for result in comparison.results
            ],
            rows=sides_rows(comparison.figures),
            strengths=strength_rows(comparison),
            labels=[side.label for side in comparison.figures],
            instructions=[
                (first, second, instruction_diff(first.instructions, second.instructions))
                for first, second in pairwise(comparison.sides)
                if first.instructions is not None and second.instructions is not None
            ],
            pairings=of_pairings,
            shown=[shown_queries(comparison, p, p.rows, reader) if self.in_one else [] for p in of_pairings],
            folder=None if self.in_one else folder,
            script_hash=script_hash(),
            about=self._about,
        )

    def write_query_pages(self, pages: PageFolder, index: str) -> None:
        """Write each query's page, in the order of the first two sides' table, where anything of it changed."""
        by_page: dict[str, list[tuple[TwoSides, QueryRow]]] = {}
        for pairing in self._pairings:
            for row in pairing.rows:
                by_page.setdefault(row.page, []).append((pairing, row))
        names = [None, *by_page, None]
        common = digest([sources_digest(), self._reader.info.model_dump_json(), *map(repr, self._about)])
        for before, (name, rows), after in zip(names, by_page.items(), names[2:], strict=False):
            around = {"before": before, "after": after, "index": index}
            made_of = digest([common, around, [row.met.query.model_dump_json() for _, row in rows]])
            if not pages.keeps(name, made_of):
                shown = [(p, shown_queries(self._comparison, p, [row], self._reader)[0]) for p, row in rows]
                about = {"info": self._reader.info, "comparison": self._comparison, "about": self._about}
                template = page_template("compared_query_page.html.j2")
                pages.write(name, made_of, template.render(**about, **around, query=rows[0][1], shown=shown))

    @cached_property
    def _about(self) -> list[Fact]:
        info, comparison = self._reader.info, self._comparison
        task, differ = _TASKS[info.task_from], sum(query.task_differs for query in self._queries)
        if differ:
            on_some = f"on {counted(differ, 'query', 'queries')} {_QUERY_ALONE}; on the others {task}"
            task = _QUERY_ALONE if differ == len(self._queries) else on_some
        return [
            Fact("Comparison", info.id, date(info.created_at)),
            Fact("Judge", comparison.judge),
            Fact("Rubric", comparison.rubric),
            Fact("Task shown", task),
            Fact("Pairs", f"{counted(info.pairs, 'cross pair')} of samples a query, and the anchors"),
            Fact("Drawn again", f"clusters of equal {info.cluster}" if info.cluster else "queries"),
            *(Fact(f"Side {side.label}", side.run, f"run.json {side.sha256[:12]}") for side in comparison.sides),
            versions_fact(info.versions),
        ]
