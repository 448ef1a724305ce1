"""`harness why`: why one of two rollouts is above the other."""

from __future__ import annotations

from pathlib import Path

from harness.archive.rankings import RankingFile
from harness.archive.reader import RunReader
from harness.cli.archived_run import find_query, open_run
from harness.cli.console import stdout
from harness.cli.new_files import check_writable, write_new
from harness.cli.output import Caller, print_json, say
from harness.core.errors import UsageError, quoted
from harness.report.summary.ranking import is_offline
from harness.report.summary.why import explain_pair, find_pair, judged_ranking
from harness.report.summary.why_records import PairExplanation
from harness.report.terminal.why import pair_lines

_LONGEST_NUMBER = 4
"""Digits: a RUN of so few is a rollout's number. The shortest prefix of a run's id that is of use is longer."""


def why(
    caller: Caller, run: str, a: str | None, b: str | None, query: str | None, ranking: str | None, html: Path | None
) -> None:
    """Print how two rollouts compare, and write their page."""
    check_writable(html)
    run, numbers = _run_and_numbers(run, a, b)
    reader = open_run(run, caller)
    chosen = judged_ranking(reader, ranking)
    pair = find_pair(reader, chosen, find_query(reader, query), *numbers)
    explanation = _with_meeting(reader, chosen, explain_pair(reader, chosen, pair), caller)
    if html:
        from harness.report.html.pair_page import pair_page

        write_new(html, pair_page(reader, chosen, pair, explanation), force=True)
        say(f"the page of these two: {html}", err=True)
    if caller.as_json:
        print_json(explanation.as_json())
    else:
        console = stdout()
        if is_offline(reader, chosen):
            console.print("SELF-TEST on the embedded offline parts: it says nothing of any LLM.", style="bold yellow")
        console.print(pair_lines(explanation, console.width))


def _run_and_numbers(run: str, *words: str | None) -> tuple[str, list[int | None]]:
    """Return which run and which rollouts are meant: where RUN is left out, the first word is a rollout's number."""
    first, second = words
    if run.isdecimal() and len(run) <= _LONGEST_NUMBER and second is None:
        run, first, second = "last", run, first
    return run, [None if word is None else _number(word) for word in (first, second)]


def _number(word: str) -> int:
    if not (word.isascii() and word.isdecimal() and len(word) <= _LONGEST_NUMBER):
        raise UsageError(f"{quoted(word)} is no rollout: their numbers count from 0, as `harness show` names them")
    return int(word)


def _with_meeting(
    reader: RunReader, ranking: RankingFile, explanation: PairExplanation, caller: Caller
) -> PairExplanation:
    """Add what would make the two meet; where they have met, nothing of the pipeline is loaded for that."""
    if explanation.matches or explanation.listwise:
        return explanation
    from harness.cli.process import run_silently
    from harness.pipeline.rescoring import offer_match

    return run_silently(lambda run_env: offer_match(reader, ranking, explanation, reader.typed_name, run_env), caller)
