"""`harness resume`: do what is missing of a run."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from harness.cli import completion, options
from harness.core.errors import ArchiveDamaged, ExitCode, HarnessError, on_a_line
from harness.core.settings import ADDRESSES
from harness.core.wording import command, option

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from rich.console import Console

    from harness.archive.reader import RunReader
    from harness.archive.run_state import MissingWork
    from harness.pipeline.run_environment import RunEnvironment
    from harness.pipeline.runs import RunResult
    from harness.rollouts.loading import LoadedAgent


@dataclass(frozen=True)
class NamedNow:
    """What today's user says of a comparison that goes on."""

    runs_dir: Path
    """Where its runs are looked for."""
    flags: Mapping[str, Any]
    """Addresses and money."""
    agent: str | None
    rubric: str | None
    trust_archive: bool


@click.command()
@click.argument(
    "run",
    metavar="[RUN]",
    required=False,
    shell_complete=completion.run_ids,
    help="As for the other commands. [default: the last unfinished]",
)
@click.option(
    "--agent",
    "-a",
    shell_complete=completion.agent_names,
    help="Where the run's agent is now. [default: where it was]",
)
@click.option("--retry-failed", is_flag=True, help="Run failed rollouts again, too.")
@click.option(
    "--accept-changed-agent", is_flag=True, help="Go on although the agent has changed; the archive notes the change."
)
@options.setting_option("rubric", default="the text that the run holds")
@options.setting_options("base_url", "judge_base_url", default="the run's own, and no other")
@options.trust_option
@options.setting_options(
    *("max_cost", "prices", "price_by_name", "concurrency", "judge_concurrency", "max_unjudged"),
    default="the run's own",
)
@options.setting_options("engine", "ray_address")
@options.setting_options("instructions", default="the text that the run holds")
@options.setting_options("approve", default="the run's own, then the agent file's approve()")
@options.setting_option("runs_dir")
@options.wait_option
@options.json_option
@options.wide_option
@options.quiet_option
@options.report_option
@options.verbose_option
@click.pass_obj
def resume(
    environ: Mapping[str, str],
    run: str | None,
    agent: str | None,
    rubric: str | None,
    flags: Mapping[str, Any],
    runs_dir: Path | None,
    *,
    retry_failed: bool,
    accept_changed_agent: bool,
    trust_archive: bool,
    wait: bool,
    as_json: bool,
    quiet: bool,
    report: bool,
    verbose: bool,
) -> ExitCode:
    """Do what is missing of a run that was stopped: rollouts, verdicts, the ranking; or of a comparison.

    What is there is kept. The run's own settings hold; keys come from the environment. On a finished run it says so and
    costs nothing. A run that came from elsewhere gets keys only with its addresses named here, or with --trust-archive;
    a path or a module that it names as its agent is loaded only with --agent.
    """
    from harness.archive.layout import find_archived
    from harness.archive.run_state import find_missing_work, last_unfinished
    from harness.cli.archived_run import open_folder, runs_folder
    from harness.cli.first_line import say_first

    parent = runs_folder(runs_dir, environ)
    archived = find_archived(run, parent) if run else last_unfinished(parent, _say_passed_over)
    if archived is None:
        return _nothing_unfinished(parent, as_json=as_json)
    folder = archived.folder
    if archived.kind == "comparison":
        idle = {"--retry-failed": retry_failed, "--accept-changed-agent": accept_changed_agent}
        named = NamedNow(parent, flags, agent, rubric, trust_archive)
        return _resume_comparison(folder, environ, named, idle, as_json=as_json, quiet=quiet, verbose=verbose)
    reader = open_folder(folder)
    missing = find_missing_work(reader, retry_failed=retry_failed)
    if missing.nothing:
        return _already_finished(reader, as_json=as_json)
    say_first(f"loading what run {folder.name} needs", quiet=quiet)
    from harness.cli import process
    from harness.cli.console import stderr
    from harness.cli.progress_bars import ProgressBars
    from harness.cli.run_result import deliver
    from harness.pipeline.plan import NamedAddresses
    from harness.pipeline.run_environment import RunEnvironment
    from harness.pipeline.runs import resume_run
    from harness.pipeline.waiting import refuse_idle_wait_for

    process.silence_logs(verbose=verbose)
    if wait:
        refuse_idle_wait_for(folder, flags, resuming=True)
    _say_what_is_missing(console := stderr(quiet=quiet), reader, missing)
    with ProgressBars(console, quiet=quiet) as bars, process.little_garbage():
        around = RunEnvironment(environ, progress=bars)
        loaded = partial(_load_agent, reader, agent, environ)
        resumed = resume_run(
            folder,
            loaded,
            around,
            retry_failed=retry_failed,
            accept_changed_agent=accept_changed_agent,
            changes={name: value for name, value in flags.items() if name not in ADDRESSES},
            rubric_word=rubric,
            named=NamedAddresses(**{name: flags.get(name) for name in ADDRESSES}),
            trust_archive=trust_archive,
        )
        work = partial(_work, resumed, loaded, around, wait=wait)
        result = process.run_interruptible(work, bars, around.stop, reader.settings.grace)
    if result is None:  # another process has just finished the run
        return _already_finished(open_folder(folder), as_json=as_json)
    return deliver(result, max_failures=reader.settings.max_failures, as_json=as_json, quiet=quiet, report=report)


