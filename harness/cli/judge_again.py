"""The work of `resume` and `rescore`: what is missing of a run, and a run judged again."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from harness.archive.attestations import attestation_of
from harness.archive.missing import MissingWork
from harness.archive.reader import RunReader
from harness.cli import announce
from harness.cli.archived_run import open_folder
from harness.cli.console import stderr
from harness.cli.options import Caller
from harness.cli.process import run_silently, run_under_bars, silence_logs
from harness.cli.run_result import deliver
from harness.cli.show import say_finished
from harness.core.errors import ExitCode
from harness.core.plurals import counted
from harness.core.settings import ADDRESSES
from harness.pipeline.plan import NamedAddresses, RescoreOptions, changed_settings, places_of_begun
from harness.pipeline.quote import Quote, quote_rescoring
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.runs import RunResult, rescore_run, resume_run
from harness.pipeline.trust import agent_of_run
from harness.pipeline.waiting import refuse_idle_wait_for, stay_until_judged
from harness.rollouts.loading import LoadedAgent, load_agent


@dataclass(frozen=True)
class ResumedRun:
    """A run with work left, and what today's user says of it."""

    reader: RunReader
    missing: MissingWork
    flags: Mapping[str, Any]
    agent: str | None
    """Where the agent is now; None: where it was."""
    rubric: str | None
    retry_failed: bool
    accept_changed_agent: bool
    trust_archive: bool


def resume_found(caller: Caller, resumed: ResumedRun, *, wait: bool) -> ExitCode:
    """Do what is missing of a run, with `wait` until the judge's batches are over, and print it."""
    reader, missing, flags = resumed.reader, resumed.missing, resumed.flags
    silence_logs(verbose=caller.verbose)
    if wait:
        refuse_idle_wait_for(reader.folder, flags, resuming=True)
    console = stderr(quiet=caller.quiet)
    to_run, places = counted(missing.count, "rollout"), places_of_begun(reader, missing.like)
    console.print(f"resuming {reader.info.id}: {to_run} to run, then what is missing of the judging ({places})")
    loaded = partial(_load_agent, reader, resumed.agent, caller.environ)

    async def work(run_env: RunEnvironment) -> RunResult | None:
        result = await resume_run(
            reader.folder,
            loaded,
            run_env,
            retry_failed=resumed.retry_failed,
            accept_changed_agent=resumed.accept_changed_agent,
            changes={name: value for name, value in flags.items() if name not in ADDRESSES},
            rubric_word=resumed.rubric,
            named=NamedAddresses(**{name: flags.get(name) for name in ADDRESSES}),
            trust_archive=resumed.trust_archive,
        )
        return await stay_until_judged(result, loaded, run_env) if result and wait else result

    result = run_under_bars(work, caller, console, grace_s=reader.settings.grace, rolls_out=True)
    if result is None:  # another process has just finished the run
        return say_finished(open_folder(reader.folder), caller)
    return deliver(result, caller, max_failures=reader.settings.max_failures)


def _load_agent(reader: RunReader, agent: str | None, environ: Mapping[str, str]) -> LoadedAgent:
    if agent:
        return load_agent(agent, Path.cwd())
    return agent_of_run(reader.info, attestation_of(reader, environ), Path.cwd(), "resume", reader.folder)


@dataclass(frozen=True)
class Rescoring:
    """Runs to judge again, and how."""

    caller: Caller
    folders: tuple[Path, ...]
    changes: Mapping[str, Any]
    options: RescoreOptions

    def announce(self, *, dry_run: bool, wait: bool) -> tuple[Mapping[Path, float], Mapping[Path, int]]:
        """Print what each run takes; return their seconds of grace and most failures. Raises UsageError, Refused."""
        silence_logs(verbose=self.caller.verbose)
        console = stderr(quiet=self.caller.quiet)
        grace_s: dict[Path, float] = {}
        most_failures: dict[Path, int] = {}
        for folder in self.folders:
            if wait:
                refuse_idle_wait_for(folder, self.changes)
            with RunReader(folder) as reader:
                settings = changed_settings(reader, self.changes)
            announce.note_idle_judge_options(console, settings, self.changes)
            announce.announce_design(console, settings)
            grace_s[folder], most_failures[folder] = settings.grace, settings.max_failures
            self._say_quote(console, folder, dry_run=dry_run)
        return grace_s, most_failures

    def _say_quote(self, console: Console, folder: Path, *, dry_run: bool) -> None:
        """Print what rescoring would reuse and buy, before anything is spent; it is the result of --dry-run."""
        several, free = len(self.folders) > 1, self.options.free
        if dry_run:
            as_json = self.caller.as_json
            announce.print_quote(folder.name, self._quote(folder), as_json=as_json, several=several, free=free)
        elif not (self.caller.quiet or free):
            line = announce.quote_line(self._quote(folder))
            console.print(f"{folder.name}: {line}" if several else line, soft_wrap=True)

    def _quote(self, folder: Path) -> Quote:
        return run_silently(lambda run_env: quote_rescoring(folder, self.changes, run_env, self.options), self.caller)

    def run_all(self, grace_s: Mapping[Path, float], most_failures: Mapping[Path, int], *, wait: bool) -> ExitCode:
        """Judge the runs again, one after the other, and print each; return the greatest exit code."""
        rescoring, console, codes = self, stderr(quiet=self.caller.quiet), list[ExitCode]()
        several = len(self.folders) > 1
        for folder in self.folders:
            work = partial(rescoring.judge, folder, wait=wait)
            result = run_under_bars(work, self.caller, console, grace_s=grace_s[folder])
            rescoring = rescoring.after_spending(result.spent)
            most = most_failures[folder]
            codes.append(deliver(result, self.caller, max_failures=most, rescored=True, several=several))
        return max(codes)

    async def judge(self, folder: Path, run_env: RunEnvironment, *, wait: bool) -> RunResult:
        """Judge a run again; with `wait` stay until its batches are over."""
        result = await rescore_run(folder, self.changes, run_env, self.options)
        return await stay_until_judged(result, None, run_env) if wait else result

    def after_spending(self, usd: float) -> "Rescoring":
        """Return the rescoring of the runs that are left: what is left of --max-cost is for them."""
        if self.changes.get("max_cost") is None:
            return self
        return replace(self, changes={**self.changes, "max_cost": max(0.0, float(self.changes["max_cost"]) - usd)})
