"""What `agents` does: load every agent as `run` would, and say what it is made of."""

import json
import logging
import random
import sys
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack, redirect_stdout
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Literal, cast

import anyio
import typer
from agents import (
    Agent,
    CodeInterpreterTool,
    FileSearchTool,
    FunctionTool,
    HostedMCPTool,
    ImageGenerationTool,
    ProgrammaticToolCallingTool,
    RunContextWrapper,
    Tool,
    ToolOriginType,
    ToolSearchTool,
    WebSearchTool,
)
from agents.models import get_default_model
from agents.tool import get_function_tool_origin
from rich import box
from rich.console import Group as Lines
from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from harness.cli.output import stdout
from harness.core.errors import UsageError
from harness.core.records import Record
from harness.core.settings import Settings
from harness.core.settings_sources import environment, load, merge_sources
from harness.endpoints import Endpoint, agent_endpoint
from harness.rollouts import AgentEnv, LoadedAgent, agent_files, connect, load_agent, servers_to_connect

_PATIENCE_S = 60
_HOSTED = (
    CodeInterpreterTool,
    FileSearchTool,
    HostedMCPTool,
    ImageGenerationTool,
    ProgrammaticToolCallingTool,
    ToolSearchTool,
    WebSearchTool,
)
_ORIGINS: Mapping[ToolOriginType, Literal["mcp", "agent"]] = {
    ToolOriginType.MCP: "mcp",
    ToolOriginType.AGENT_AS_TOOL: "agent",
}


class ListedTool(Record):
    """A tool, and who runs it: the agent's own code, another agent, an MCP server, the endpoint, or this machine."""

    name: str
    type: Literal["function", "agent", "mcp", "hosted", "local"]


class ListedAgent(Record):
    """An agent as found. With an `error` only what could be told without loading it is there."""

    name: str
    """What --agent takes."""
    file: str | None = None
    entry_point: str | None = None
    packaged: bool = False
    model: str | None = None
    tools: tuple[ListedTool, ...] = ()
    handoffs: tuple[str, ...] = ()
    error: str | None = None


def agents_command(*, as_json: bool) -> None:
    """Do `harness agents`."""
    logging.getLogger("openai.agents").setLevel(logging.CRITICAL)  # why a server does not start is in the list
    environ = environment()
    settings = load(merge_sources({}, environ, None))
    with redirect_stdout(sys.stderr):  # what an agent's file prints is not the result
        found = anyio.run(list_agents, Path.cwd(), settings, agent_endpoint(settings, environ))
    if as_json:
        typer.echo(json.dumps([a.model_dump(mode="json") for a in found], ensure_ascii=False, indent=1))
    else:
        stdout().print(agents_table(found, Path.cwd()))


async def list_agents(here: Path, settings: Settings, endpoint: Endpoint | None) -> list[ListedAgent]:
    """Return every agent that `--agent NAME` finds, those in `here` first; a name found twice is its first place's."""
    places: dict[str, ListedAgent] = {}
    for path in agent_files(here):
        places.setdefault(path.stem, ListedAgent(name=path.stem, file=str(path)))
    for entry in entry_points(group="harness.agents"):
        places.setdefault(entry.name, ListedAgent(name=entry.name, entry_point=entry.value))
    return [await _looked_at(place, here, settings, endpoint) for place in places.values()]


def agents_table(found: Iterable[ListedAgent], here: Path) -> RenderableType:
    """Return the agents as a table, and under it those that cannot be loaded."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in ("agent", "model", "tools", "handoffs", "file"):
        table.add_column(name, overflow="fold")
    broken: list[RenderableType] = []
    for agent in found:
        if agent.error:
            broken.append(Text(f"{agent.name} ({_where(agent, here)}): {agent.error}"))
            continue
        tools = [t.name if t.type == "function" else f"{t.name} ({t.type})" for t in agent.tools]
        cells = (agent.name, agent.model or "", ", ".join(tools), ", ".join(agent.handoffs), _where(agent, here))
        table.add_row(*(escape(cell) for cell in cells))
    return Lines(table, *([Text("cannot be loaded:", style="bold red"), *broken] if broken else []))


async def _looked_at(place: ListedAgent, here: Path, settings: Settings, endpoint: Endpoint | None) -> ListedAgent:
    try:
        loaded = load_agent(place.name, here)
        with anyio.fail_after(_PATIENCE_S):
            async with loaded.open(_env(loaded, settings, endpoint)) as agent, AsyncExitStack() as connections:
                for server in servers_to_connect(agent):
                    await connect(server, connections)
                told = await _parts(agent)
    except UsageError as exc:
        return place.model_copy(update={"error": str(exc)})
    except TimeoutError:
        return place.model_copy(update={"error": f"it was not ready after {_PATIENCE_S} seconds"})
    except (Exception, SystemExit) as exc:  # noqa: BLE001 - one broken agent must not hide the others
        return place.model_copy(update={"error": _reason(exc)})
    file = str(loaded.file) if loaded.file else place.file
    return place.model_copy(update={**told, "file": file, "packaged": loaded.packaged})


def _env(loaded: LoadedAgent, settings: Settings, endpoint: Endpoint | None) -> AgentEnv:
    """Return what a run started now would hand to the agent's file."""
    endpoint = None if settings.offline else endpoint
    return AgentEnv(
        api=endpoint.api if endpoint else "chat",
        offline=settings.offline or (endpoint is None and loaded.packaged),
        corpus=settings.corpus,
        model=settings.model,
        rng=random.Random(settings.seed),
    )


async def _parts(agent: Agent[Any]) -> dict[str, Any]:
    model = get_default_model() if agent.model is None else agent.model
    # Not get_all_tools: that asks each tool's `is_enabled`, which may need the context of a run.
    tools = [*await agent.get_mcp_tools(RunContextWrapper(None)), *agent.tools]
    return {
        "model": model if isinstance(model, str) else getattr(model, "model", None) or type(model).__name__,
        "tools": tuple(ListedTool(name=t.name, type=_type(t)) for t in tools),
        "handoffs": tuple(h.name if isinstance(h, Agent) else h.agent_name for h in agent.handoffs),
    }


def _type(tool: Tool) -> Literal["function", "agent", "mcp", "hosted", "local"]:
    if isinstance(tool, FunctionTool):
        origin = get_function_tool_origin(tool)
        return _ORIGINS.get(origin.type, "function") if origin else "function"
    return "hosted" if isinstance(tool, _HOSTED) else "local"


def _reason(exc: BaseException) -> str:
    if isinstance(exc, BaseExceptionGroup):
        return _reason(cast("BaseExceptionGroup[Any]", exc).exceptions[0])
    return f"{type(exc).__name__}: {' '.join(str(exc).split()) or 'no message'}"


def _where(agent: ListedAgent, here: Path) -> str:
    """Return where an agent comes from in few characters; --json has the whole path."""
    if agent.file is None:
        return f"entry point {agent.entry_point}"
    path = Path(agent.file)
    if path.is_relative_to(here):
        return str(path.relative_to(here))
    return "packaged" if agent.packaged else agent.file
