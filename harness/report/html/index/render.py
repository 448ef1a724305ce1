"""The index of a run of many queries, drawn."""

import hashlib
from base64 import b64encode

from harness.archive.rankings import RankingFile
from harness.archive.reader import RunReader
from harness.report.html.facts import run_facts, summary_facts
from harness.report.html.index.rows import index_filters, index_rows
from harness.report.judge_quality import judge_qualities
from harness.report.summary.batch_rounds import earlier_rounds
from harness.report.summary.ranking import RankingSummary, is_offline


def render_index(reader: RunReader, ranking: RankingFile, summary: RankingSummary, folder: str) -> str:
    """Return the index, with links into `folder`. Its policy admits one script, by its hash."""
    from harness.report.html.templates import page_template  # noqa: PLC0415 - `show`, `ls` and `stats` draw no page

    script = page_template("index/controls.js").render()
    filters = index_filters(summary.lines)
    return page_template("index/page.html.j2").render(
        info=reader.info,
        offline=is_offline(reader, ranking),
        finished=ranking.finished,
        about=run_facts(reader, ranking, summary),
        figures=summary_facts(summary, earlier_rounds(reader, ranking)),
        filters=filters,
        rows=index_rows(summary.lines, filters),
        rollouts=summary.agents.runs,
        judges=judge_qualities(reader, ranking, summary),
        folder=folder,
        script_hash=b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )
