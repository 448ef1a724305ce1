"""What `run`, `resume` and `rescore` do once parsed: check, announce, call the pipeline, print."""

import logging
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import anyio
import typer

from harness import pipeline
from harness.archive import RankingFile, RunReader, find_run, last_unfinished, missing_of
from harness.cli.announcing import (
    announce,
    say_what_does_not_apply,
    say_what_the_agent_has_no_use_for,
    tell_design,
    warn,
)
from harness.cli.costing import print_plan, print_quote, quote_line
from harness.cli.output import next_commands, print_run, runs_dir_of, stderr
from harness.cli.watching import Watcher
from harness.core.errors import ExitCode, Interrupted, UsageError
from harness.core.records import Query
from harness.core.settings import Settings
from harness.core.settings_sources import changed, environment, load, merge_sources
from harness.formats import query_from, read_queries
from harness.report import RankingSummary, counted, summarize, write_page
from harness.rollouts import LoadedAgent, load_agent

_T = TypeVar("_T")


def run_command(
    *,
    agent: str,
    query: str | None,
    queries: str | None,
    flags: Mapping[str, Any],
    config: Path | None,
    reuse: Sequence[str],
    dry_run: bool,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Do `harness run`."""
    hush(verbose=verbose)
    environ = environment()
    wanted = merge_sources(flags, environ, config)
    settings = load(wanted)
    ask, prepared = checked(agent, query, queries, settings, environ)
    lenders = [find_run(word, settings.runs_dir) for word in reuse]
    console = stderr(quiet=quiet)
    say_what_does_not_apply(console, settings, wanted)
    say_what_the_agent_has_no_use_for(console, prepared, wanted)
    if dry_run:
        warn(console, prepared)
        print_plan(prepared, len(ask), as_json=as_json)
        return
    announce(console, prepared, len(ask))
    with Watcher(console, quiet=quiet) as watcher:
        around = pipeline.Surroundings(environ, progress=watcher)
        ran = interruptible(lambda: pipeline.run_queries(prepared, ask, around, reuse=lenders), watcher)
    _exit_with(_deliver(ran, as_json=as_json, most=settings.max_failures))


def rescore_command(
    *,
    runs: Sequence[str],
    flags: Mapping[str, Any],
    config: Path | None,
    runs_dir: Path | None,
    reuse: Sequence[str],
    free: bool,
    dry_run: bool,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Do `harness rescore`: only what is asked for here changes, not what the environment says of new runs."""
    hush(verbose=verbose)
    changes, where, environ = merge_sources(flags, {}, config), runs_dir_of(runs_dir), environment()
    folders = list(dict.fromkeys(find_run(word, where) for word in runs))
    lenders, console = [find_run(word, where) for word in reuse], stderr(quiet=quiet)
    most: dict[Path, int] = {}
    for folder in folders:
        settings = load(changed(RunReader(folder).info.settings, changes))
        most[folder] = settings.max_failures
        say_what_does_not_apply(console, settings, changes)
        tell_design(console, settings)
        if dry_run or not (free or quiet):
            with Watcher(console, quiet=True) as watcher:
                around = pipeline.Surroundings(environ)
                quoted = partial(pipeline.quote_rescoring, folder, changes, around, reuse=lenders)
                quote = interruptible(quoted, watcher)
            if dry_run:
                print_quote(folder.name, quote, as_json=as_json, several=len(folders) > 1, free=free)
            else:  # before anything is spent
                console.print(f"{f'{folder.name}: ' if folders[1:] else ''}{quote_line(quote)}", highlight=False)
    if dry_run:
        return
    codes: list[ExitCode] = []
    for folder in folders:
        with Watcher(console, quiet=quiet) as watcher:
            around = pipeline.Surroundings(environ, progress=watcher)
            rescored = partial(pipeline.rescore_run, folder, changes, around, reuse=lenders, free=free)
            ran = interruptible(rescored, watcher)
        if changes.get("max_cost") is not None:  # what is left of it is for the others
            changes = {**changes, "max_cost": max(0.0, float(changes["max_cost"]) - ran.spent)}
        codes.append(_deliver(ran, as_json=as_json, most=most[folder], rescored=True, several=len(folders) > 1))
    _exit_with(max(codes))


def resume_command(
    *,
    run: str | None,
    agent: str | None,
    retry_failed: bool,
    accept_changed_agent: bool,
    max_cost: float | None,
    runs_dir: Path | None,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Do `harness resume`."""
    hush(verbose=verbose)
    folder = find_run(run, runs_dir_of(runs_dir)) if run else last_unfinished(runs_dir_of(runs_dir))
    if folder is None:
        typer.echo("nothing to do: every run is finished", err=as_json)
        return
    reader = RunReader(folder)
    missing = missing_of(reader, retry_failed=retry_failed)
    if missing.nothing:
        _already_finished(reader, as_json=as_json)
        return
    console = stderr(quiet=quiet)
    to_run = counted(missing.count, "rollout")
    console.print(f"resuming {reader.info.id}: {to_run} to run, then what is missing of the judging", highlight=False)

    def loaded() -> LoadedAgent:
        word = agent or reader.info.agent_word
        if word is None:
            raise UsageError(f"run {reader.info.id} does not say where its agent is: name it with --agent")
        return load_agent(word, Path.cwd())

    with Watcher(console, quiet=quiet) as watcher:
        ran = interruptible(
            lambda: pipeline.resume_run(
                folder,
                loaded,
                pipeline.Surroundings(environment(), progress=watcher),
                retry_failed=retry_failed,
                accept_changed_agent=accept_changed_agent,
                max_cost=max_cost,
            ),
            watcher,
        )
    if ran is None:  # another process has just finished it
        _already_finished(RunReader(folder), as_json=as_json)
    else:
        _exit_with(_deliver(ran, as_json=as_json, most=load(dict(reader.info.settings)).max_failures))


def _already_finished(reader: RunReader, *, as_json: bool) -> None:
    there = reader.newest_ranking()
    if as_json and there:
        print_run(reader, there, as_json=True)
    elif not reader.index.queries:
        typer.echo(f"nothing to do: run {reader.info.id} was stopped before its first query, and cost nothing")
    else:
        typer.echo(f"nothing to do: run {reader.info.id} is finished")


def checked(
    agent: str, query: str | None, queries: str | None, settings: Settings, environ: Mapping[str, str]
) -> tuple[list[Query], pipeline.Prepared]:
    """Find the agent and what to ask it, and check all that costs nothing. Raises UsageError."""
    with redirect_stdout(sys.stderr):  # what an agent's file prints must not stand among the results
        loaded = load_agent(agent, Path.cwd())
        return _asked(loaded, query, queries), anyio.run(pipeline.prepare, loaded, settings, environ)


def _asked(loaded: LoadedAgent, query: str | None, queries: str | None) -> list[Query]:
    """Return the queries to run: those given, else the agent's first example. Raises UsageError."""
    if queries is not None and query is not None:
        raise UsageError("give a QUERY or --queries FILE, not both")
    if queries is not None:
        return list(read_queries(queries))
    if query is None and not loaded.examples:
        raise UsageError(
            f'agent {loaded.name!r} lists no EXAMPLES: give a query, as in `harness run --agent {loaded.name} "..."`'
        )
    return [query_from(loaded.examples[0] if query is None else query)]


def _deliver(
    ran: pipeline.RunResult, *, as_json: bool, most: int, rescored: bool = False, several: bool = False
) -> ExitCode:
    """Write the page, print the result, and return what became of it. JSON of `several` runs is a line each."""
    reader = RunReader(ran.path)
    ranking = reader.ranking(ran.ranking_id)
    found = summarize(reader, ranking)
    write_page(reader, ranking, ran.path / "report.html", found)
    print_run(reader, ranking, as_json=as_json, found=found, indent=None if several else 1)
    if not as_json:
        if rescored:
            typer.echo(f"reused {found.judge.reused}, bought {found.judge.bought}")
        next_commands(reader, ranking, found.best, sys.argv[1:])
    if ran.stopped:
        typer.echo(
            f"stopped: {ran.stopped}. {pipeline.what_is_kept(ran.path)}; --max-cost USD sets another ceiling. "
            f"`harness rescore {ran.path}` ranks what is there",
            err=True,
        )
        return ExitCode.BUDGET
    return _exit_code(reader, ranking, found, most, rescored=rescored)


def _exit_with(code: ExitCode) -> None:
    if code is not ExitCode.DONE:
        raise typer.Exit(code)


def _exit_code(
    reader: RunReader, ranking: RankingFile, found: RankingSummary, most: int, *, rescored: bool
) -> ExitCode:
    failed = found.agents.failed
    if not rescored and failed["quota"]:
        return ExitCode.BUDGET
    missing = found.failed_verdicts
    if missing and any(
        v.status == "failed" and v.key in missing and v.failure.kind == "quota" for v in reader.verdicts()
    ):
        return ExitCode.BUDGET
    later = ranking.head.settings.get("topology") == "none" and failed.total() < found.agents.runs
    if not later and found.best is None:
        return ExitCode.NOTHING_RANKABLE
    bad = failed.total() + (0 if later else found.incomplete)
    return ExitCode.FAILURES if bad > most else ExitCode.DONE


def interruptible(work: Callable[[], Awaitable[_T]], watcher: Watcher) -> _T:
    """Run `work`; raises Interrupted, saying what is kept, on Ctrl-C."""
    try:
        with redirect_stdout(sys.stderr):  # what an agent's tools print must not stand among the results
            return anyio.run(work)
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted. {pipeline.what_is_kept(watcher.folder)}") from None


def hush(*, verbose: bool) -> None:
    """Keep the SDK's and the retry library's own log off stderr: what matters of it is in the records."""
    if not verbose:
        for name in ("openai", "openai.agents", "stamina", "httpx", "httpx2"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
