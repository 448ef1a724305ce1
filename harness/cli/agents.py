"""`harness agents`: those that `--agent NAME` finds, each loaded as a run would load it, and its parts."""

import logging
import random
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AsyncExitStack
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Literal

import agents as sdk
import anyio
from agents.models import get_default_model
from agents.tool import get_function_tool_origin
from rich.console import RenderableType

from harness.cli.console import print_lines
from harness.cli.output import Caller, print_json
from harness.cli.progress_bars import stdout_for_results
from harness.core.errors import UsageError, first_error
from harness.core.records import Record
from harness.core.settings import Settings
from harness.core.settings_sources import load, merge_sources
from harness.core.unicode import visible_name
from harness.endpoints.address import Endpoint, agent_endpoint
from harness.endpoints.credentials import Credentials
from harness.report.terminal.table import Column, TableRow, table_or_list, visible_text
from harness.rollouts.graph import connect, servers_to_connect
from harness.rollouts.loading import AgentEnv, agent_files, load_agent

ToolType = Literal["function", "agent", "mcp", "hosted", "local"]
_PATIENCE_S = 60
_HOSTED = (
    *(sdk.CodeInterpreterTool, sdk.FileSearchTool, sdk.HostedMCPTool, sdk.ImageGenerationTool),
    *(sdk.ProgrammaticToolCallingTool, sdk.ToolSearchTool, sdk.WebSearchTool),
)
_ORIGINS: Mapping[sdk.ToolOriginType, ToolType] = {
    sdk.ToolOriginType.MCP: "mcp",
    sdk.ToolOriginType.AGENT_AS_TOOL: "agent",
}
_IMPORTANCE = {"agent": 1, "model": 2, "tools": 3, "handoffs": 5, "file": 4}
_WISHES = {"model": 20, "tools": 30, "handoffs": 20, "file": 20}
_COLUMNS = [Column(name, place, wish=_WISHES.get(name)) for name, place in _IMPORTANCE.items()]


class ListedTool(Record):
    """A tool, and who runs it: the agent's own code, another agent, an MCP server, the endpoint, or this machine."""

    name: str
    type: ToolType


class ListedAgent(Record):
    """An agent that can be named. With an `error` it could not be loaded, and only its place is filled in."""

    name: str
    """What --agent takes."""
    file: str | None = None
    entry_point: str | None = None
    packaged: bool = False
    model: str | None = None
    tools: tuple[ListedTool, ...] = ()
    handoffs: tuple[str, ...] = ()
    error: str | None = None


def agents(caller: Caller) -> None:
    """Print the agents there are: here in agents_config/, packaged, and installed entry points."""
    logging.getLogger("openai.agents").setLevel(logging.CRITICAL)  # why a server does not start is in the list
    settings = load(merge_sources({}, caller.environ, None))
    endpoint = agent_endpoint(settings, Credentials.naming(caller.environ, settings.base_url))
    with stdout_for_results():  # what an agent's file prints is not the result
        listed = anyio.run(list_agents, Path.cwd(), settings, endpoint)
    if caller.as_json:
        print_json([agent.model_dump(mode="json") for agent in listed])
    else:
        print_lines(lambda width: agents_table(listed, Path.cwd(), width))


async def list_agents(here: Path, settings: Settings, endpoint: Endpoint | None) -> list[ListedAgent]:
    """Return every agent that `--agent NAME` finds, those in `here` first; a name found twice is its first place's."""
    places: dict[str, ListedAgent] = {}
    for path in agent_files(here):
        places.setdefault(path.stem, ListedAgent(name=path.stem, file=str(path)))
    for entry in entry_points(group="harness.agents"):
        places.setdefault(entry.name, ListedAgent(name=entry.name, entry_point=entry.value))
    return [await _load_listed(place, here, settings, endpoint) for place in places.values()]


def agents_table(agents: Iterable[ListedAgent], here: Path, width: int) -> Iterator[RenderableType]:
    """Yield the agents as a table, and under it those that cannot be loaded."""
    rows: list[TableRow] = []
    broken: list[ListedAgent] = []
    for agent in agents:
        if agent.error:
            broken.append(agent)
            continue
        tools = [t.name if t.type == "function" else f"{t.name} ({t.type})" for t in agent.tools]
        cells = (agent.name, agent.model or "", ", ".join(tools), ", ".join(agent.handoffs), _where(agent, here))
        rows.append(TableRow([visible_name(cell) for cell in cells]))
    yield from table_or_list(_COLUMNS, rows, width)
    if broken:
        yield visible_text("cannot be loaded:", style="bold red")
    for agent in broken:
        yield visible_text(f"{agent.name} ({_where(agent, here)}): {agent.error}")


async def _load_listed(place: ListedAgent, here: Path, settings: Settings, endpoint: Endpoint | None) -> ListedAgent:
    try:
        loaded = load_agent(place.name, here)
        endpoint = None if settings.offline else endpoint
        env = AgentEnv(  # what a run started now would hand to the agent's file
            api=endpoint.api if endpoint else "chat",
            offline=settings.offline or (endpoint is None and loaded.packaged),
            corpus=settings.corpus,
            model=settings.model,
            rng=random.Random(settings.seed),
        )
        with anyio.fail_after(_PATIENCE_S):
            async with loaded.open(env) as agent, AsyncExitStack() as connections:
                for server in servers_to_connect(agent):
                    await connect(server, connections)
                # Not get_all_tools: that asks each tool's `is_enabled`, which may need the context of a run.
                tools = [*await agent.get_mcp_tools(sdk.RunContextWrapper(None)), *agent.tools]
        model = get_default_model() if agent.model is None else agent.model
        parts: dict[str, Any] = {
            "file": str(loaded.file) if loaded.file else place.file,
            "packaged": loaded.packaged,
            "model": model if isinstance(model, str) else getattr(model, "model", None) or type(model).__name__,
            "tools": tuple(ListedTool(name=tool.name, type=_type(tool)) for tool in tools),
            "handoffs": tuple(h.name if isinstance(h, sdk.Agent) else h.agent_name for h in agent.handoffs),
        }
    except UsageError as exc:
        return place.model_copy(update={"error": str(exc)})
    except TimeoutError:
        return place.model_copy(update={"error": f"it was not ready after {_PATIENCE_S} seconds"})
    except (Exception, SystemExit) as exc:  # noqa: BLE001 - one broken agent must not hide the others
        first = first_error(exc) if isinstance(exc, BaseExceptionGroup) else exc
        reason = f"{type(first).__name__}: {' '.join(str(first).split()) or 'no message'}"
        return place.model_copy(update={"error": reason})
    return place.model_copy(update=parts)


def _type(tool: sdk.Tool) -> ToolType:
    if isinstance(tool, sdk.FunctionTool):
        origin = get_function_tool_origin(tool)
        return _ORIGINS.get(origin.type, "function") if origin else "function"
    return "hosted" if isinstance(tool, _HOSTED) else "local"


def _where(agent: ListedAgent, here: Path) -> str:
    """Return where an agent comes from in few characters; --json has the whole path."""
    if agent.file is None:
        return f"entry point {agent.entry_point}"
    path = Path(agent.file)
    if path.is_relative_to(here):
        return str(path.relative_to(here))
    return "packaged" if agent.packaged else agent.file
