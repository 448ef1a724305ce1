"""`harness run`: roll out, judge, rank, archive."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from harness.cli import options
from harness.core.errors import ExitCode, quoted


@click.command()
@options.query_argument
@options.agent_option
@click.option("--queries", metavar="FILE", help="Many queries: JSONL, CSV or lines; - for stdin.")
@options.setting_options(
    *("n", "temperature", "top_p", "strict_temperature", "model", "base_url", "api"),
    *options.RANKING_SETTINGS,
    *("show_instructions", "concurrency", "judge_concurrency", "max_unjudged", "engine", "ray_address"),
    *("timeout", "judge_timeout", "request_timeout"),
    *("give_up", "grace", "retries", "repairs", "max_turns", "approve"),
    *(
        "max_failures",
        "max_cost",
        "prices",
        "price_by_name",
        "seed",
        "shard",
        "redact",
        "tokens",
        "upload_traces",
        "offline",
        "instructions",
        "corpus",
        "runs_dir",
    ),
)
@options.config_option
@options.reuse_option
@options.dry_run_option
@options.wait_option
@options.json_option
@options.wide_option
@options.quiet_option
@options.report_option
@options.verbose_option
@click.pass_obj
def run(
    environ: Mapping[str, str],
    query: str | None,
    agent: str,
    queries: str | None,
    flags: Mapping[str, Any],
    config: Path | None,
    reuse: tuple[str, ...],
    *,
    dry_run: bool,
    wait: bool,
    as_json: bool,
    quiet: bool,
    report: bool,
    verbose: bool,
) -> ExitCode:
    """Run an agent N times on each query, judge the runs pairwise, rank them, and archive everything.

    Keys come from OPENAI_API_KEY (and HARNESS_JUDGE_API_KEY for a judge elsewhere). With neither a key nor an
    address the packaged example agents run on an embedded model and judge, as a self-test.
    """
    from harness.cli.first_line import nothing_begun, say_first
    from harness.core.settings_sources import load, merge_sources

    values = merge_sources(flags, environ, config)
    settings = load(values)
    say_first(f"loading agent {quoted(agent)}, for {settings.n} rollouts a query", quiet=quiet)
    with nothing_begun():
        from harness.archive.layout import find_run
        from harness.cli import announce, cost_lines, process
        from harness.cli.console import stderr
        from harness.cli.output import say
        from harness.cli.prepared_run import prepare_run
        from harness.cli.progress_bars import ProgressBars
        from harness.cli.run_result import deliver
        from harness.core.wording import option
        from harness.pipeline.run_environment import RunEnvironment
        from harness.pipeline.runs import RunResult, run_queries
        from harness.pipeline.waiting import refuse_idle_wait, stay_until_judged

        process.silence_logs(verbose=verbose)
        if wait:
            refuse_idle_wait(by_batch=settings.judge_batch)
        asked, prepared = prepare_run(agent, query, queries, settings, environ, shard=settings.shard)
    if not asked:
        say(f"no query falls into {option('shard', settings.shard)}: nothing to run, and no run made", err=True)
        return ExitCode.DONE
    reuse_sources = [find_run(word, settings.runs_dir) for word in reuse]
    console = stderr(quiet=quiet)
    announce.note_idle_judge_options(console, settings, values)
    announce.note_idle_agent_options(console, prepared, values)
    announce.note_idle_prices(console, prepared, flags.get("prices"))
    if dry_run:
        announce.warn(console, prepared, environ)
        cost_lines.print_plan(prepared, len(asked), as_json=as_json)
        return ExitCode.DONE
    announce.announce(console, prepared, len(asked), environ)
    with ProgressBars(console, quiet=quiet) as bars, process.little_garbage():
        around = RunEnvironment(environ, progress=bars)

        async def work() -> RunResult:
            result = await run_queries(prepared, asked, around, reuse=reuse_sources)
            return await stay_until_judged(result, prepared.agent.loaded, around) if wait else result

        result = process.run_interruptible(work, bars, around.stop, settings.grace)
    return deliver(
        result,
        max_failures=settings.max_failures,
        as_json=as_json,
        lent=bool(reuse_sources),
        quiet=quiet,
        report=report,
    )
