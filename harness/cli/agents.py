"""`harness agents`: the agents that `--agent NAME` finds."""

from harness.cli import options as o


def agents(as_json: o.AsJson = False) -> None:
    """List the agents there are: here in agents_config/, packaged, and installed entry points.

    Each is loaded as a run would load it now, with the same key and address; one that cannot be is listed with why.
    """
    from harness.cli.listing import agents_command

    agents_command(as_json=as_json)
