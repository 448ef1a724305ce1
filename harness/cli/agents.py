"""`harness agents`: the agents that `--agent NAME` finds."""

import logging
from collections.abc import Mapping
from pathlib import Path

import click

from harness.cli import options


@click.command()
@options.json_option
@options.wide_option
@click.pass_obj
def agents(environ: Mapping[str, str], *, as_json: bool) -> None:
    """List the agents there are: here in agents_config/, packaged, and installed entry points.

    Each is loaded as a run would load it now, with the same key and address; one that cannot be loaded is listed with
    the reason.
    """
    import anyio

    from harness.cli.agent_list import agents_table, list_agents
    from harness.cli.console import stdout
    from harness.cli.output import print_json
    from harness.cli.process import stdout_for_results
    from harness.core.settings_sources import load, merge_sources
    from harness.endpoints import Credentials, agent_endpoint

    logging.getLogger("openai.agents").setLevel(logging.CRITICAL)  # why a server does not start is in the list
    settings = load(merge_sources({}, environ, None))
    endpoint = agent_endpoint(settings, Credentials.naming(environ, settings.base_url))
    with stdout_for_results():  # what an agent's file prints is not the result
        listed = anyio.run(list_agents, Path.cwd(), settings, endpoint)
    if as_json:
        print_json([agent.model_dump(mode="json") for agent in listed])
    else:
        console = stdout()
        for line in agents_table(listed, Path.cwd(), console.width):
            console.print(line)
