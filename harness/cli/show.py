"""`harness show`: an archived run, or one rollout of it."""

from typing import Annotated

import typer

from harness.cli import options as o


def show(
    run: o.Run = "last",
    rollout: Annotated[int | None, typer.Option("--rollout", "-r", help="Show this rollout's path and answer.")] = None,
    transcript: Annotated[
        bool, typer.Option("--transcript", help="With --rollout: the very text that the judge saw of it.")
    ] = False,
    matches: Annotated[bool, typer.Option("--matches", help="The matches by round, with their numbers.")] = False,
    match: Annotated[
        int | None,
        typer.Option("--match", "-m", help="One match: every mark, what the judge said, and both transcripts."),
    ] = None,
    query: Annotated[str | None, typer.Option(help="The query's id, where the run has several.")] = None,
    ranking: Annotated[str | None, typer.Option(help="A ranking's id. [default: the newest]")] = None,
    runs_dir: o.RunsDir = None,
    as_json: o.AsJson = False,
) -> None:
    """Show a run from its archive: the ranking, or one rollout, the matches, or one match with its verdicts."""
    from harness.cli.showing import show_command

    show_command(
        run=run,
        rollout=rollout,
        transcript=transcript,
        matches=matches,
        match=match,
        query=query,
        ranking=ranking,
        runs_dir=runs_dir,
        as_json=as_json,
    )
