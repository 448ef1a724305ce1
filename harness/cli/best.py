"""`harness best`: the best of N answers, and nothing else on stdout."""

from typing import Annotated

import typer

from harness.cli import options as o


def best(
    query: o.OneQuery = None,
    agent: o.Agent = "search",
    n: o.N = None,
    temperature: o.Temperature = None,
    top_p: o.TopP = None,
    strict_temperature: o.StrictTemperature = None,
    model: o.Model = None,
    base_url: o.BaseUrl = None,
    api: o.Api = None,
    judge_model: o.JudgeModel = None,
    judge_base_url: o.JudgeBaseUrl = None,
    judge_api: o.JudgeApi = None,
    judge_label: o.JudgeLabel = None,
    rubric: o.Rubric = None,
    sure: Annotated[
        float | None,
        typer.Option(
            help="Stop judging once one is best with this probability; 1: once nothing left could change it. "
            "[default: 0.95]"
        ),
    ] = None,
    show_instructions: o.ShowInstructions = None,
    concurrency: o.Concurrency = None,
    judge_concurrency: o.JudgeConcurrency = None,
    timeout: o.Timeout = None,
    judge_timeout: o.JudgeTimeout = None,
    max_turns: o.MaxTurns = None,
    seed: o.Seed = None,
    offline: o.Offline = None,
    corpus: o.Corpus = None,
    config: o.Config = None,
    runs_dir: o.RunsDir = None,
    dry_run: o.DryRun = False,
    as_json: o.AsJson = False,
    quiet: o.Quiet = False,
    verbose: o.Verbose = False,
) -> None:
    """Run an agent N times on a query and print the best answer alone; the runs are archived.

    Every pair of runs meets once before the judge until one is surely best; from 16 runs on by double elimination.
    A structured output is printed as JSON. Why it is the best is told in one line on stderr. Exits 0 with an answer,
    whatever became of the other runs; 3 without.
    """
    flags = {
        name: value
        for name, value in locals().items()
        if name not in {"query", "agent", "config", "dry_run", "as_json", "quiet", "verbose"}
    }
    from harness.cli.picking import best_command

    best_command(
        agent=agent,
        query=query,
        flags=flags,
        config=config,
        dry_run=dry_run,
        as_json=as_json,
        quiet=quiet,
        verbose=verbose,
    )
