"""A run with one of its rankings, for people or as JSON."""

import shlex
from collections.abc import Mapping
from typing import Any

from harness.archive.batch_log import with_provider
from harness.archive.rankings import RankingFile
from harness.archive.reader import RunReader
from harness.cli.console import stdout
from harness.cli.output import print_json
from harness.core.wording import command, counted
from harness.report.summary.notes import provisional_words
from harness.report.summary.ranking import RankingSummary, is_offline, summarize
from harness.report.summary.rankings import design_of
from harness.report.terminal.show import QueryTable, overview, parts_line


def print_run(
    reader: RunReader,
    ranking: RankingFile,
    *,
    as_json: bool,
    summary: RankingSummary | None = None,
    indent: int | None = 1,
    table: QueryTable | None = None,
    more: Mapping[str, Any] | None = None,
    stopped: str | None = None,
    report: bool = True,
) -> None:
    """Print a run with one of its rankings, in JSON with `more` fields.

    `summary` saves summarizing the ranking again, `table` lists queries, `stopped` says what ended the work early,
    and `report` whether the run's page is there, or is being written.
    """
    if as_json:
        from harness.report.json import run_json

        print_json(run_json(reader, ranking) | dict(more or {}), indent=indent)
        return
    console = stdout()
    if is_offline(reader, ranking):
        console.print(
            "SELF-TEST on the embedded offline parts: these ranks say nothing of any LLM.", style="bold yellow"
        )
    summary = summary or summarize(reader, ranking)
    console.print(overview(reader, ranking, summary, console.width, table))
    console.print(parts_line(reader.info, ranking, summary))
    if not ranking.finished:
        resume = command(f"resume {shlex.quote(reader.typed_name)}")
        queries = counted(len(reader.index.queries), "query", "queries")
        ranked = len(ranking.groups) - ranking.incomplete
        stopped = stopped or ("a batch has the judge's questions" if with_provider(reader.folder) else None)
        provisional = provisional_words(design_of(ranking, "estimator"), provisional=bool(ranking.provisional))
        console.print(
            f"this ranking has {ranked:,} of {queries} in full{provisional}: "
            f"{stopped or 'it was cut short, or is under way'}; `{resume}` does the rest"
        )
    elif summary.best is None and (others := [head.id for head in reader.heads() if head.id != ranking.head.id]):
        console.print(f"this ranking places nobody; an earlier one: --ranking {others[-1]}")
    console.print(f"run: {reader.folder}", soft_wrap=True)
    how = command(f"report {shlex.quote(str(reader.folder))}")
    page = reader.folder / "report.html" if report else f"not written; `{how}` writes it"
    console.print(f"page: {page}", soft_wrap=True)
