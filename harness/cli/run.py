"""The work of `run`, `best`, `resume` and `rescore`, and what they print of a run in the end."""

import re
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import click
from click.core import ParameterSource

from harness.api.best_answer import best_from
from harness.archive.reader import RunReader
from harness.archive.result_files import RankingFile
from harness.archive.run_state import MissingWork, Remaining, count_remaining, find_missing_work, find_redacted
from harness.cli import announce
from harness.cli.archived_run import open_folder
from harness.cli.console import stderr, stdout
from harness.cli.output import Caller, print_json, say
from harness.cli.piece_progress import draw_pages
from harness.cli.progress_bars import run_silently, run_under_bars, silence_logs, stdout_for_results
from harness.cli.show import print_run, say_finished
from harness.core.errors import ExitCode, UsageError, call, command, counted, option
from harness.core.progress import NO_DEADLINE, Deadline
from harness.core.records import Query
from harness.core.settings import SETTINGS, Settings
from harness.core.unicode import with_placeholder
from harness.core.user_files import text_lines
from harness.formats.queries import PackedQueries, in_shard, named_file, query_from, read_queries
from harness.pipeline import runs, waiting
from harness.pipeline.plan import NamedAddresses, Prepared, RescoreOptions, changed_settings, places_of_begun, prepare
from harness.pipeline.rescoring import quote_rescoring
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.trust import agent_of_run, what_is_kept
from harness.report.html.run_page import write_page
from harness.report.json import run_json
from harness.report.summary.ranking import RankingSummary, summarize
from harness.report.summary.rankings import change_against_earlier
from harness.report.summary.rollouts import open_reasons
from harness.report.terminal.runs import change_lines
from harness.rollouts.approval_gate import unasked
from harness.rollouts.loading import LoadedAgent, load_agent, names_of_agents


def _say_next(
    reader: RunReader, ranking: RankingFile, left: Remaining, summary: RankingSummary, goes_on: str | None
) -> None:
    """Print what to type next, `goes_on` where work is missing. After a self-test: what was typed, with a key."""
    run, typed, best, later = shlex.quote(reader.typed_name), sys.argv[1:], summary.best, _judges_later(ranking)
    if all_failed := 0 < summary.agents.runs == summary.agents.failed.total():  # whose first failure is to be seen
        best = next((q, min(made)) for q in ranking.queries if (made := reader.index.rollouts.get(q)))
    of_query = f" --query {shlex.quote(best[0])}" if best and left.queries > 1 else ""
    lines = [command(f"show {run}" + (f" --rollout {best[1]}{of_query}" if best else ""))]
    if not all_failed:
        lines.append(command(f"rescore {run} {'--topology arena' if later else '--judge-model MODEL'}"))
    if reader.info.branches and not later:
        *_, query = reader.info.branches
        of_query = f" --query {shlex.quote(query)}" if left.queries > 1 else ""
        newest = f"show {run} --rollout {max(reader.index.rollouts[query])}{of_query}"
        lines = [command(f"credit {run}"), *dict.fromkeys([command(newest), *lines[:1]])]
    if goes_on:
        lines.append(command(goes_on))
    elif left.failed and reader.info.judge:  # what was imported nobody can run
        lines.append(command(f"resume {run} --retry-failed"))
    elif all_failed and reader.info.endpoint:
        lines.append(command(f"gateway {run} --upstream URL"))
    if reader.info.agent_offline and typed[:1] == ["run"]:
        typed_again = command(shlex.join(_without_password(word) for word in typed if word != "--offline"))
        lines = [
            f"with a key:           OPENAI_API_KEY=sk-... {typed_again}",
            f"with a local server:  {typed_again} --base-url http://localhost:8000/v1 --model NAME",
        ]
    say("\n" + "\n".join(f"next: {line}" for line in lines))


def _what_goes_on(reader: RunReader, result: runs.RunResult, why_never: str | None) -> str:
    """Return the command that does what is missing, with what it takes to get further than the last one did."""
    run, rollouts = shlex.quote(reader.typed_name), find_missing_work(reader).rollouts
    if why_never and not rollouts:
        return f"rescore {run} {SETTINGS['judge_batch'].off_flag}"
    if rollouts and find_redacted(reader, rollouts):
        return f"rescore {run}"
    if result.stopped and result.next_ceiling:
        return f"resume {run} {option('max_cost', result.next_ceiling)}"
    return f"resume {run}"


