"""A comparison's page, drawn from its archive, with the queries that a side lost, and written to a file."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from harness.archive.comparison_reader import ComparisonReader
from harness.archive.run_files import write_file
from harness.core import comparisons
from harness.core.errors import counted
from harness.report.html.diffs import BESIDE_A_MATCH, DiffLine, ExcerptText, cut_excerpt, instruction_diff
from harness.report.html.facts import Fact, versions_fact
from harness.report.summary.comparison import (
    MetQuery,
    chance_words,
    met_queries,
    method_words,
    rate,
    result_figures,
    sides_rows,
    win_rate,
)
from harness.report.summary.match_details import JudgedOrder, MarkRow, judged_order, mark_rows
from harness.report.text import date
from harness.transcripts.clean_text import clean

_ANSWER = 4_000
"""Characters of an answer that are shown on the largest page too."""


@dataclass(frozen=True)
class PairedSide:
    """One rollout of a pair, with what the judge read of it."""

    label: str
    rollout: comparisons.ComparedRollout
    score: float | None
    won: bool
    answer: ExcerptText
    path: ExcerptText


@dataclass(frozen=True)
class LostPair:
    """A pair of rollouts of two sides."""

    title: str
    match: comparisons.CrossMatch
    outcome: str
    sides: tuple[PairedSide, PairedSide]
    marks: tuple[MarkRow, ...]
    judged: tuple[JudgedOrder[str], ...]
    """The orders whose verdicts are in the archive: one for each pair of columns of `marks`."""
    orders: tuple[JudgedOrder[str], ...]


@dataclass(frozen=True)
class LostQuery:
    """A query that the second side lost."""

    met: MetQuery
    pairs: tuple[LostPair, ...]

    @property
    def metadata(self) -> list[tuple[str, str]]:
        """The query's metadata in words; what is no text as JSON."""
        members = self.met.query.metadata.items()
        return [(key, v if isinstance(v, str) else json.dumps(v, ensure_ascii=False)) for key, v in members]


def lost_queries(
    lost: Sequence[MetQuery], sides: tuple[int, int], labels: tuple[str, str], reader: ComparisonReader
) -> list[LostQuery]:
    """Return the queries with their pairs; the more pairs, the less room each transcript has. Raises ArchiveDamaged."""

    def worst_first(match: comparisons.CrossMatch) -> tuple[bool, float, float]:
        return match.outcome is None, match.outcome or 0.0, (match.score_second or 0.0) - (match.score_first or 0.0)

    matches = [[*sorted(met.query.pairs(sides), key=worst_first), *met.query.pairs(sides, "anchor")] for met in lost]
    room = BESIDE_A_MATCH.each(2 * sum(map(len, matches)))
    return [
        LostQuery(met, tuple(_pair(at, met.query, match, labels, reader, room) for at, match in enumerate(of, 1)))
        for met, of in zip(lost, matches, strict=True)
    ]


def _pair(
    number: int,
    query: comparisons.ComparedQuery,
    match: comparisons.CrossMatch,
    labels: tuple[str, str],
    reader: ComparisonReader,
    room: int,
) -> LostPair:
    first, second = labels
    orders = tuple(
        judged_order(first, second, reader.verdict(key), left_first=True)
        if shown_first == "first"
        else judged_order(second, first, reader.verdict(key), left_first=False)
        for key, shown_first in zip(match.verdicts, match.shown_first, strict=True)
    )
    verdicts = [(order, order.verdict) for order in orders if order.verdict]
    scores = [(v.a, v.b) if order.first == first else (v.b, v.a) for order, v in verdicts]
    outcome = {"first": f"{first} won", "second": f"{second} won", "tie": "a tie"}.get(match.winner or "")
    if match.forfeit:
        outcome = f"{first if match.forfeit == 'first' else second} failed, and so lost without being judged"
    return LostPair(
        title="Anchors, not in the win rate" if match.role == "anchor" else f"Pair {number}",
        match=match,
        outcome="both failed: a tie" if match.forfeit == "both" else outcome or "not judged: a verdict is missing",
        sides=(_side(query, match, 0, first, reader, room), _side(query, match, 1, second, reader, room)),
        marks=tuple(mark_rows(scores)),
        judged=tuple(order for order, _ in verdicts),
        orders=orders,
    )


