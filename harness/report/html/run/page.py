"""A run's page, drawn from its archive and one ranking alone, and written to a file."""

from pathlib import Path

from harness.archive import RankingFile, RunReader, write_file
from harness.report.html.facts import run_facts, summary_facts
from harness.report.html.query.section import QuerySection, SectionMaker
from harness.report.judge_quality import judge_qualities
from harness.report.summary.ranking import RankingSummary, is_offline, ranked_queries, summarize

_SUMMARY_ABOVE = 3
_DETAILED = 50


def write_page(reader: RunReader, ranking: RankingFile, target: Path, summary: RankingSummary | None = None) -> None:
    """Write the page of `ranking` to `target` (mode 0600), whole or not at all; `summary` saves summing up again.

    Raises CannotWrite, ArchiveDamaged if a folder stands there.
    """
    write_file(target, render_page(reader, ranking, summary))


def render_page(reader: RunReader, ranking: RankingFile, summary: RankingSummary | None = None) -> str:
    """Return the page of `ranking`: the same archive gives the same text.

    Above 3 queries the page opens with a summary. Only the first 50 queries are shown in full, and the page says so.
    """
    from harness.report.html.templates import page_template  # noqa: PLC0415 - `show`, `ls` and `stats` draw no page

    if summary is None or not ranking.finished:
        summary = summarize(reader, ranking, owed=True)
    return page_template("run/page.html.j2").render(
        info=reader.info,
        offline=is_offline(reader, ranking),
        finished=ranking.finished,
        about=run_facts(reader, ranking, summary),
        groups=_sections(reader, ranking),
        queries=summary.lines,
        figures=summary_facts(summary),
        summary=len(summary.lines) > _SUMMARY_ABOVE,
        rollouts=summary.agents.runs,
        judges=judge_qualities(reader, ranking, summary),
    )


def _sections(reader: RunReader, ranking: RankingFile) -> list[QuerySection]:
    queries = list(ranked_queries(reader, ranking, owed=True))[:_DETAILED]
    runs = sum(len(reader.index.rollouts.get(query.id, ())) for query, _ in queries)
    maker = SectionMaker(reader, ranking, [ranked for _, ranked in queries], runs)
    return [maker.section(number, query, ranked) for number, (query, ranked) in enumerate(queries, 1)]
