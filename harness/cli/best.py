"""`harness best`: the best of N answers, and nothing else on stdout."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from harness.cli import options

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from harness.core.rankings import GroupRanking
    from harness.core.records import Group
    from harness.core.settings import Settings


@click.command()
@options.query_argument
@options.agent_option
@options.setting_option("sure", default="0.95")
@options.setting_options(
    *("n", "temperature", "top_p", "strict_temperature", "model", "base_url", "api"),
    *("judge_model", "judge_base_url", "judge_api", "judge_label", "rubric", "show_instructions"),
    *("concurrency", "judge_concurrency", "timeout", "judge_timeout", "request_timeout", "give_up", "grace"),
    *("retries", "repairs", "max_turns", "approve", "prices", "price_by_name"),
    *("seed", "upload_traces", "offline", "corpus", "runs_dir"),
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
    sure: float | None,
    flags: Mapping[str, Any],
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
    even if other runs failed; 3 without.
    """
    from harness import pipeline
    from harness.api import best_rollout
    from harness.cli import announce, cost_lines, process
    from harness.cli.archived_run import open_folder
    from harness.cli.console import stderr
    from harness.cli.output import say
    from harness.cli.prepared_run import prepare_run
    from harness.cli.progress_bars import ProgressBars
    from harness.cli.run_overview import print_run
    from harness.cli.run_result import say_given_up, say_partial
    from harness.report import write_page

    process.silence_logs(verbose=verbose)
    settings = _settings(flags, sure, environ, config)
    queries, prepared = prepare_run(agent, query, None, settings, environ)
    console = stderr(quiet=quiet)
    if dry_run:
        announce.warn(console, prepared, environ)
        cost_lines.print_plan(prepared, 1, as_json=as_json)
        return
    announce.announce(console, prepared, 1, environ)
    with ProgressBars(console, quiet=quiet) as bars:
        around = pipeline.Surroundings(environ, progress=bars)
        work = partial(pipeline.run_queries, prepared, queries, around)
        result = process.run_interruptible(work, bars, around.stop, settings.grace)
    reader = open_folder(result.path)
    ranking = reader.ranking(result.ranking_id)
    write_page(reader, ranking, result.path / "report.html")
    group, group_ranking = reader.group(queries[0]), ranking.groups[0]
    say_given_up(result)
    winner = best_rollout(group, group_ranking)
    say_partial(sum(r.capture == "partial" for r in group.rollouts), result.path)
    if as_json:
        print_run(reader, ranking, as_json=True)
    else:
        say(winner.trajectory.answer)
    reason = _reason(group, group_ranking, winner.index)
    console.print(f"{reason}; run: {result.path}", soft_wrap=True)


def _reason(group: Group, ranking: GroupRanking, index: int) -> str:
    """Return in a line why a rollout is the best."""
    place = f"rollout {index} is the best of {len(group.rollouts)}"
    row = next(rollout for rollout in ranking.rollouts if rollout.index == index)
    if row.p_best is None or not ranking.matches:
        alone = sum(rollout.status == "ok" for rollout in group.rollouts) == 1
        level = "the only one that ended well" if alone else "the judge told none of them apart, so it is the first"
        return f"{place}: {'; '.join(ranking.notes) or level}"
    calls = f"{ranking.judged + ranking.reused} judge calls"
    saved = f", {ranking.spared} saved by stopping early" if ranking.spared else ""
    return f"{place} with probability {row.p_best:.2f} ({calls}{saved})"


def _settings(
    flags: Mapping[str, Any], sure: float | None, environ: Mapping[str, str], config: Path | None
) -> Settings:
    """Return a run's settings, with the design that picks the best rollout in place of any design set for runs."""
    from harness.api import for_best
    from harness.core.settings_sources import load, merge_sources

    values = merge_sources({**flags, "sure": sure}, environ, config)
    design = for_best(load(values).n)
    if sure is not None and "sure" in design:
        design["sure"] = sure
    return load(values | {"order": None, "budget": None} | design)
