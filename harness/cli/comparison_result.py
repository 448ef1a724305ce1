"""The end of `compare`: the page is written, the comparison printed, the exit code chosen."""

import shlex

from harness.archive.comparison_reader import ComparisonReader
from harness.cli.console import print_lines, stdout
from harness.cli.look_options import ComparisonFiles
from harness.cli.new_files import write_new
from harness.cli.options import Caller
from harness.cli.output import print_json, say
from harness.core.comparisons import Comparison
from harness.core.errors import ExitCode
from harness.core.plurals import counted
from harness.core.wording import command
from harness.pipeline.comparing.compare import ComparisonResult
from harness.pipeline.comparing.outcome import comparison_of
from harness.pipeline.cut_short import what_is_kept
from harness.report.comparison_csv import matches_csv
from harness.report.html.comparison.page import write_comparison_page
from harness.report.markdown import comparison_markdown
from harness.report.terminal.comparison import comparison_lines

_NO_PAIR = (
    "nothing to compare: on no query have both sides a sample that ended well or failed by the agent's own making "
    "(rollout 0 is the anchor; runs of -n 1 have no sample)"
)


def deliver_comparison(
    result: ComparisonResult, caller: Caller, files: ComparisonFiles | None = None, *, max_failures: int
) -> ExitCode:
    """Write the page and the files, print the comparison, say on stderr what was bought, and return the exit code."""
    with ComparisonReader(result.path) as reader:
        if reader.newest() is None:
            return _nothing_compared(result)
        comparison = comparison_of(reader)
        write_comparison_page(reader, comparison)
        if files:
            write_files(files, reader, comparison)
        print_comparison(reader, comparison, caller)
    if not caller.quiet and not result.was_complete:  # the quote has said so
        say(tally_line(result), err=True)
    return _end(result, comparison, max_failures)


def write_files(files: ComparisonFiles, reader: ComparisonReader, comparison: Comparison) -> None:
    """Write the files that a user asked for, over what is there. Raises CannotWrite."""
    if files.markdown:
        write_new(files.markdown, comparison_markdown(comparison, reader.queries()), force=True)
    if files.csv:
        write_new(files.csv, "".join(matches_csv(comparison, reader.queries())), force=True)


def tally_line(result: ComparisonResult) -> str:
    """Return how many verdicts were there, how many were bought now, and how many calls failed."""
    failed = f", {result.failed:,} failed" if result.failed else ""
    return f"reused {result.reused:,}, bought {result.bought:,}{failed}"


def print_comparison(reader: ComparisonReader, comparison: Comparison, caller: Caller) -> None:
    """Print a comparison, for people or as JSON."""
    if caller.as_json:
        print_json(comparison.model_dump(mode="json"))
        return
    print_lines(lambda width: comparison_lines(comparison, reader.queries(), width))
    console = stdout()
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


def _why(result: ComparisonResult) -> str:
    return result.stopped or result.given_up or "the work was interrupted"
