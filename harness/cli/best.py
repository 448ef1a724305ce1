"""`harness best`: the best of N answers, and nothing else on stdout."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from harness.cli import options
from harness.core.errors import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rich.console import Console

    from harness.api.best_answer import Best
    from harness.archive.rankings import RankingFile
    from harness.archive.reader import RunReader
    from harness.core.records import Query
    from harness.core.settings import Settings
    from harness.pipeline.runs import RunResult


@click.command()
@options.query_argument
@options.agent_option
@options.setting_option("confidence", default="0.95")
@options.setting_options(
    *("n", "temperature", "top_p", "strict_temperature", "model", "base_url", "api"),
    *("judge_model", "judge_base_url", "judge_api", "judge_label", "judge_profile", "rubric", "show_instructions"),
    *("concurrency", "judge_concurrency", "timeout", "judge_timeout", "request_timeout", "give_up", "grace"),
    *("retries", "repairs", "max_turns", "approve", "max_cost", "prices", "price_by_name"),
    *("seed", "upload_traces", "offline", "instructions", "corpus", "runs_dir"),
)
@click.option(
    "--deadline",
    type=click.FloatRange(min=0, min_open=True, max=1e9),
    metavar="SECONDS",
    help="Answer within so many seconds: by what is there by then. Two thirds are for the runs, the rest for judging.",
)
@options.config_option
@options.dry_run_option
@options.json_option
@options.quiet_option
@options.verbose_option
@click.pass_obj
def best(
    environ: Mapping[str, str],
    query: str | None,
    agent: str,
    confidence: float | None,
    flags: Mapping[str, Any],
    deadline: float | None,
    config: Path | None,
    *,
    dry_run: bool,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Run an agent N times on a query and print the best answer alone; the runs are archived.

    Every pair of runs meets once before the judge until one is surely best; from 16 runs on by double elimination.
    A structured output is printed as JSON. A line on stderr says why the answer is the best. Exits 0 with an answer,
    even if other runs or the judge failed (without verdicts it is the answer of run 0, the anchor); 3 without.
    """
    began = time.monotonic()
    from harness.cli.first_line import nothing_begun, say_first
    from harness.core.settings_sources import load, merge_sources

    values = merge_sources({**flags, "confidence": confidence}, environ, config)
    n = load(values).n
    say_first(f"loading agent {quoted(agent)}, for the best of {n} rollouts", quiet=quiet)
    with nothing_begun():
        from harness.cli import announce, cost_lines, process
        from harness.cli.console import stderr
        from harness.cli.prepared_run import prepare_run
        from harness.cli.progress_bars import ProgressBars
        from harness.core.deadline import NO_DEADLINE, Deadline
        from harness.pipeline.run_environment import RunEnvironment
        from harness.pipeline.runs import run_queries

        process.silence_logs(verbose=verbose)
        settings = _settings(values, n, confidence, hurried=deadline is not None)
        queries, prepared = prepare_run(agent, query, None, settings, environ)
    console = stderr(quiet=quiet)
    announce.note_idle_prices(console, prepared, flags.get("prices"))
    if dry_run:
        announce.warn(console, prepared, environ)
        cost_lines.print_plan(prepared, 1, as_json=as_json)
        return
    announce.announce(console, prepared, 1, environ)
    with ProgressBars(console, quiet=quiet) as bars:
        ends = Deadline.after(deadline, began) if deadline else NO_DEADLINE  # asyncio's clock is the monotonic one
        around = RunEnvironment(environ, progress=bars, deadline=ends)
        work = partial(run_queries, replace(prepared, judge_may_fail=True), queries, around)
        result = process.run_interruptible(work, bars, around.stop, settings.grace)
    late = around.lateness if time.monotonic() >= ends.at else None
    _deliver(result, queries[0], console, as_json=as_json, late=late)


def _deliver(result: RunResult, query: Query, console: Console, *, as_json: bool, late: str | None) -> None:
    """Print the answer, write the page, and say why the answer is the best."""
    from harness.api.best_answer import best_from
    from harness.cli.archived_run import open_folder
    from harness.cli.output import print_json, say
    from harness.cli.run_result import say_given_up, say_partial
    from harness.report.html.run.page import write_page
    from harness.report.json import run_json

    reader = open_folder(result.path)
    group, ranking = reader.group(query), reader.ranking(result.ranking_id)
    best = best_from(group, ranking.groups[0], _trouble(reader, ranking, result, late=late))
    if as_json:
        print_json(run_json(reader, ranking) | _best_json(best))
    else:
        say(str(best))
    say_given_up(result)
    write_page(reader, ranking, result.path / "report.html")  # after the answer, which somebody may wait for
    say_partial(sum(r.capture == "partial" for r in group.rollouts), result.path)
    if best.judged:
        console.print(f"{best.why}; run: {result.path}", soft_wrap=True)
    else:
        say(f"{best.why}; run: {result.path}", err=True)


def _best_json(best: Best) -> dict[str, Any]:
    """Return what the JSON of `best` has beside that of the run."""
    names = ("answer", "p_best", "runner_up", "cost", "tokens", "why", "judged")
    return {"rollout": best.index} | {name: getattr(best, name) for name in names}


def _trouble(reader: RunReader, ranking: RankingFile, result: RunResult, *, late: str | None) -> str | None:
    """Return why verdicts are missing, None where none is missing."""
    from harness.report.summary.notes import open_reasons

    reasons = open_reasons(reader.verdicts(), ranking.groups)
    return next(iter(reasons), None) or late or result.given_up or result.stopped


def _settings(values: dict[str, Any], n: int, confidence: float | None, *, hurried: bool) -> Settings:
    """Return a run's settings, with the design that picks the best rollout in place of any design set for runs."""
    from harness.api.best import for_best
    from harness.core.settings_sources import load

    design = for_best(n, confidence, hurried=hurried)
    if confidence is not None and design["topology"] == "cyclic":
        design["confidence"] = confidence
    return load(values | {"order": None, "budget": None, "confidence": None} | design)
