"""A run's page, its index of many queries and a page for each of them, drawn from its archive and one ranking."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.archive.page_folder import opened_pages, page_name, pages_folder, remove_pages
from harness.archive.reader import RunReader
from harness.archive.result_files import RankingFile
from harness.archive.run_files import write_file
from harness.core.errors import counted
from harness.core.records import digest
from harness.report.html.facts import page_template, query_page_facts, run_facts, sources_digest, summary_facts
from harness.report.html.filtered_index import Filter, RowMetadata, index_filters, row_metadata, script_hash
from harness.report.html.query_section import SectionMaker
from harness.report.judge_quality import judge_qualities
from harness.report.summary.course import CoursePoint, training_course
from harness.report.summary.group import QueryLine
from harness.report.summary.ranking import RankingSummary, is_offline, ranked_queries, summarize, winners_sentence
from harness.report.summary.rankings import earlier_rounds
from harness.report.text import fixed

_OF_ONE_RANKING = {"judged", "reused", "judge_usage", "judge_usd", "judge_usd_at_least", "saved_calls"}
"""What a ranking says of a group that no page shows: it differs between rankings that are otherwise the same."""


def _write_query_pages(
    reader: RunReader,
    ranking: RankingFile,
    summary: RankingSummary,
    target: Path,
    *,
    anew: bool,
    on_page: Callable[[int, int], None] | None,
) -> None:
    head, shared = ranking.head, {"offline": is_offline(reader, ranking), "index": target.name}
    about = query_page_facts(reader, ranking)
    most = max((line.runs for line in summary.lines), default=0)
    common = [sources_digest(), shared, [[f.label, f.value, f.note] for f in about], most]
    common_digest = digest([*common, reader.info_sha256, head.judge, head.rendering])
    failed = (group for group in ranking.groups if group.failed_verdicts) if summary.failed_verdicts else ()
    maker = SectionMaker(reader, ranking, failed, most)
    names = [None, *(page_name(line.id) for line in summary.lines), None]
    with opened_pages(pages_folder(target), remember=not anew) as pages:
        for at, (query, ranked) in enumerate(ranked_queries(reader, ranking, owed=True), 1):
            around = {"before": names[at - 1], "after": names[at + 1]}
            of_rollouts = sorted(reader.index.rollouts.get(query.id, {}).items())
            places = [reader.index.queries[query.id], *(rollout.place for _, rollout in of_rollouts)]
            stand = [[place.path.name, place.offset] for place in places]
            shown = ranked.model_dump(mode="json", exclude=_OF_ONE_RANKING)
            made_of = digest([common_digest, stand, shown, around, maker.name_failures(ranked)])
            name = page_name(query.id)
            if not pages.keeps(name, made_of):
                section = maker.section(1, query, ranked)
                template = page_template("query_page.html.j2")
                text = template.render(info=reader.info, g=section, about=about, **around, **shared)
                pages.write(name, made_of, text)
            if on_page:
                on_page(at, len(summary.lines))


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
    metadata: RowMetadata


def index_rows(lines: Sequence[QueryLine], filters: Sequence[Filter]) -> list[IndexRow]:
    """Return a row for each line; scores of one kind are drawn on one scale."""
    scores: dict[str, list[float]] = {}
    for line in lines:
        scores.setdefault(line.score_name, []).extend(line.scores)
    scales = {name: (min(every), max(every)) for name, every in scores.items() if every}
    return [
        IndexRow(
            line=line,
            page=page_name(line.id),
            spread=_spread(line, *scales[line.score_name]) if line.scores else None,
            metadata=row_metadata(line.metadata, filters),
        )
        for line in lines
    ]


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


_INDEX_ABOVE = 3
"""Queries above which each has a page of its own."""


def write_page(
    reader: RunReader,
    ranking: RankingFile,
    target: Path,
    summary: RankingSummary | None = None,
    *,
    anew: bool = False,
    on_page: Callable[[int, int], None] | None = None,
) -> None:
    """Write the page of `ranking` to `target` (mode 0600), whole or not at all; `summary` saves summing up again.

    Above 3 queries the page is an index, and a folder beside it, named for it (`report/`), holds a page a query. Of
    these only those are drawn of which anything changed; `anew` draws all, and leaves those alone that are as drawn.
    `on_page` is told how many are done, and of how many. Raises CannotWrite; ArchiveDamaged if something else than a
    file stands at the page's place, or than a plain folder at the folder's.
    """
    summary = _whole(reader, ranking, summary)
    if len(summary.lines) > _INDEX_ABOVE:
        _write_query_pages(reader, ranking, summary, target, anew=anew, on_page=on_page)
    else:
        remove_pages(pages_folder(target))
    write_file(target, render_page(reader, ranking, summary, pages_folder(target).name))


def render_page(
    reader: RunReader, ranking: RankingFile, summary: RankingSummary | None = None, folder: str = "report"
) -> str:
    """Return the page: the same archive gives the same text. Above 3 queries it is an index with links to `folder`."""
    summary = _whole(reader, ranking, summary)
    whole: dict[str, Any] = {
        "info": reader.info,
        "offline": is_offline(reader, ranking),
        "finished": ranking.finished,
        "about": run_facts(reader, ranking, summary),
        "figures": summary_facts(summary, earlier_rounds(reader, ranking)),
        "rollouts": summary.agents.runs,
        "judges": judge_qualities(reader, ranking, summary),
    }
    if len(summary.lines) > _INDEX_ABOVE:
        filters = index_filters([line.metadata for line in summary.lines])
        rows = index_rows(summary.lines, filters)
        index, course = page_template("index_page.html.j2"), training_course(reader, ranking)
        return index.render(
            **whole,
            headline=winners_sentence(summary.lines),
            filters=filters,
            rows=rows,
            folder=folder,
            script_hash=script_hash(),
            course=course,
            course_line=_course_line(course),
        )
    queries = list(ranked_queries(reader, ranking, owed=True))
    runs = sum(len(reader.index.rollouts.get(query.id, ())) for query, _ in queries)
    maker = SectionMaker(reader, ranking, [ranked for _, ranked in queries], runs, with_credit=True)
    groups = [maker.section(number, query, ranked) for number, (query, ranked) in enumerate(queries, 1)]
    return page_template("run_page.html.j2").render(**whole, groups=groups, queries=summary.lines)


def _course_line(course: Sequence[CoursePoint]) -> str:
    """Return the points of the line of mean marks, in a drawing of 640 x 120; marks go from 0 to 10."""
    last, most = max(1, len(course) - 1), max(10.0, *(point.mark for point in course), 0.0)
    return " ".join(f"{10 + 620 * at / last:.1f},{110 - 100 * p.mark / most:.1f}" for at, p in enumerate(course))


def _whole(reader: RunReader, ranking: RankingFile, summary: RankingSummary | None) -> RankingSummary:
    """Return a summary that has the queries, too, which an unfinished ranking has not come to."""
    if summary is None or (not ranking.finished and len(summary.lines) < len(reader.index.queries)):
        return summarize(reader, ranking, owed=True)
    return summary
