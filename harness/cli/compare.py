"""The work of `compare`, and of `resume` on a comparison."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from harness.archive.comparison_reader import ComparisonReader
from harness.archive.comparison_records import ComparisonInfo
from harness.cli.announce import announce_comparison, print_comparison_quote
from harness.cli.compared_sides import FoundSides, find_sides
from harness.cli.comparison_result import deliver_comparison, print_comparison
from harness.cli.console import stderr
from harness.cli.look_options import ComparisonFiles
from harness.cli.new_files import check_writable
from harness.cli.options import Caller
from harness.cli.output import say
from harness.cli.process import run_silently, run_under_bars, silence_logs
from harness.core.errors import ExitCode, UsageError
from harness.core.settings import ADDRESSES
from harness.pipeline.comparing.compare import ComparisonResult
from harness.pipeline.comparing.new_sides import compare_sides, quote_sides
from harness.pipeline.comparing.outcome import comparison_of
from harness.pipeline.comparing.quote import ComparisonQuote
from harness.pipeline.comparing.resuming import describe_resuming, resume_comparison
from harness.pipeline.comparing.roll_out_quote import RollOutQuote
from harness.pipeline.plan import NamedAddresses
from harness.rollouts.loading import LoadedAgent, load_agent

__all__ = ["ResumedComparison", "compare_found", "find_sides", "resume_compared"]


def compare_found(caller: Caller, found: FoundSides, files: ComparisonFiles, *, dry_run: bool) -> ExitCode:
    """Compare sides and print the comparison; return the exit code. Raises UsageError, Refused, Interrupted."""
    quote = quote_found(caller, found)
    if dry_run:
        print_comparison_quote(quote, as_json=caller.as_json)
        return ExitCode.DONE
    check_writable(files.markdown, files.csv)
    announce_comparison(stderr(quiet=caller.quiet), quote)
    return deliver_comparison(play_found(caller, found), caller, files, max_failures=found.settings.max_failures)


def quote_found(caller: Caller, found: FoundSides) -> ComparisonQuote | RollOutQuote:
    """Return what a comparison would reuse, run and buy. Raises UsageError for what cannot be compared."""
    return run_silently(lambda run_env: quote_sides(found.sides, found.queries, run_env, found.options), caller)


def play_found(caller: Caller, found: FoundSides) -> ComparisonResult:
    """Roll out what is to be rolled out, and compare; Ctrl-C lets what is under way end. Raises Interrupted."""
    return run_under_bars(
        lambda run_env: compare_sides(found.sides, found.queries, run_env, found.options, Path.cwd()),
        caller,
        stderr(quiet=caller.quiet),
        grace_s=found.settings.grace,
        rolls_out=True,
    )


@dataclass(frozen=True)
class ResumedComparison:
    """A comparison that goes on, and what today's user says of it."""

    reader: ComparisonReader
    runs_dir: Path
    """Where its runs are looked for."""
    flags: Mapping[str, Any]
    """Addresses and money."""
    agent: str | None
    rubric: str | None
    trust_archive: bool


def resume_compared(caller: Caller, resumed: ResumedComparison) -> ExitCode:
    """Do what is missing of a comparison, and print it. Raises UsageError, Refused, Interrupted."""
    silence_logs(verbose=caller.verbose)
    reader, flags = resumed.reader, resumed.flags
    console, settings = stderr(quiet=caller.quiet), reader.settings
    missing = describe_resuming(reader, resumed.runs_dir)
    if missing is None:
        return _say_finished(reader, caller)
    console.print(f"resuming {reader.info.id}: {missing}", soft_wrap=True)
    work = partial(
        resume_comparison,
        reader.folder,
        here=Path.cwd(),
        runs_dir=resumed.runs_dir,
        agents=_agents(reader.info, resumed.agent),
        changes={name: value for name, value in flags.items() if name not in ADDRESSES},
        named=NamedAddresses(**{name: flags.get(name) for name in ADDRESSES}),
        rubric_word=resumed.rubric,
        trust_archive=resumed.trust_archive,
    )
    result = run_under_bars(work, caller, console, grace_s=settings.grace)
    if result is None:  # another process has just finished the comparison
        return _say_finished(reader, caller)
    return deliver_comparison(result, caller, max_failures=settings.max_failures)


def _say_finished(reader: ComparisonReader, caller: Caller) -> ExitCode:
    say(f"nothing to do: comparison {reader.info.id} is finished", err=caller.as_json)
    if caller.as_json:
        print_comparison(reader, comparison_of(reader), caller)
    return ExitCode.DONE


def _agents(info: ComparisonInfo, agent: str | None) -> Mapping[str, LoadedAgent] | None:
    """Return the agent that the user names for the sides that are rolled out; None where the runs tell theirs."""
    if agent is None:
        return None
    to_run = [side for side in info.sides if side.to_run]
    if len({side.agent for side in to_run}) > 1:
        runs = " and ".join(side.run for side in to_run)
        raise UsageError(f"--agent {agent} names one agent, and the sides have several: resume first {runs}")
    return {side.run: load_agent(agent, Path.cwd()) for side in to_run}