async def _work(
    resumed: Awaitable[RunResult | None], loaded: Callable[[], LoadedAgent], around: RunEnvironment, *, wait: bool
) -> RunResult | None:
    """Resume a run; with `wait` stay until its batches are over."""
    from harness.pipeline.waiting import stay_until_judged

    result = await resumed
    return await stay_until_judged(result, loaded, around) if result and wait else result


def _resume_comparison(
    folder: Path,
    environ: Mapping[str, str],
    named: NamedNow,
    idle: Mapping[str, bool],
    *,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> ExitCode:
    """Resume a comparison, which has no use for the options in `idle`, nor for some of the settings."""
    from harness.cli.archived_run import open_comparison_folder, refuse_parts_of_runs
    from harness.cli.first_line import say_first

    reader = open_comparison_folder(folder)
    of_runs = {option(name): name in named.flags for name in ("instructions", "approve")}
    refuse_parts_of_runs(reader, {**idle, **of_runs})
    say_first(f"loading what comparison {folder.name} needs", quiet=quiet)
    from harness.cli.resume_comparison import resume_compared

    return resume_compared(reader, environ, named, as_json=as_json, quiet=quiet, verbose=verbose)


def _nothing_unfinished(runs_dir: Path, *, as_json: bool) -> ExitCode:
    from harness.archive.layout import list_archived
    from harness.cli.output import say

    here = "every run is finished" if list_archived(runs_dir) else f"there is no run in {on_a_line(runs_dir)}/ yet"
    say(f"nothing to do: {here}", err=as_json)
    return ExitCode.DONE


def _say_what_is_missing(console: Console, reader: RunReader, missing: MissingWork) -> None:
    from harness.core.wording import counted
    from harness.pipeline.plan import places_of_begun

    to_run, places = counted(missing.count, "rollout"), places_of_begun(reader, missing.like)
    console.print(f"resuming {reader.info.id}: {to_run} to run, then what is missing of the judging ({places})")


def _say_passed_over(error: HarnessError) -> None:
    from harness.cli.output import say

    say(f"passed over: {error}", err=True)


def _load_agent(reader: RunReader, agent: str | None, environ: Mapping[str, str]) -> LoadedAgent:
    from pathlib import Path

    from harness.archive.attestations import read_attestation
    from harness.pipeline.trust import agent_of_run
    from harness.rollouts.loading import load_agent

    if agent:
        return load_agent(agent, Path.cwd())
    return agent_of_run(reader.info, read_attestation(reader, environ), Path.cwd(), "resume", reader.folder)


def _already_finished(reader: RunReader, *, as_json: bool) -> ExitCode:
    from harness.cli.output import say
    from harness.cli.run_overview import print_run

    ranking = reader.newest_ranking()
    if as_json and ranking:
        print_run(reader, ranking, as_json=True)
    elif not reader.index.queries and any(reader.index.rollouts.values()):
        raise ArchiveDamaged(
            f"run {reader.info.id} holds rollouts, and no query of them; "
            f"`{command(f'validate {shlex.quote(str(reader.folder))}')}` tells what is damaged"
        )
    elif not reader.index.queries:
        say(f"nothing to do: run {reader.info.id} was stopped before its first query, and cost nothing")
    else:
        say(f"nothing to do: run {reader.info.id} is finished")
    return ExitCode.DONE
