"""A comparison's page, drawn from its archive and what it says, and written to a file."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from harness.archive.comparison_reader import ComparisonReader
from harness.archive.comparison_records import ComparisonInfo
from harness.archive.run_files import write_file
from harness.core.comparisons import ComparedQuery, ComparedSide, Comparison, SideResult
from harness.core.plurals import counted
from harness.report.html.comparison.forest import forest
from harness.report.html.comparison.instruction_diff import DiffLine, instruction_diff
from harness.report.html.comparison.lost_queries import LostQuery, lost_queries
from harness.report.html.facts import Fact
from harness.report.summary.comparison import ResultFigure, result_figures, sides_rows
from harness.report.summary.losses import MetQuery, losses, met_queries, places_of
from harness.report.text import date

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
    return page_template("comparison/page.html.j2").render(
        info=reader.info,
        comparison=comparison,
        forest=forest(comparison),
        figures=[(result, _figures(result, plotted=not several)) for result in comparison.results],
        rows=sides_rows(comparison.figures),
        labels=[side.label for side in comparison.figures],
        instructions=_instructions(comparison.sides),
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


def _figures(result: SideResult, *, plotted: bool) -> list[ResultFigure]:
    """Return the figures of a result, without the rates that a forest plot shows already."""
    return [figure for figure in result_figures(result) if not (plotted and figure.is_rate)]


def _instructions(sides: Sequence[ComparedSide]) -> list[InstructionSection]:
    """Return the instructions of each side against those of the side before it."""
    return [
        InstructionSection(first, second, instruction_diff(first.instructions, second.instructions))
        for first, second in pairwise(sides)
        if first.instructions is not None and second.instructions is not None
    ]


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
