"""`harness why`: why one of two rollouts is above the other."""

from functools import partial
from pathlib import Path

from harness.archive.run_info import list_forks
from harness.cli.archived_run import find_query, open_run
from harness.cli.console import stdout
from harness.cli.new_files import check_writable, write_new
from harness.cli.output import Caller, print_json, say
from harness.core.errors import UsageError, command, quoted
from harness.report.summary.ranking import is_offline
from harness.report.summary.why import explain_pair, find_pair, judged_ranking
from harness.report.terminal.why import pair_lines
from harness.report.text import SELF_TEST, as_sentence

_LONGEST_NUMBER = 4
"""Digits: a RUN of so few is a rollout's number. The shortest prefix of a run's id that is of use is longer."""


def why(
    caller: Caller, run: str, a: str | None, b: str | None, query: str | None, ranking: str | None, html: Path | None
) -> None:
    """Print how two rollouts compare, and write their page."""
    check_writable(html)
    if run.isdecimal() and len(run) <= _LONGEST_NUMBER and b is None:  # RUN is left out
        run, a, b = "last", run, a
    for word in (word for word in (a, b) if word is not None):
        if not (word.isascii() and word.isdecimal() and len(word) <= _LONGEST_NUMBER):
            raise UsageError(f"{quoted(word)} is no rollout: their numbers count from 0, as `harness show` names them")
    numbers = [None if word is None else int(word) for word in (a, b)]
    reader = open_run(run, caller)
    chosen = judged_ranking(reader, ranking)
    pair = find_pair(reader, chosen, find_query(reader, query), *numbers)
    explanation = explain_pair(reader, chosen, pair)
    if not (explanation.matches or explanation.listwise):  # what would make the two meet
        from harness.cli.progress_bars import run_silently
        from harness.pipeline.rescoring import offer_match

        offer = partial(offer_match, reader, chosen, explanation, reader.typed_name)
        explanation = run_silently(offer, caller)
    if html:
        from harness.report.html.pair_page import pair_page

        write_new(html, pair_page(reader, chosen, pair, explanation), force=True)
        say(f"the page of these two: {html}", err=True)
    if caller.as_json:
        print_json(explanation.as_json())
    else:
        console = stdout()
        if is_offline(reader, chosen):
            console.print(as_sentence(SELF_TEST), style="bold yellow")
        say(f"run {reader.info.id}")
        console.print(pair_lines(explanation, console.width))
        if forks := list_forks(reader.info.id, reader.folder.parent):
            say("\nforks of this run tell more of its steps: " + ", ".join(command(f"credit {fork}") for fork in forks))