def _without_password(word: str) -> str:
    option, _, url = word.partition("=") if word.startswith("--") else ("", "", word)
    is_address = url.startswith(("http://", "https://")) and "@" in url
    return f"{option}{'=' if option else ''}{with_placeholder(url)}" if is_address else word


def _judges_later(ranking: RankingFile) -> bool:
    return ranking.head.settings.get("topology") == "none"


def deliver(
    result: runs.RunResult,
    caller: Caller,
    *,
    max_failures: int,
    rescored: bool = False,
    several: bool = False,
    reused: bool = False,
) -> ExitCode:
    """Print the result, write the pages if they are wanted, and return the exit code.

    The JSON of `several` runs is a line each. What was `reused` is printed where other runs gave verdicts, and after
    rescoring. The pages come last, since they may take a while: nobody waits for them to read the result.
    Raises Interrupted on Ctrl-C while pages are written.
    """
    with RunReader(result.path) as reader:
        ranking = reader.ranking(result.ranking_id)
        summary = result.summary or summarize(reader, ranking, way=result.way)

        def draw() -> None:
            if caller.report:
                draw_pages(reader, ranking, summary, quiet=caller.quiet)

        if result.waiting and not (result.stopped or caller.as_json):
            draw()
            return _end_waiting(result)
        why_never = None if result.waiting else result.why_never(summary.failed_verdicts)
        try:
            change = change_against_earlier(reader, ranking) if rescored else None
            more: dict[str, Any] = {"against": change.as_json() if change else None} if rescored else {}
            more |= {"waiting": result.waiting} if result.waiting else {}
            reasons = {
                "--max-cost stopped the work": result.stopped,
                "an endpoint was given up": result.given_up,
                "a batch has the judge's questions": result.waiting,
            }
            stopped = next((reason for reason, given in reasons.items() if given), None)
            indent = None if several else 1
            print_run(reader, ranking, caller, summary=summary, indent=indent, more=more, stopped=stopped)
            if not caller.as_json:
                left = result.remaining or count_remaining(reader)
                if rescored or reused:
                    sources = ", ".join(f"{times:,} from {run}" for run, times in summary.sources.most_common())
                    there = f"{summary.judge.reused:,}{f' ({sources})' if sources else ''}"
                    say(f"reused {there}, bought {summary.judge.bought:,}")
                for line in change_lines(change, name_queries=left.queries > 1) if change else ():
                    stdout().print(line)
                goes_on = _what_goes_on(reader, result, why_never) if left.missing else None
                _say_next(reader, ranking, left, summary, goes_on)
            if why_never:
                say(f"{why_never}; {call('rescore', result.path, judge_batch=False)} asks at once", err=True)
            code = _end(reader, result, ranking, summary, max_failures, rescored=rescored)
            sys.stdout.flush()
        except BrokenPipeError:  # whoever read the result has gone, and may look at the page
            draw()
            raise
        draw()
        return code


def _end_waiting(result: runs.RunResult, *, as_json: bool = False) -> ExitCode:
    """Say which batches the provider has, and how the work goes on."""
    say(f"submitted: {result.waiting}", err=as_json)
    say(f"{call('resume', result.path)} collects what came back, and goes on", err=as_json)
    return ExitCode.DONE


def say_partial(rollouts: int, run: Path) -> None:
    """Say on stderr how many rollouts were captured in part, if any were."""
    if rollouts:
        were = counted(rollouts, "rollout was", "rollouts were")
        say(f"{were} captured in part, and ranked so: {call('show', run)} says what is missing", err=True)


def say_given_up(result: runs.RunResult) -> bool:
    """Say on stderr which endpoint was given up, if any was, and what is kept; return whether any was."""
    if result.given_up:
        say(f"stopped: {result.given_up}. {what_is_kept(result.path)}", err=True)
    return result.given_up is not None


