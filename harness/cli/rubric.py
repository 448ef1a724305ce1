"""`harness rubric`: the rubrics there are, one of them in full, and whether a file is one."""

import logging
import random
import shlex
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
from rich.text import Text

from harness.cli.console import print_lines, stdout
from harness.cli.new_files import IS_NAME, write_new
from harness.cli.output import Caller, print_json, say
from harness.cli.progress_bars import stdout_for_results
from harness.core.errors import ExitCode, UsageError, command, did_you_mean, first_error, on_a_line, quoted
from harness.core.records import Record
from harness.core.settings import Settings
from harness.core.settings_sources import load, merge_sources
from harness.core.unicode import visible_name
from harness.endpoints.address import Endpoint, agent_endpoint
from harness.endpoints.credentials import Credentials
from harness.judging.rubric import Rubric
from harness.judging.rubric_files import load_rubric, packaged_rubrics, read_rubric, rubric_source
from harness.report.terminal.table import Column, TableRow, table_or_list, visible_text
from harness.rollouts.graph import connect, servers_to_connect
from harness.rollouts.loading import AgentEnv, agent_files, load_agent


def show_rubric(name: str | None, caller: Caller) -> None:
    """Print the packaged rubrics, or what the judge is told by one of them. Raises UsageError for what is no rubric."""
    if name is None:
        rubrics = [load_rubric(name) for name in packaged_rubrics()]
        if caller.as_json:
            print_json([_summary(each) for each in rubrics])
            return
        columns = [Column("rubric", 1), Column("version", 2), Column("path", 4, wish=24), Column("answer", 3, wish=24)]
        rows = [TableRow([r.name, str(r.version), _block(r, "path"), _block(r, "answer")]) for r in rubrics]
        print_lines(lambda width: table_or_list(columns, rows, width))
        return
    from harness.judging.prompt import fixed_message
    from harness.judging.reply import schema

    loaded = load_rubric(name)
    prompt, reply_schema = fixed_message(loaded), schema(loaded)
    if caller.as_json:
        print_json(_summary(loaded) | {"instructions": loaded.instructions, "prompt": prompt, "schema": reply_schema})
        return
    print_lines(lambda width: _description(loaded, width))
    stdout().print(visible_text("\nWhat the judge is told first\n", style="bold"))
    say(prompt)
    stdout().print(visible_text("Schema of its reply\n", style="bold"))
    print_json(reply_schema)


def print_faults(file: str) -> ExitCode:
    """Tell everything that is wrong with a rubric, by file and line; exit code 0 if nothing is, else 2."""
    checked = read_rubric(rubric_source(file, on_a_line(file)))
    if not isinstance(checked, Rubric):
        for fault in checked:
            say(f"{file}:{fault.line}: {fault.text}")
        return ExitCode.USAGE
    idle = f"; weighs nothing and is not asked for: {', '.join(checked.left_out)}" if checked.left_out else ""
    blocks = f"path {_block(checked, 'path')}; answer {_block(checked, 'answer')}"
    say(f"{file}: ok: {checked.label}; {blocks}{idle}")
    return ExitCode.DONE


def new_rubric(file: Path, source: str, *, force: bool) -> None:
    """Copy a packaged rubric into a file of your own, ready to edit."""
    names = packaged_rubrics()
    if source not in names:
        hint = did_you_mean(source, names)
        raise UsageError(f"--from {quoted(source)}: no such rubric{hint}; there are: {', '.join(names)}")
    if str(file) in names:
        raise UsageError(f"{file} is the name of a packaged rubric, which --rubric would take instead: name {file}.md")
    text = rubric_source(source)
    if IS_NAME.fullmatch(file.stem):
        text = text.replace(f"name: {source}\n", f"name: {file.stem}\n", 1)
    write_new(file, text, force=force)
    shown = shlex.quote(on_a_line(file))
    say(f"{on_a_line(file)}: a copy of {source}, ready to edit")
    say(f"next: {command(f'rubric check {shown}')}\nnext: {command(f'run --rubric {shown}')}")


def _description(described: Rubric, width: int) -> Iterator[Text]:
    yield visible_text(described.label, style="bold")
    yield visible_text(
        f"weights: path {described.path_weight}, answer {described.answer_weight}; a block's mean is rounded half up"
    )
    if described.max_words:
        yield visible_text(f"an answer of more than {described.max_words} words is flagged")
    for flag, limits in described.caps.items():
        most = ", ".join(f"{key} {mark}" for key, mark in limits.items())
        yield visible_text(f"flagged as {flag}: at most {most}")
    if described.left_out:
        yield visible_text(f"in a block of weight 0, so not asked for: {', '.join(described.left_out)}")
    columns = [
        *(Column("dimension", 1), Column("block", 2)),
        *(Column("title", 4, wish=30), Column("description", 3, wish=60)),
    ]
    rows = [
        TableRow([d.key, d.block, " ".join(d.title.split()), " ".join(d.description.split())])
        for d in described.dimensions
    ]
    yield from table_or_list(columns, rows, width)


def _block(described: Rubric, block: str) -> str:
    weight = described.path_weight if block == "path" else described.answer_weight
    keys = ", ".join(dimension.key for dimension in described.block(block))
    return f"{weight} ({keys})" if keys else str(weight)


def _summary(described: Rubric) -> dict[str, Any]:
    left_out = {"body", "source", "instructions", "path_weight", "answer_weight"}
    fields = described.model_dump(mode="json", exclude=left_out)
    weights = {"path_weight": float(described.path_weight), "answer_weight": float(described.answer_weight)}
    return fields | weights | {"fingerprint": described.fingerprint}


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
