"""The sides of a comparison as a user names them: runs of the archive, and agents to roll out."""

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from harness.archive.reader import RunReader
from harness.archive.result_files import RankingFile
from harness.archive.run_info import find_run, list_archived
from harness.archive.run_state import Remaining, count_remaining
from harness.cli.compare_options import VARIED_OPTIONS, SidesAsked
from harness.cli.console import stdout
from harness.cli.output import Caller, runs_folder, say
from harness.cli.piece_progress import draw_pages
from harness.cli.progress_bars import silence_logs, stdout_for_results
from harness.cli.show import print_run
from harness.core.errors import ArchiveDamaged, ExitCode, UsageError, call, command, counted, option, quoted
from harness.core.records import Query
from harness.core.settings import OF_JUDGING, Settings
from harness.core.settings_sources import load, merge_sources
from harness.core.unicode import with_placeholder
from harness.core.user_files import read_text
from harness.formats.queries import PackedQueries, read_queries
from harness.pipeline.comparing.compare import AnySide
from harness.pipeline.comparing.plan import CompareOptions
from harness.pipeline.comparing.resuming import queries_asked, settings_of_side
from harness.pipeline.plan import prepare
from harness.pipeline.runs import RunResult
from harness.pipeline.trust import what_is_kept
from harness.report.summary.ranking import RankingSummary, summarize
from harness.report.summary.rankings import change_against_earlier
from harness.report.terminal.runs import change_lines
from harness.rollouts.loading import LoadedAgent, load_agent

_LONGEST_TASK = 1_000_000


@dataclass(frozen=True)
class FoundSides:
    """A comparison as it was asked for, checked as far as that is free."""

    sides: Sequence[AnySide]
    queries: Sequence[Query]
    """What agents are asked; none where all sides are runs."""
    options: CompareOptions
    settings: Settings
    """Of the command: what it says of failures and of an interruption."""


def find_sides(caller: Caller, asked: SidesAsked) -> FoundSides:
    """Find the sides that a user names, and check their agents. Raises UsageError."""
    runs_dir = runs_folder(caller)
    silence_logs(verbose=caller.verbose)
    named = [_run_or_agent(word, runs_dir) for word in asked.sides]
    runs = [side for side in named if isinstance(side, Path)]
    if len(runs) == len(named):
        idle = [*(name for name in asked.varied if name != "config"), *(n for n in asked.flags if n not in OF_JUDGING)]
        if asked.queries is not None:
            idle.append("queries")
        if idle:
            raise UsageError(
                f"{option(idle[0])} says how agents are rolled out, but every side is an archived run; leave it out, "
                "or name an agent"
            )
    configs = asked.varied.get("config", ())
    of_judging = {name: value for name, value in asked.flags.items() if name in OF_JUDGING}
    set_now = merge_sources(of_judging, {}, configs[0] if len(configs) == 1 else None)
    changes = {name: value for name, value in set_now.items() if name in OF_JUDGING}
    file = asked.task
    task = None if file is None else read_text(file, option("task", file), most=_LONGEST_TASK)
    if task is not None and not task.strip():
        raise UsageError(f"{option('task', file)}: it is empty")
    options = CompareOptions(
        runs_dir,
        changes,
        pairs=asked.pairs,
        task=task,
        cluster=asked.cluster,
        reuse=[find_run(word, runs_dir) for word in caller.reuse],
        allow_offline=asked.allow_offline or bool(asked.flags.get("offline")),
        trust_archive=caller.trust_archive,
    )
    settings = load({**changes, "runs_dir": runs_dir})
    if len(runs) == len(named):
        return FoundSides(runs, (), options, settings)
    sides = _prepared(asked, named, runs_dir, caller.environ)
    if len(sides) < 2:  # before anything is said of the first one's queries
        ways = ", ".join(option(name) for name in VARIED_OPTIONS)
        raise UsageError(
            f"a second side is missing: name another run or agent, or give the agent two values of one of {ways}"
        )
    given = asked.queries
    queries = PackedQueries(read_queries(given)) if given is not None else queries_asked(sides)
    return FoundSides(sides, queries, options, settings)


def _run_or_agent(word: str, runs_dir: Path) -> Path | LoadedAgent:
    """Return the run that a word names, else the agent. Raises UsageError where it names neither."""
    try:
        return find_run(word, runs_dir)
    except ArchiveDamaged:
        raise
    except UsageError as no_run:
        try:
            with stdout_for_results():  # what an agent's file prints must not stand among the results
                return load_agent(word, Path.cwd())
        except UsageError as no_agent:
            if word.endswith(".py") or ":" in word:
                raise no_agent from None
            if any(folder.name.startswith(word) for folder, _ in list_archived(runs_dir)):
                raise no_run from None
            raise UsageError(f"{quoted(word)} is neither a run nor an agent: {no_run}; {no_agent}") from None


