"""The work of `run`, `best`, `resume` and `rescore`: what is checked free, announced, rolled out, judged, ranked."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from rich.console import Console

from harness.api.best_answer import best_from
from harness.api.one_group import for_best
from harness.archive.rankings import RankingFile
from harness.archive.reader import RunReader
from harness.archive.run_state import MissingWork
from harness.cli import announce
from harness.cli.archived_run import open_folder
from harness.cli.console import stderr
from harness.cli.options import Caller
from harness.cli.output import print_json, say
from harness.cli.process import run_silently, run_under_bars, silence_logs, stdout_for_results
from harness.cli.run_result import deliver, say_given_up, say_partial
from harness.cli.show import say_finished
from harness.core.clock import NO_DEADLINE, Deadline
from harness.core.errors import ExitCode, UsageError
from harness.core.records import Query
from harness.core.settings import ADDRESSES, Settings
from harness.core.settings_sources import load
from harness.core.user_files import text_lines
from harness.core.wording import counted
from harness.formats.queries import PackedQueries, in_shard, query_from, read_queries
from harness.pipeline.plan import NamedAddresses, Prepared, RescoreOptions, changed_settings, places_of_begun, prepare
from harness.pipeline.rescoring import Quote, quote_rescoring
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.runs import RunResult, rescore_run, resume_run, run_queries
from harness.pipeline.trust import agent_of_run
from harness.pipeline.waiting import refuse_idle_wait, refuse_idle_wait_for, stay_until_judged
from harness.report.html.run_page import write_page
from harness.report.json import run_json
from harness.report.summary.notes import open_reasons
from harness.rollouts.loading import LoadedAgent, load_agent


def prepare_run(
    caller: Caller, agent: str, query: str | None, queries: str | None, settings: Settings, *, wait: bool = False
) -> tuple[Sequence[Query], Prepared]:
    """Return the queries to ask, those of the settings' shard, and the checked run. Raises UsageError."""
    silence_logs(verbose=caller.verbose)
    if wait:
        refuse_idle_wait(by_batch=settings.judge_batch)
    with stdout_for_results():  # what an agent's file prints must not stand among the results
        loaded = load_agent(agent, Path.cwd())
        asked = _queries(loaded, query, queries, settings.shard)
        return asked, anyio.run(prepare, loaded, settings, caller.environ)


def _queries(loaded: LoadedAgent, query: str | None, queries: str | None, shard: str | None) -> Sequence[Query]:
    """Return the queries of a shard: of those given, else of the agent's first example. Raises UsageError."""
    if queries is None:
        return list(in_shard([_one_query(loaded, query)], shard))
    if query is not None:
        raise UsageError("give a QUERY or --queries FILE, not both")
    return PackedQueries(in_shard(read_queries(queries), shard))


def _one_query(loaded: LoadedAgent, query: str | None) -> Query:
    if query == "-":
        return query_from("".join(line for _, line in text_lines(None, "QUERY -")).strip())
    if query is None and not loaded.examples:
        raise UsageError(
            f'agent {loaded.name!r} lists no EXAMPLES: give a query, as in `harness run --agent {loaded.name} "..."`'
        )
    return query_from(loaded.examples[0] if query is None else query)


def announce_run(
    caller: Caller,
    prepared: Prepared,
    queries: int,
    values: Mapping[str, Any],
    flags: Mapping[str, Any],
    *,
    dry_run: bool,
) -> bool:
    """Print what a run is about to take, and which of the user's `values` do nothing; return whether that is all."""
    console = stderr(quiet=caller.quiet)
    announce.note_idle_judge_options(console, prepared.settings, values)
    announce.note_idle_agent_options(console, prepared, values)
    announce.note_idle_prices(console, prepared, flags.get("prices"))
    if dry_run:
        announce.warn(console, prepared, caller.environ)
        announce.print_plan(prepared, queries, as_json=caller.as_json)
    else:
        announce.announce(console, prepared, queries, caller.environ)
    return dry_run


def run_prepared(
    caller: Caller, prepared: Prepared, queries: Sequence[Query], reuse_sources: Sequence[Path], *, wait: bool
) -> ExitCode:
    """Run the queries, with `wait` until the judge's batches are over, and print the result; return the exit code."""
    settings = prepared.settings

    async def work(run_env: RunEnvironment) -> RunResult:
        result = await run_queries(prepared, queries, run_env, reuse=reuse_sources)
        return await stay_until_judged(result, prepared.agent.loaded, run_env) if wait else result

    console = stderr(quiet=caller.quiet)
    result = run_under_bars(work, caller, console, grace_s=settings.grace, rolls_out=True)
    return deliver(result, caller, max_failures=settings.max_failures, reused=bool(reuse_sources))


def best_settings(values: dict[str, Any], n: int, confidence: float | None, *, hurried: bool) -> Settings:
    """Return a run's settings, with the design that picks the best rollout in place of any design set for runs."""
    design = for_best(n, confidence, hurried=hurried)
    if confidence is not None and design["topology"] == "cyclic":
        design["confidence"] = confidence
    return load(values | {"order": None, "budget": None, "confidence": None} | design)


def run_best(
    caller: Caller, prepared: Prepared, queries: Sequence[Query], deadline_s: float | None, began: float
) -> None:
    """Run one query, within `deadline_s` after `began` on the monotonic clock; print the answer, and why it is best."""
    ends = Deadline.after(deadline_s, began) if deadline_s else NO_DEADLINE  # asyncio's clock is the monotonic one

    async def work(run_env: RunEnvironment) -> tuple[RunResult, str | None]:
        result = await run_queries(replace(prepared, judge_may_fail=True), queries, run_env)
        return result, run_env.lateness if time.monotonic() >= ends.at else None

    console = stderr(quiet=caller.quiet)
    result, late = run_under_bars(work, caller, console, grace_s=prepared.settings.grace, deadline=ends)
    reader = open_folder(result.path)
    group, ranking = reader.group(queries[0]), reader.ranking(result.ranking_id)
    best = best_from(group, ranking.groups[0], _trouble(reader, ranking, result, late=late))
    if caller.as_json:
        names = ("answer", "p_best", "runner_up", "cost", "tokens", "why", "judged")
        print_json(run_json(reader, ranking) | {"rollout": best.index} | {name: getattr(best, name) for name in names})
    else:
        say(str(best))
    say_given_up(result)
    write_page(reader, ranking, result.path / "report.html")  # after the answer, which somebody may wait for
    say_partial(sum(r.capture == "partial" for r in group.rollouts), result.path)
    if best.judged:
        console.print(f"{best.why}; run: {result.path}", soft_wrap=True)
    else:
        say(f"{best.why}; run: {result.path}", err=True)


def _trouble(reader: RunReader, ranking: RankingFile, result: RunResult, *, late: str | None) -> str | None:
    """Return why verdicts are missing, None where none is missing."""
    reasons = open_reasons(reader.verdicts(), ranking.groups)
    return next(iter(reasons), None) or late or result.given_up or result.stopped


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
    return agent_of_run(reader, environ, "resume")


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
