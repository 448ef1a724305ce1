"""`harness run`: roll out, judge, rank, archive."""

from typing import Annotated

import typer

from harness.cli import options as o


def run(
    query: o.OneQuery = None,
    agent: o.Agent = "search",
    queries: Annotated[
        str | None, typer.Option(metavar="FILE", help="Many queries: JSONL, CSV or lines; - for stdin.")
    ] = None,
    n: o.N = None,
    temperature: o.Temperature = None,
    top_p: o.TopP = None,
    strict_temperature: o.StrictTemperature = None,
    model: o.Model = None,
    base_url: o.BaseUrl = None,
    api: o.Api = None,
    judge: o.Judge = None,
    judge_model: o.JudgeModel = None,
    judge_base_url: o.JudgeBaseUrl = None,
    judge_api: o.JudgeApi = None,
    judge_label: o.JudgeLabel = None,
    judge_budget: o.JudgeBudget = None,
    judge_repeats: o.JudgeRepeats = None,
    jury: o.Jury = None,
    rubric: o.Rubric = None,
    topology: o.Topology = None,
    estimator: o.Estimator = None,
    reward: o.Reward = None,
    order: o.Order = None,
    budget: o.Budget = None,
    failed: o.Failed = None,
    anchor_failed: o.AnchorFailed = None,
    judge_when: o.JudgeWhen = None,
    show_instructions: o.ShowInstructions = None,
    concurrency: o.Concurrency = None,
    judge_concurrency: o.JudgeConcurrency = None,
    timeout: o.Timeout = None,
    judge_timeout: o.JudgeTimeout = None,
    max_turns: o.MaxTurns = None,
    max_failures: o.MaxFailures = None,
    max_cost: o.MaxCost = None,
    seed: o.Seed = None,
    redact: o.Redact = None,
    offline: o.Offline = None,
    corpus: o.Corpus = None,
    config: o.Config = None,
    runs_dir: o.RunsDir = None,
    reuse: o.Reuse = None,
    dry_run: o.DryRun = False,
    as_json: o.AsJson = False,
    quiet: o.Quiet = False,
    verbose: o.Verbose = False,
) -> None:
    """Run an agent N times on each query, judge the runs pairwise, rank them, and archive everything.

    Keys come from OPENAI_API_KEY (and HARNESS_JUDGE_API_KEY for a judge elsewhere). With neither a key nor an
    address the packaged example agents run on an embedded model and judge, as a self-test.
    """
    flags = {
        name: value
        for name, value in locals().items()
        if name not in {"query", "agent", "queries", "config", "reuse", "dry_run", "as_json", "quiet", "verbose"}
    }
    from harness.cli.running import run_command

    run_command(
        agent=agent,
        query=query,
        queries=queries,
        flags=flags,
        config=config,
        reuse=reuse or (),
        dry_run=dry_run,
        as_json=as_json,
        quiet=quiet,
        verbose=verbose,
    )
