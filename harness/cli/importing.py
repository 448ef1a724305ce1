"""`harness import`: trajectories made elsewhere, as a run."""

from pathlib import Path
from typing import Annotated

import typer

from harness.cli import options as o


def import_(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="JSONL, or JSON with one trajectory or a list of them.")
    ],
    format: Annotated[  # noqa: A002 - the option's name
        str | None, typer.Option("--format", help="messages or atif. [default: as each trajectory shows]")
    ] = None,
    first_is_anchor: Annotated[
        bool, typer.Option("--first-is-anchor", help="The first trajectory of each query is the greedy one.")
    ] = False,
    name: Annotated[str, typer.Option(help="What to call the agent that made them.")] = "imported",
    redact: o.Redact = None,
    runs_dir: o.RunsDir = None,
    as_json: o.AsJson = False,
) -> None:
    """Make a run of trajectories made elsewhere, to be ranked by rescore. Nothing is asked of any model.

    Chat messages: an object a trajectory with `messages`, and optionally query_id, id, reward, reference, metadata.
    ATIF: Harbor's Agent Trajectory Interchange Format. Those with one query id, else one first user message, form a
    group. Without --first-is-anchor a group has no anchor and is ranked without one.
    """
    from harness.cli.replays import import_command

    import_command(
        files=files,
        format=format,
        first_is_anchor=first_is_anchor,
        name=name,
        flags={"redact": redact, "runs_dir": runs_dir},
        as_json=as_json,
    )