def _prepared(
    asked: SidesAsked, named: Sequence[Path | LoadedAgent], runs_dir: Path, environ: Mapping[str, str]
) -> list[AnySide]:
    """Return the sides with their agents checked: a side for each word, or for each value that one agent is given."""
    several = {name: values for name, values in asked.varied.items() if len(values) > 1}
    if len(several) > 1 or (several and len(named) > 1):
        flags = " and ".join(option(name) for name in asked.varied if len(asked.varied[name]) > 1)
        raise UsageError(f"{flags}: several values make the sides of one agent; name one agent, and vary one option")
    ((varied, values),) = several.items() if several else [("", [None] * len(named))]
    agents = [*named] * len(values) if several else named
    once = {name: values[0] for name, values in asked.varied.items() if len(values) == 1}
    sides: list[AnySide] = []
    for side, value in zip(agents, values, strict=True):
        if isinstance(side, Path):
            sides.append(side)
            continue
        of_side = dict(asked.flags) | once | ({varied: value} if several else {})
        config = of_side.pop("config", None)
        settings = settings_of_side(merge_sources(of_side, environ, config), asked.pairs, runs_dir)
        with stdout_for_results():
            sides.append(anyio.run(prepare, side, settings, environ))
    return sides


def _say_next(reader: RunReader, ranking: RankingFile, left: Remaining, best: tuple[str, int] | None) -> None:
    """Print what to type next. After a self-test: the command that was typed, with a key and with a local server."""
    run, typed = shlex.quote(reader.typed_name), sys.argv[1:]
    of_query = f" --query {shlex.quote(best[0])}" if best and left.queries > 1 else ""
    lines = [
        command(f"show {run}" + (f" --rollout {best[1]}{of_query}" if best else "")),
        command(f"rescore {run} {'--topology arena' if _judges_later(ranking) else '--judge-model MODEL'}"),
    ]
    if left.missing:
        lines.append(command(f"resume {run}"))
    elif left.failed and reader.info.judge:  # what was imported nobody can run
        lines.append(command(f"resume {run} --retry-failed"))
    if reader.info.agent_offline and typed[:1] == ["run"]:
        typed_again = command(shlex.join(_without_password(word) for word in typed if word != "--offline"))
        lines = [
            f"with a key:           OPENAI_API_KEY=sk-... {typed_again}",
            f"with a local server:  {typed_again} --base-url http://localhost:8000/v1 --model NAME",
        ]
    say("\n" + "\n".join(f"next: {line}" for line in lines))


def _without_password(word: str) -> str:
    option, _, url = word.partition("=") if word.startswith("--") else ("", "", word)
    is_address = url.startswith(("http://", "https://")) and "@" in url
    return f"{option}{'=' if option else ''}{with_placeholder(url)}" if is_address else word


def _judges_later(ranking: RankingFile) -> bool:
    return ranking.head.settings.get("topology") == "none"


def deliver(
    result: RunResult,
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
        try:
            change = change_against_earlier(reader, ranking) if rescored else None
            more: dict[str, Any] = {"against": change.as_json() if change else None} if rescored else {}
            more |= {"waiting": result.waiting} if result.waiting else {}
            reasons = {
                "--max-cost stopped the work": result.stopped,
                "an endpoint was given up (--give-up)": result.given_up,
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
                _say_next(reader, ranking, left, summary.best)
            code = _end(reader, result, ranking, summary, max_failures, rescored=rescored)
            sys.stdout.flush()
        except BrokenPipeError:  # whoever read the result has gone, and may look at the page
            draw()
            raise
        draw()
        return code


def _end_waiting(result: RunResult, *, as_json: bool = False) -> ExitCode:
    """Say which batches the provider has, and how the work goes on."""
    say(f"submitted: {result.waiting}", err=as_json)
    say(f"{call('resume', result.path)} collects what came back, and goes on", err=as_json)
    return ExitCode.DONE


def say_partial(rollouts: int, run: Path) -> None:
    """Say on stderr how many rollouts were captured in part, if any were."""
    if rollouts:
        were = counted(rollouts, "rollout was", "rollouts were")
        say(f"{were} captured in part, and ranked so: {call('show', run)} says what is missing", err=True)


def say_given_up(result: RunResult) -> bool:
    """Say on stderr which endpoint was given up, if any was, and what is kept; return whether any was."""
    if result.given_up:
        say(f"stopped: {result.given_up}. {what_is_kept(result.path)}", err=True)
    return result.given_up is not None


def _end(
    reader: RunReader, result: RunResult, ranking: RankingFile, summary: RankingSummary, most: int, *, rescored: bool
) -> ExitCode:
    """Say what stopped the work, if anything did; return the exit code, FAILURES for more than `most` of them."""
    say_partial(summary.agents.partial, result.path)
    if result.stopped:
        say(
            f"stopped: {result.stopped}. {what_is_kept(result.path)}; --max-cost USD sets another ceiling. "
            f"{call('rescore', result.path)} ranks what is there",
            err=True,
        )
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
        return max(ExitCode.FAILURES, code)
    if not rescored and summary.agents.failed["quota"]:
        return ExitCode.BUDGET
    out_of_quota = bool(summary.failed_verdicts) and any(
        verdict.status == "failed" and verdict.key in summary.failed_verdicts and verdict.failure.kind == "quota"
        for verdict in reader.verdicts()
    )
    return ExitCode.BUDGET if out_of_quota else code
