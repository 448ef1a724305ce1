"""`resume` of a comparison: the rollouts of its new sides, then what is missing of the judging."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from harness.archive.comparison_reader import ComparisonInfo, ComparisonReader
from harness.cli import process
from harness.cli.comparison_result import deliver_comparison, print_comparison
from harness.cli.console import stderr
from harness.cli.output import say
from harness.cli.progress_bars import ProgressBars
from harness.cli.resume import NamedNow
from harness.core.errors import ExitCode, UsageError
from harness.core.settings import ADDRESSES
from harness.pipeline.comparing.outcome import comparison_of
from harness.pipeline.comparing.resuming import describe_resuming, resume_comparison
from harness.pipeline.plan import NamedAddresses
from harness.pipeline.run_environment import RunEnvironment
from harness.rollouts.loading import LoadedAgent, load_agent


def resume_compared(
    reader: ComparisonReader,
    environ: Mapping[str, str],
    named: NamedNow,
    *,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> ExitCode:
    """Do what is missing of a comparison, and print it. Raises UsageError, Refused, Interrupted."""
    process.silence_logs(verbose=verbose)
    console, settings = stderr(quiet=quiet), reader.settings
    missing = describe_resuming(reader, named.runs_dir)
    if missing is None:
        return _already_finished(reader, as_json=as_json)
    console.print(f"resuming {reader.info.id}: {missing}", soft_wrap=True)
    with ProgressBars(console, quiet=quiet) as bars:
        around = RunEnvironment(environ, progress=bars)
        work = partial(
            resume_comparison,
            reader.folder,
            around,
            here=Path.cwd(),
            runs_dir=named.runs_dir,
            agents=_agents(reader.info, named.agent),
            changes={name: value for name, value in named.flags.items() if name not in ADDRESSES},
            named=NamedAddresses(**{name: named.flags.get(name) for name in ADDRESSES}),
            rubric_word=named.rubric,
            trust_archive=named.trust_archive,
        )
        result = process.run_interruptible(work, bars, around.stop, settings.grace)
    if result is None:  # another process has just finished the comparison
        return _already_finished(reader, as_json=as_json)
    return deliver_comparison(result, max_failures=settings.max_failures, as_json=as_json, quiet=quiet)


def _already_finished(reader: ComparisonReader, *, as_json: bool) -> ExitCode:
    say(f"nothing to do: comparison {reader.info.id} is finished", err=as_json)
    if as_json:
        print_comparison(reader, comparison_of(reader), as_json=True)
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
