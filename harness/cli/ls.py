"""`harness ls`: the runs there are."""

from harness.cli import options as o


def ls(runs_dir: o.RunsDir = None, as_json: o.AsJson = False) -> None:
    """List the runs, oldest first."""
    from harness.cli.showing import ls_command

    ls_command(runs_dir=runs_dir, as_json=as_json)
