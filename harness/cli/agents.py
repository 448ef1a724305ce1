"""`harness agents`: the agents that `--agent NAME` finds."""

import logging
import re
from collections.abc import Mapping
from pathlib import Path

import click

from harness.cli import options
from harness.cli.groups import OrderedGroup

_IS_NAME = re.compile("[A-Za-z][A-Za-z0-9_-]{0,99}")


@click.group(cls=OrderedGroup, invoke_without_command=True, subcommand_metavar="[new NAME]")
@options.json_option
@options.wide_option
@click.pass_context
def agents(context: click.Context, *, as_json: bool) -> None:
    """List the agents there are: here in agents_config/, packaged, and installed entry points.

    Each is loaded as a run would load it now, with the same key and address; one that cannot be loaded is listed with
    the reason. `agents new` begins one of your own.
    """
    if context.invoked_subcommand is None:
        _list(context.obj, as_json=as_json)


@agents.command("new")
@click.argument("name", help="What --agent will take: the file is agents_config/NAME.py.")
@click.option(
    "--from", "source", default="search", metavar="NAME", help="The packaged example to copy. [default: search]"
)
@click.option("--force", is_flag=True, help="Write over a file that is there.")
def new_agent(name: str, source: str, *, force: bool) -> None:
    """Copy a packaged example agent into agents_config/, ready to edit."""
    from harness.cli.new_files import write_new
    from harness.cli.output import say
    from harness.core.errors import UsageError, quoted
    from harness.core.run_folders import enclosing_run
    from harness.core.wording import command
    from harness.rollouts.environment import copy_of_example

    if not _IS_NAME.fullmatch(name):
        raise UsageError(f"{quoted(name)}: a name of letters, digits, - and _ is expected, such as `poet`")
    files = copy_of_example(source, name)
    if run := enclosing_run(Path.cwd()):
        raise UsageError(f"this is inside of the run folder {run}, where no agent is loaded from: go elsewhere")
    folder = Path("agents_config")
    own, *beside = files
    write_new(folder / own, files[own], force=force)
    for companion in beside:
        if not (folder / companion).exists():
            write_new(folder / companion, files[companion], force=False)
    say(f"{folder / own}: a copy of {source}, ready to edit")
    again = command(f"run --agent {name}")
    say(f"next: {again}\nnext: {again} --offline")


def _list(environ: Mapping[str, str], *, as_json: bool) -> None:
    import anyio

    from harness.cli.agent_list import agents_table, list_agents
    from harness.cli.console import stdout
    from harness.cli.output import print_json
    from harness.cli.process import stdout_for_results
    from harness.core.settings_sources import load, merge_sources
    from harness.endpoints.address import agent_endpoint
    from harness.endpoints.credentials import Credentials

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
