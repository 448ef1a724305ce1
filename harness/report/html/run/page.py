"""A run's page, drawn from its archive and one ranking alone, and written to a file."""

from collections.abc import Callable
from pathlib import Path

from harness.archive.page_folder import remove_pages
from harness.archive.rankings import RankingFile
from harness.archive.reader import RunReader
from harness.archive.run_files import write_file
from harness.report.html.facts import run_facts, summary_facts
from harness.report.html.index.pages import pages_folder, write_query_pages
from harness.report.html.index.render import render_index
from harness.report.html.query.section import QuerySection, SectionMaker
from harness.report.judge_quality import judge_qualities
from harness.report.summary.batch_rounds import earlier_rounds
from harness.report.summary.ranking import RankingSummary, is_offline, ranked_queries, summarize

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
    `on_page` is told how many of these are done, and of how many.

    Raises CannotWrite; ArchiveDamaged if a folder stands at the page's place, or no plain folder at the folder's.
    """
    summary = _whole(reader, ranking, summary)
    if len(summary.lines) > _INDEX_ABOVE:
        write_query_pages(reader, ranking, summary, target, anew=anew, on_page=on_page)
    else:
        remove_pages(pages_folder(target))
    write_file(target, render_page(reader, ranking, summary, pages_folder(target).name))


def render_page(
    reader: RunReader, ranking: RankingFile, summary: RankingSummary | None = None, folder: str = "report"
) -> str:
    """Return the page of `ranking`: the same archive gives the same text. Above 3 queries it is an index.

    An index links to the queries' pages in `folder`.
    """
    from harness.report.html.templates import page_template  # noqa: PLC0415 - `show`, `ls` and `stats` draw no page

    summary = _whole(reader, ranking, summary)
    if len(summary.lines) > _INDEX_ABOVE:
        return render_index(reader, ranking, summary, folder)
    return page_template("run/page.html.j2").render(
        info=reader.info,
        offline=is_offline(reader, ranking),
        finished=ranking.finished,
        about=run_facts(reader, ranking, summary),
        groups=_sections(reader, ranking),
        queries=summary.lines,
        figures=summary_facts(summary, earlier_rounds(reader, ranking)),
        rollouts=summary.agents.runs,
        judges=judge_qualities(reader, ranking, summary),
    )


def _whole(reader: RunReader, ranking: RankingFile, summary: RankingSummary | None) -> RankingSummary:
    """Return a summary that has the queries, too, which an unfinished ranking has not come to."""
    if summary is None or (not ranking.finished and len(summary.lines) < len(reader.index.queries)):
        return summarize(reader, ranking, owed=True)
    return summary


def _sections(reader: RunReader, ranking: RankingFile) -> list[QuerySection]:
    queries = list(ranked_queries(reader, ranking, owed=True))
    runs = sum(len(reader.index.rollouts.get(query.id, ())) for query, _ in queries)
    maker = SectionMaker(reader, ranking, [ranked for _, ranked in queries], runs)
    return [maker.section(number, query, ranked) for number, (query, ranked) in enumerate(queries, 1)]
