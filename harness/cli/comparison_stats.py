"""`stats` of a comparison: how far its judges can be believed."""

from typing import Any

from harness.archive.comparison_reader import ComparisonFile, ComparisonReader
from harness.cli.console import stdout
from harness.cli.output import print_json
from harness.core.errors import UsageError
from harness.core.wording import call, counted
from harness.report.json import quality_json
from harness.report.judge_quality import compared_qualities
from harness.report.terminal.judges import quality_lines
from harness.report.terminal.table import visible_text


def print_comparison_stats(reader: ComparisonReader, *, as_json: bool) -> None:
    """Print the figures of each judge, for people or as JSON. Raises UsageError before anything is compared."""
    newest = reader.newest()
    if newest is None:
        raise UsageError(
            f"comparison {reader.info.id} has compared no query yet; go on with {call('resume', reader.folder)}"
        )
    if as_json:
        print_json(_json(reader, newest))
    else:
        _print(reader, newest)


def _json(reader: ComparisonReader, newest: ComparisonFile) -> dict[str, Any]:
    return {
        "comparison": reader.info.id,
        "path": str(reader.folder),
        "finished": newest.finished,
        "offline": reader.info.offline,
        "rubric": reader.info.rubric,
        "queries": len(newest.queries),
        "judges": [quality_json(quality) for quality in compared_qualities(reader, newest)],
    }


def _print(reader: ComparisonReader, newest: ComparisonFile) -> None:
    console = stdout()
    console.print(
        visible_text(f"comparison {reader.info.id}: {counted(len(newest.queries), 'query', 'queries')} compared")
    )
    if reader.info.offline:
        console.print("SELF-TEST on the embedded offline parts: it says nothing of any LLM.", style="bold yellow")
    qualities = compared_qualities(reader, newest)
    if not qualities:
        console.print("  no verdict: there was nothing to judge")
    for quality in qualities:
        for line in quality_lines(quality, console.width):
            console.print(line)
        for warning in quality.warnings:
            console.print(visible_text(f"the judge: {warning}", style="bold"), soft_wrap=True)
