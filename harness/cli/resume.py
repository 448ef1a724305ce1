"""`harness resume`: do what is missing of a run."""

from typing import Annotated

import typer

from harness.cli import options as o


def resume(
    run: Annotated[
        str | None, typer.Argument(metavar="RUN", help="As for the other commands. [default: the last unfinished]")
    ] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", "-a", help="Where the run's agent is now. [default: where it was]")
    ] = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Run failed rollouts again, too.")] = False,
    accept_changed_agent: Annotated[
        bool, typer.Option("--accept-changed-agent", help="Go on although the agent has changed; it is noted.")
    ] = False,
    max_cost: o.MaxCost = None,
    runs_dir: o.RunsDir = None,
    as_json: o.AsJson = False,
    quiet: o.Quiet = False,
    verbose: o.Verbose = False,
) -> None:
    """Do what is missing of a run that was stopped: rollouts, verdicts, the ranking. What is there is kept.

    The run's own settings hold; keys come from the environment. On a finished run it says so and costs nothing.
    """
    from harness.cli.running import resume_command

    resume_command(
        run=run,
        agent=agent,
        retry_failed=retry_failed,
        accept_changed_agent=accept_changed_agent,
        max_cost=max_cost,
        runs_dir=runs_dir,
        as_json=as_json,
        quiet=quiet,
        verbose=verbose,
    )