def _side(
    query: comparisons.ComparedQuery,
    match: comparisons.CrossMatch,
    at: int,
    label: str,
    reader: ComparisonReader,
    room: int,
) -> PairedSide:
    index = (match.first, match.second)[at]
    rollout = next(r for r in query.rollouts[match.sides[at]] if r.index == index)
    answer, path = (
        clean(reader.blobs.get(blob)).strip() if blob else "" for blob in (rollout.answer_blob, rollout.path_blob)
    )
    return PairedSide(
        label=label,
        rollout=rollout,
        score=(match.score_first, match.score_second)[at],
        won=match.outcome == float(at),
        answer=cut_excerpt(ExcerptText("Answer", answer), max(room, _ANSWER)),
        path=cut_excerpt(ExcerptText("Path", path), room),
    )


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
    parts = (
        ("At equal length", "fitted to all pairs", result.length_controlled),
        ("Without failures", lost, result.without_forfeits),
        ("Anchors", "pairs at temperature 0", result.anchors),
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


_TASKS = {
    "agent": "the agents' instructions and tools, which are the same on all sides",
    "file": "a file's text (--task)",
    "nothing": "the query alone, because instructions are not shown (--hide-instructions)",
}
_QUERY_ALONE = "the query alone, because the sides' instructions or tools differ"
_DETAILED = 40
"""Lost queries of two sides that are shown with their transcripts."""
_LISTED = 1_000
"""Queries in the table of all."""


@dataclass(frozen=True)
class LossSection:
    """What a side lost to another one."""

    result: comparisons.SideResult
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

    first: comparisons.ComparedSide
    second: comparisons.ComparedSide
    lines: list[DiffLine] | None
    """None where they are too long to compare."""


def write_comparison_page(
    reader: ComparisonReader, comparison: comparisons.Comparison, target: Path | None = None
) -> Path:
    """Write the page (mode 0600), whole or not at all, by default as report.html of the comparison's folder.

    Raises CannotWrite, and ArchiveDamaged if a folder stands there, or a text of a transcript is missing.
    """
    target = target or reader.folder / "report.html"
    write_file(target, render_comparison_page(reader, comparison))
    return target


def render_comparison_page(reader: ComparisonReader, comparison: comparisons.Comparison) -> str:
    """Return the page: the same archive gives the same text, with the first 40 lost queries of two sides in full."""
    from harness.report.html.facts import page_template  # noqa: PLC0415 - only drawing a page loads jinja2

    info, queries = reader.info, list(reader.queries())
    task, differ = _TASKS[info.task_from], sum(query.task_differs for query in queries)
    if differ:
        on_some = f"on {counted(differ, 'query', 'queries')} {_QUERY_ALONE}; on the others {task}"
        task = _QUERY_ALONE if differ == len(queries) else on_some
    several = len(comparison.results) > 1
    labels = [side.label for side in comparison.sides]
    lost_sections: list[LossSection] = []
    for result in comparison.results:
        places = labels.index(result.sides[0]), labels.index(result.sides[1])
        met = met_queries(queries, places)
        lost = [query for query in met if query.outcome < 0.5]
        shown = lost_queries(lost[: max(1, _DETAILED // len(comparison.results))], places, result.sides, reader)
        lost_sections.append(LossSection(result, len(lost), shown, met))
    return page_template(
        "comparison_page.html.j2"
    ).render(
        info=info,
        comparison=comparison,
        forest=forest(comparison),
        figures=[
            (result, [figure for figure in result_figures(result) if several or not figure.is_rate])  # else plotted
            for result in comparison.results
        ],
        rows=sides_rows(comparison.figures),
        labels=[side.label for side in comparison.figures],
        instructions=[
            InstructionSection(first, second, instruction_diff(first.instructions, second.instructions))
            for first, second in pairwise(comparison.sides)
            if first.instructions is not None and second.instructions is not None
        ],
        losses=lost_sections,
        listed=_LISTED,
        about=[
            Fact("Comparison", info.id, date(info.created_at)),
            Fact("Judge", comparison.judge),
            Fact("Rubric", comparison.rubric),
            Fact("Task shown", task),
            Fact("Pairs", f"{counted(info.pairs, 'cross pair')} of samples a query, and the anchors"),
            Fact("Drawn again", f"clusters of equal {info.cluster}" if info.cluster else "queries"),
            *(Fact(f"Side {side.label}", side.run, f"run.json {side.sha256[:12]}") for side in comparison.sides),
            versions_fact(info.versions),
        ],
    )
