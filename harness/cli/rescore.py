"""`harness rescore`: judge an archived run again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from harness.cli import completion, options
from harness.core.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rich.console import Console

    from harness.core.settings import Settings
    from harness.pipeline.plan import RescoreOptions
    from harness.pipeline.rescoring import Quote
    from harness.pipeline.run_environment import RunEnvironment
    from harness.pipeline.runs import RunResult


@click.command()
@click.argument(
    "runs",
    metavar="[RUN]...",
    nargs=-1,
    shell_complete=completion.run_ids,
    help="Ids, prefixes of ids, folders, or `last`. [default: last]",
)
@options.setting_options(
    *options.RANKING_SETTINGS,
    *("include", "exclude", "show_instructions", "judge_concurrency", "judge_timeout", "max_failures", "max_cost"),
    *("prices", "price_by_name"),
    *("request_timeout", "give_up", "grace", "retries", "repairs"),
    default="the run's own",
)
@options.reuse_option
@click.option("--free", is_flag=True, help="Buy nothing: groups that would need more verdicts stay incomplete.")
@options.dry_run_option
@options.trust_option
@options.config_option
@options.setting_option("runs_dir")
@options.wait_option
@options.json_option
@options.wide_option
@options.quiet_option
@options.report_option
@options.verbose_option
@click.pass_obj
def rescore(
    environ: Mapping[str, str],
    runs: tuple[str, ...],
    flags: Mapping[str, Any],
    reuse: tuple[str, ...],
    config: Path | None,
    runs_dir: Path | None,
    *,
    free: bool,
    trust_archive: bool,
    dry_run: bool,
    wait: bool,
    as_json: bool,
    quiet: bool,
    report: bool,
    verbose: bool,
) -> ExitCode:
    """Judge an archived run again, with the run's own settings except for those given here.

    Verdicts that the archive holds are reused, only the others are bought; failed verdicts are asked for again. The
    rollouts are not touched, and the new ranking stands beside the old ones. Each of several runs gets its own
    ranking, and --max-cost holds for all together. Only options and --config change the
    settings, not HARNESS_* in the environment.
    """
    from harness.archive.layout import find_run
    from harness.cli.archived_run import runs_folder
    from harness.cli.first_line import say_first
    from harness.core.settings_sources import merge_sources

    parent = runs_folder(runs_dir, environ)
    folders = list(dict.fromkeys(find_run(word, parent) for word in runs or ("last",)))
    several = len(folders) > 1
    say_first(f"loading {f'{len(folders)} runs' if several else f'run {folders[0].name}'}", quiet=quiet)
    from harness.cli import process
    from harness.cli.console import stderr
    from harness.cli.progress_bars import ProgressBars
    from harness.cli.run_result import deliver
    from harness.pipeline.plan import RescoreOptions
    from harness.pipeline.run_environment import RunEnvironment
    from harness.pipeline.waiting import refuse_idle_wait_for

    process.silence_logs(verbose=verbose)
    reuse_sources = [find_run(word, parent) for word in reuse]
    how = RescoreOptions(reuse_sources, free=free, trust_archive=trust_archive)
    job = _Job(merge_sources(flags, {}, config), environ, how)
    console = stderr(quiet=quiet)
    max_failures: dict[Path, int] = {}
    grace: dict[Path, float] = {}
    for folder in folders:
        if wait:
            refuse_idle_wait_for(folder, job.changes)
        settings = _announce(console, folder, job)
        max_failures[folder], grace[folder] = settings.max_failures, settings.grace
        if dry_run:
            _print_quote(console, folder, job, several=several, as_json=as_json)
        elif not (quiet or free):
            _announce_quote(console, folder, job, several=several)
    if dry_run:
        return ExitCode.DONE
    finish = partial(deliver, as_json=as_json, rescored=True, several=several, quiet=quiet, report=report)
    codes: list[ExitCode] = []
    for folder in folders:
        with ProgressBars(console, quiet=quiet) as bars:
            around = RunEnvironment(environ, progress=bars)
            work = partial(_rescored, folder, job, around, wait=wait)
            result = process.run_interruptible(work, bars, around.stop, grace[folder])
        job = job.after_spending(result.spent)
        codes.append(finish(result, max_failures=max_failures[folder]))
    return max(codes)


async def _rescored(folder: Path, job: _Job, around: RunEnvironment, *, wait: bool) -> RunResult:
    """Judge a run again; with `wait` stay until its batches are over."""
    from harness.pipeline.runs import rescore_run
    from harness.pipeline.waiting import stay_until_judged

    result = await rescore_run(folder, job.changes, around, job.options)
    return await stay_until_judged(result, None, around) if wait else result


@dataclass(frozen=True)
class _Job:
    """What is the same for all runs of one command."""

    changes: Mapping[str, Any]
    environ: Mapping[str, str]
    options: RescoreOptions

    def after_spending(self, usd: float) -> _Job:
        """Return the job for the next run: what is left of --max-cost is for the others."""
        if self.changes.get("max_cost") is None:
            return self
        return replace(self, changes={**self.changes, "max_cost": max(0.0, float(self.changes["max_cost"]) - usd)})


def _announce(console: Console, folder: Path, job: _Job) -> Settings:
    """Print which options do nothing and what a budget is spent on; return the run's settings under the changes."""
    from harness.archive.reader import RunReader
    from harness.cli import announce
    from harness.pipeline.plan import changed_settings

    with RunReader(folder) as reader:
        settings = changed_settings(reader, job.changes)
    announce.note_idle_judge_options(console, settings, job.changes)
    announce.announce_design(console, settings)
    return settings


def _quote(console: Console, folder: Path, job: _Job) -> Quote:
    from harness.cli import process
    from harness.cli.progress_bars import ProgressBars
    from harness.pipeline.rescoring import quote_rescoring
    from harness.pipeline.run_environment import RunEnvironment

    with ProgressBars(console, quiet=True) as bars:
        around = RunEnvironment(job.environ)
        work = partial(quote_rescoring, folder, job.changes, around, job.options)
        return process.run_interruptible(work, bars)


def _print_quote(console: Console, folder: Path, job: _Job, *, several: bool, as_json: bool) -> None:
    """Print what rescoring would reuse and buy: the result of --dry-run."""
    from harness.cli import cost_lines

    quote = _quote(console, folder, job)
    cost_lines.print_quote(folder.name, quote, as_json=as_json, several=several, free=job.options.free)


def _announce_quote(console: Console, folder: Path, job: _Job, *, several: bool) -> None:
    """Print what rescoring will reuse and buy, before anything is spent."""
    from harness.cli import cost_lines

    line = cost_lines.quote_line(_quote(console, folder, job))
    console.print(f"{folder.name}: {line}" if several else line, soft_wrap=True)
