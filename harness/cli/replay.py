"""`harness replay`: drive the agent again on what a run recorded."""

from typing import Annotated

import typer

from harness.cli import options as o


def replay(
    run: o.Run = "last",
    rollout: Annotated[
        int | None, typer.Option("--rollout", "-r", help="Only this rollout of each query. [default: all]")
    ] = None,
    query: Annotated[str | None, typer.Option(help="Only this query, by its id. [default: all]")] = None,
    live_tools: Annotated[
        bool,
        typer.Option("--live-tools", help="Run the tools again. [default: take what they gave]"),
    ] = False,
    agent: Annotated[
        str | None,
        typer.Option("--agent", "-a", help="The agent, or a changed one, as for run. [default: the run's own]"),
    ] = None,
    runs_dir: o.RunsDir = None,
    as_json: o.AsJson = False,
    verbose: o.Verbose = False,
) -> None:
    """To judge a run again use rescore. This drives the agent's own code on the model replies that a run recorded.

    Nothing is asked of any model and nothing is written. Every request (instructions, input, tools, handoffs, output
    schema) is compared with the recorded one, and the first divergence is shown with a diff. Exits 0 only if all is
    identical, 1 if anything diverged.
    """
    from harness.cli.replays import replay_command

    replay_command(
        run=run,
        rollout=rollout,
        query=query,
        live_tools=live_tools,
        agent=agent,
        runs_dir=runs_dir,
        as_json=as_json,
        verbose=verbose,
    )
