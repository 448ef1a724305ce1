"""The end of `compare`: the page is written, the comparison printed, the exit code chosen."""

import shlex
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from rich.console import Console

from harness.archive.comparison_reader import ComparisonReader
from harness.cli import process
from harness.cli.compared_sides import AskedSides
from harness.cli.comparison_files import ComparisonFiles
from harness.cli.console import stdout
from harness.cli.output import print_json, say
from harness.cli.progress_bars import ProgressBars
from harness.core.comparisons import Comparison
from harness.core.errors import ExitCode
from harness.core.wording import command, counted
from harness.pipeline.comparing.compare import ComparisonResult
from harness.pipeline.comparing.new_sides import compare_sides
from harness.pipeline.comparing.outcome import comparison_of
from harness.pipeline.cut_short import what_is_kept
from harness.pipeline.run_environment import RunEnvironment
from harness.report.html.comparison_page import write_comparison_page
from harness.report.terminal.comparison import comparison_lines


def compare_asked(asked: AskedSides, environ: Mapping[str, str], console: Console, *, quiet: bool) -> ComparisonResult:
    """Roll out what is to be rolled out, and compare; Ctrl-C lets what is under way end. Raises Interrupted."""
    with ProgressBars(console, quiet=quiet) as bars, process.little_garbage():
        around = RunEnvironment(environ, progress=bars)
        work = partial(compare_sides, asked.sides, asked.queries, around, asked.options, Path.cwd())
        return process.run_interruptible(work, bars, around.stop, asked.settings.grace)


def deliver_comparison(
    result: ComparisonResult, files: ComparisonFiles | None = None, *, max_failures: int, as_json: bool, quiet: bool
) -> ExitCode:
    """Write the page and the files, print the comparison, say on stderr what was bought, and return the exit code."""
    with ComparisonReader(result.path) as reader:
        if reader.newest() is None:
            return _nothing_compared(result)
        comparison = comparison_of(reader)
        write_comparison_page(reader, comparison)
        if files:
            files.write(reader, comparison)
        print_comparison(reader, comparison, as_json=as_json)
    if not quiet and not result.was_complete:  # the quote has said so
        say(tally_line(result), err=True)
    return _end(result, comparison, max_failures)


def tally_line(result: ComparisonResult) -> str:
    """Return how many verdicts were there, how many were bought now, and how many calls failed."""
    failed = f", {result.failed:,} failed" if result.failed else ""
    return f"reused {result.reused:,}, bought {result.bought:,}{failed}"


def print_comparison(reader: ComparisonReader, comparison: Comparison, *, as_json: bool) -> None:
    """Print a comparison, for people or as JSON."""
    if as_json:
        print_json(comparison.model_dump(mode="json"))
        return
    console = stdout()
    for line in comparison_lines(comparison, reader.queries(), console.width):
        console.print(line)
    console.print(f"comparison: {reader.folder}", soft_wrap=True)
    console.print(f"page: {reader.folder / 'report.html'}", soft_wrap=True)


def deliver_incomplete(result: ComparisonResult) -> ExitCode | None:
    """Say why a comparison was stopped, and return the exit code; None for one that was brought to its end."""
    if not (result.stopped or result.given_up or result.out_of_quota):
        return None
    say(f"stopped: {_why(result)}. {what_is_kept(result.path)}", err=True)
    return ExitCode.FAILURES if result.given_up else ExitCode.BUDGET


def _nothing_compared(result: ComparisonResult) -> ExitCode:
    say(f"stopped before the first query was compared: {_why(result)}. {what_is_kept(result.path)}", err=True)
    return ExitCode.BUDGET if result.stopped else ExitCode.FAILURES


def _end(result: ComparisonResult, comparison: Comparison, max_failures: int) -> ExitCode:
    if result.stopped or result.given_up:
        say(f"stopped: {_why(result)}. {what_is_kept(result.path)}", err=True)
    if result.stopped or result.out_of_quota:
        return ExitCode.BUDGET
    if not any(pair.queries or pair.unjudged for pair in comparison.results):
        say(_NO_PAIR, err=True)
        return ExitCode.NOTHING_RANKABLE
    if result.given_up:
        return ExitCode.FAILURES
    unjudged = sum(pair.unjudged for pair in comparison.results)
    left_out = sum(side.left_out for side in comparison.figures)
    failures = unjudged + left_out + (1 if comparison.status == "incomplete" and not unjudged else 0)
    if unjudged:
        pairs, them = counted(unjudged, "pair was", "pairs were"), "it" if unjudged == 1 else "them"
        again = command(f"resume {shlex.quote(str(result.path))}")
        say(f"{pairs} not judged; `{again}` asks for {them} again", err=True)
    return ExitCode.FAILURES if failures > max_failures else ExitCode.DONE


_NO_PAIR = (
    "nothing to compare: on no query have both sides a sample that ended well or failed by the agent's own making "
    "(rollout 0 is the anchor; runs of -n 1 have no sample)"
)


def _why(result: ComparisonResult) -> str:
    return result.stopped or result.given_up or "the work was interrupted"