def _end(
    reader: RunReader,
    result: runs.RunResult,
    ranking: RankingFile,
    summary: RankingSummary,
    most: int,
    *,
    rescored: bool,
) -> ExitCode:
    """Say what stopped the work, if anything did; return the exit code, FAILURES for more than `most` of them."""
    say_partial(summary.agents.partial, result.path)
    paths = (rollout.trajectory.path for query in reader.queries() for rollout in reader.group(query).rollouts)
    for name in () if rescored else unasked(reader.settings.approve, paths):
        say(f"{option('approve', name)}: no call of a tool of this name needed approval", err=True)
    if result.stopped:
        higher = {"max_cost": result.next_ceiling} if result.next_ceiling else {}
        say(f"stopped: {result.stopped}. {what_is_kept(result.path, **higher)}", err=True)
        return ExitCode.BUDGET
    if result.waiting:
        return _end_waiting(result, as_json=True)
    failed = summary.agents.failed.total()
    judged_later = _judges_later(ranking) and failed < summary.agents.runs
    failures = failed + summary.agents.partial + (0 if judged_later else summary.incomplete)
    code = ExitCode.FAILURES if failures > most else ExitCode.DONE
    if not judged_later and summary.best is None:
        code = ExitCode.NOTHING_RANKABLE
    if say_given_up(result):
        return ExitCode.BUDGET if result.out_of_quota else max(ExitCode.FAILURES, code)
    if not rescored and summary.agents.failed["quota"]:
        return ExitCode.BUDGET
    out_of_quota = bool(summary.failed_verdicts) and any(
        verdict.status == "failed" and verdict.key in summary.failed_verdicts and verdict.failure.kind == "quota"
        for verdict in reader.verdicts()
    )
    return ExitCode.BUDGET if out_of_quota else code


def prepare_run(
    caller: Caller, agent: str, query: str | None, queries: str | None, settings: Settings
) -> tuple[Sequence[Query], Prepared]:
    """Return the queries to ask, those of the settings' shard, and the checked run. Raises UsageError."""
    silence_logs(verbose=caller.verbose)
    if caller.wait:
        waiting.refuse_idle_wait(by_batch=settings.judge_batch)
    with stdout_for_results():  # what an agent's file prints must not stand among the results
        typed = click.get_current_context()
        by_default = typed.get_parameter_source("agent") is ParameterSource.DEFAULT
        if query and by_default:
            begun, what = f"{command(typed.info_name or '')} --agent", f"QUERY {query!r} is the name of an agent"
            if re.search(r"\.py(:\w+)?$", query) and named_file(query):
                raise UsageError(f'{what}\'s file: {begun} {shlex.quote(query)} "..." runs it')
            if query in names_of_agents(Path.cwd()):
                raise UsageError(f'{what}: {begun} {query} "..." runs it; {begun} {agent} {query} asks {query!r}')
        loaded = load_agent(agent, Path.cwd())
        asked = _queries(loaded, query, queries, settings.shard)
        prepared = anyio.run(prepare, loaded, settings, caller.environ, asked)
        return asked, prepared


def _queries(loaded: LoadedAgent, query: str | None, queries: str | None, shard: str | None) -> Sequence[Query]:
    """Return the queries of a shard: of those given, else of the agent's first example. Raises UsageError."""
    if queries is not None:
        if query is not None:
            raise UsageError("give a QUERY or --queries FILE, not both")
        return PackedQueries(in_shard(read_queries(queries), shard))
    if query and (what := named_file(query)):
        typed = f"run --agent {shlex.quote(loaded.word or loaded.name)} {option('queries', shlex.quote(query))}"
        raise UsageError(f"QUERY {query!r} {what}: {command(typed)} asks what is in a file, - asks stdin")
    if query == "-":
        query = "".join(line for _, line in text_lines(None, "QUERY -")).strip()
    if query is None and not loaded.examples:
        raise UsageError(
            f'agent {loaded.name!r} lists no EXAMPLES: give a query, as in `harness run --agent {loaded.word} "..."`'
        )
    return list(in_shard([query_from(loaded.examples[0] if query is None else query)], shard))


def run_prepared(
    caller: Caller, prepared: Prepared, queries: Sequence[Query], reuse_sources: Sequence[Path]
) -> ExitCode:
    """Run the queries, with --wait until the judge's batches are over, and print the result; return the exit code."""
    settings = prepared.settings

    async def work(run_env: RunEnvironment) -> runs.RunResult:
        result = await runs.run_queries(prepared, queries, run_env, reuse=reuse_sources)
        return await waiting.stay_until_judged(result, prepared.agent.loaded, run_env) if caller.wait else result

    result = run_under_bars(work, caller, grace_s=settings.grace, rolls_out=True)
    return deliver(result, caller, max_failures=settings.max_failures, reused=bool(reuse_sources))


