"""`harness rescore`: judge an archived run again."""

from typing import Annotated

import typer

from harness.cli import options as o


def rescore(
    runs: Annotated[
        list[str] | None,
        typer.Argument(metavar="RUN...", help="Ids, prefixes of ids, folders, or `last`. [default: last]"),
    ] = None,
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
    include: o.Include = None,
    exclude: o.Exclude = None,
    show_instructions: o.ShowInstructions = None,
    judge_concurrency: o.JudgeConcurrency = None,
    judge_timeout: o.JudgeTimeout = None,
    max_failures: o.MaxFailures = None,
    max_cost: o.MaxCost = None,
    reuse: o.Reuse = None,
    free: Annotated[
        bool, typer.Option("--free", help="Buy nothing: groups that would need more verdicts stay incomplete.")
    ] = False,
    dry_run: o.DryRun = False,
    config: o.Config = None,
    runs_dir: o.RunsDir = None,
    as_json: o.AsJson = False,
    quiet: o.Quiet = False,
    verbose: o.Verbose = False,
) -> None:
    """Judge an archived run again, with the run's own settings but for those given here.

    Verdicts that the archive holds are reused, only the others are bought; failed ones are asked for again. The
    rollouts are not touched, and the new ranking stands beside the old ones. Of several runs each gets its own, and
    --max-cost holds for all together.
    """
    flags = {
        name: value
        for name, value in locals().items()
        if name not in {"runs", "reuse", "free", "dry_run", "config", "runs_dir", "as_json", "quiet", "verbose"}
    }
    from harness.cli.running import rescore_command

    rescore_command(
        runs=runs or ["last"],
        flags=flags,
        config=config,
        runs_dir=runs_dir,
        reuse=reuse or (),
        free=free,
        dry_run=dry_run,
        as_json=as_json,
        quiet=quiet,
        verbose=verbose,
    )
