"""`harness why`: why one of two rollouts is above the other."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli import completion, options
from harness.core.errors import UsageError, quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.archive.rankings import RankingFile
    from harness.archive.reader import RunReader
    from harness.report.summary.why_records import PairExplanation

_LONGEST_NUMBER = 4
"""Digits: a RUN of so few is a rollout's number. The shortest prefix of a run's id that is of use is longer."""


@click.command()
@options.run_argument
@click.argument("a", required=False, metavar="[A]", help="A rollout's number, from 0. [default: the first place]")
@click.argument("b", required=False, metavar="[B]", help="Another one's. [default: the best beside A]")
@click.option(
    "--query", metavar="ID", shell_complete=completion.query_ids, help="The query's id, where the run has several."
)
@click.option("--ranking", metavar="ID", help="A ranking's id. [default: the newest]")
@click.option(
    "--html", type=options.FILE, metavar="FILE", help="Write the page of these two, with both paths, to send round."
)
@options.setting_option("runs_dir")
@options.json_option
@options.wide_option
@click.pass_obj
def why(
    environ: Mapping[str, str],
    run: str,
    a: str | None,
    b: str | None,
    query: str | None,
    ranking: str | None,
    html: Path | None,
    runs_dir: Path | None,
    *,
    as_json: bool,
) -> None:
    """Say why rollout A is above rollout B, or B above A, and how sure that is.

    How they stand, the matches in which they met, the marks that decided, where their paths part, and what the judge
    said. If they never met: whom both met, and the command that makes them meet. `harness why 3 5` is about the last
    run.
    """
    from harness.cli.archived_run import find_query, open_run
    from harness.cli.console import stdout
    from harness.cli.new_files import check_writable, write_new
    from harness.cli.output import print_json, say
    from harness.report.summary.ranking import is_offline
    from harness.report.summary.why import explain_pair, find_pair, judged_ranking
    from harness.report.terminal.why import pair_lines

    check_writable(html)
    run, numbers = _run_and_numbers(run, a, b)
    reader = open_run(run, runs_dir, environ)
    chosen = judged_ranking(reader, ranking)
    pair = find_pair(reader, chosen, find_query(reader, query), *numbers)
    explanation = _with_meeting(reader, chosen, explain_pair(reader, chosen, pair), environ)
    if html:
        from harness.report.html.pair_page import pair_page

        write_new(html, pair_page(reader, chosen, pair, explanation), force=True)
        say(f"the page of these two: {html}", err=True)
    if as_json:
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
    reader: RunReader, ranking: RankingFile, explanation: PairExplanation, environ: Mapping[str, str]
) -> PairExplanation:
    """Add what would make the two meet; where they have met, nothing of the pipeline is loaded for that."""
    if explanation.matches or explanation.listwise:
        return explanation
    from harness.cli import process
    from harness.cli.console import stderr
    from harness.cli.progress_bars import ProgressBars
    from harness.pipeline.rescoring import offer_match
    from harness.pipeline.run_environment import RunEnvironment

    with ProgressBars(stderr(quiet=True), quiet=True) as bars:
        around = RunEnvironment(environ)
        work = partial(offer_match, reader, ranking, explanation, reader.typed_name, around)
        return process.run_interruptible(work, bars)
