"""The end of `run`, `resume` and `rescore`: the page is written, the ranking printed, the exit code chosen."""

import shlex
import sys
from pathlib import Path
from typing import Any

from harness.archive.reader import RunReader
from harness.archive.result_files import RankingFile
from harness.archive.run_state import Remaining, count_remaining
from harness.cli.console import stdout
from harness.cli.output import Caller, say
from harness.cli.piece_progress import draw_pages
from harness.cli.show import print_run
from harness.core.errors import ExitCode, call, command, counted
from harness.core.unicode import with_placeholder
from harness.pipeline.runs import RunResult
from harness.pipeline.trust import what_is_kept
from harness.report.summary.ranking import RankingSummary, summarize
from harness.report.summary.rankings import change_against_earlier
from harness.report.terminal.runs import change_lines


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