def run_best(
    caller: Caller, prepared: Prepared, queries: Sequence[Query], deadline_s: float | None, began: float
) -> None:
    """Run one query, within `deadline_s` after `began` on the monotonic clock; print the answer, and why it is best."""
    ends = Deadline.after(deadline_s, began) if deadline_s else NO_DEADLINE  # asyncio's clock is the monotonic one

    async def work(run_env: RunEnvironment) -> tuple[runs.RunResult, str | None]:
        result = await runs.run_queries(replace(prepared, judge_may_fail=True), queries, run_env)
        return result, run_env.lateness if time.monotonic() >= ends.at else None

    console = stderr(quiet=caller.quiet)
    result, late = run_under_bars(work, caller, grace_s=prepared.settings.grace, deadline=ends)
    reader = open_folder(result.path)
    group, ranking = reader.group(queries[0]), reader.ranking(result.ranking_id)
    reasons = open_reasons(reader.verdicts(), ranking.groups)  # why verdicts are missing, where any is
    trouble = next(iter(reasons), None) or late or result.given_up or result.stopped
    best = best_from(group, ranking.groups[0], trouble)
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


def resume_found(
    caller: Caller,
    reader: RunReader,
    missing: MissingWork,
    flags: Mapping[str, Any],
    agent: str | None,
    rubric: str | None,
    *,
    retry_failed: bool,
    accept_changed_agent: bool,
) -> ExitCode:
    """Do what is missing of a run, with --wait until the judge's batches are over, and print it.

    `agent` names where the agent is now; None: where it was. The switches are those of `resume_run`.
    """
    silence_logs(verbose=caller.verbose)
    if caller.wait:
        waiting.refuse_idle_wait_for(reader.folder, flags, resuming=True)
    console = stderr(quiet=caller.quiet)
    to_run, places = counted(missing.count, "rollout"), places_of_begun(reader, missing.like)
    console.print(f"resuming {reader.info.id}: {to_run} to run, then what is missing of the judging ({places})")

    def loaded() -> LoadedAgent:
        return load_agent(agent, Path.cwd()) if agent else agent_of_run(reader, caller.environ, "resume")

    named, changes = NamedAddresses.split(flags)

    async def work(run_env: RunEnvironment) -> runs.RunResult | None:
        result = await runs.resume_run(
            reader.folder,
            loaded,
            run_env,
            changes=changes,
            rubric_word=rubric,
            named=named,
            trust_archive=caller.trust_archive,
            retry_failed=retry_failed,
            accept_changed_agent=accept_changed_agent,
        )
        return await waiting.stay_until_judged(result, loaded, run_env) if result and caller.wait else result

    result = run_under_bars(work, caller, grace_s=reader.settings.grace, rolls_out=True)
    if result is None:  # another process has just finished the run
        return say_finished(open_folder(reader.folder), caller)
    return deliver(result, caller, max_failures=reader.settings.max_failures)


def rescore_found(
    caller: Caller, folders: Sequence[Path], changes: Mapping[str, Any], reuse: Sequence[Path], *, free: bool
) -> ExitCode:
    """Print what judging runs again takes, then judge and print one after the other; return the greatest exit code."""
    silence_logs(verbose=caller.verbose)
    console, several = stderr(quiet=caller.quiet), len(folders) > 1
    options = RescoreOptions(reuse, free=free, trust_archive=caller.trust_archive)
    settings = dict[Path, Settings]()
    for folder in folders:
        if caller.wait:
            waiting.refuse_idle_wait_for(folder, changes)
        with RunReader(folder) as reader:
            settings[folder] = changed_settings(reader, changes)
        announce.note_idle_judge_options(console, settings[folder], changes)
        announce.announce_design(console, settings[folder])
        if not caller.dry_run and (caller.quiet or free):
            continue
        quote = run_silently(partial(quote_rescoring, folder, changes, options=options), caller)
        if caller.dry_run:
            announce.print_quote(folder.name, quote, as_json=caller.as_json, several=several, free=free)
        else:
            line = announce.quote_line(quote)
            console.print(f"{folder.name}: {line}" if several else line, soft_wrap=True)
    codes = [ExitCode.DONE]
    for folder in folders if not caller.dry_run else ():

        async def work(
            run_env: RunEnvironment, folder: Path = folder, changes: Mapping[str, Any] = changes
        ) -> runs.RunResult:
            result = await runs.rescore_run(folder, changes, run_env, options)
            return await waiting.stay_until_judged(result, None, run_env) if caller.wait else result

        result = run_under_bars(work, caller, grace_s=settings[folder].grace)
        if changes.get("max_cost") is not None:  # what is left of it is for the runs that are left
            changes = {**changes, "max_cost": max(0.0, float(changes["max_cost"]) - result.spent)}
        of_run = settings[folder]
        codes.append(deliver(result, caller, max_failures=of_run.max_failures, rescored=True, several=several))
    return max(codes)
