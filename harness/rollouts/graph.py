"""An agent and those it hands off to: walking them, and copying them for one rollout."""

import copy
import re
import weakref
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlsplit

from agents import Agent, FunctionTool, Handoff, RunContextWrapper
from agents.mcp import MCPServer
from agents.tool import ToolOriginType, get_function_tool_origin

from harness.core.errors import HarnessError, first_error, on_a_line
from harness.core.redaction import MARK

Change = Callable[[Agent[Any]], dict[str, Any]]
Copies = dict[int, tuple[Agent[Any], Agent[Any]]]
"""Agents and their copies, by the agents' ids; an agent is kept, so that no other one gets its id."""


def is_agent(tool: FunctionTool) -> bool:
    """Return whether a tool is an agent used as one."""
    origin = get_function_tool_origin(tool)
    return origin is not None and origin.type is ToolOriginType.AGENT_AS_TOOL


def reachable(agent: Agent[Any]) -> list[Agent[Any]]:
    """Return an agent and its handoff targets, however far, each once; none inside `handoff(...)` or `as_tool`."""
    agents = [agent]
    for source in agents:  # grows while it is walked
        agents += [h for h in source.handoffs if isinstance(h, Agent) and not any(h is a for a in agents)]
    return agents


def in_sight(agent: Agent[Any]) -> list[Agent[Any]]:
    """Return an agent, its handoff targets and the agents that it uses as tools, however far, each once."""
    agents = [agent]
    for source in agents:  # grows while it is walked
        targets: list[Any] = [getattr(h, "_agent_ref", None) if isinstance(h, Handoff) else h for h in source.handoffs]
        targets = [t() if isinstance(t, weakref.ref) else t for t in targets]
        targets += [getattr(tool, "_agent_instance", None) for tool in source.tools]
        for target in targets:
            if isinstance(target, Agent) and not any(target is seen for seen in agents):
                agents.append(cast("Agent[Any]", target))
    return agents


def copied(agent: Agent[Any], change: Change, seen: Copies | None = None) -> Agent[Any]:
    """Return copies of all reachable agents but those `seen`, with the fields that `change` gives for each."""
    seen = {} if seen is None else seen
    if id(agent) not in seen:
        # Not clone(): that validates the settings anew, which takes longer than a turn of the SDK itself.
        twin = copy.copy(agent)
        seen[id(agent)], seen[id(twin)] = (agent, twin), (twin, twin)
        twin.tools, twin.mcp_servers = [*agent.tools], [*agent.mcp_servers]
        for name, value in change(agent).items():
            setattr(twin, name, value)
        handoffs: list[Any] = []
        for handoff in agent.handoffs:
            if isinstance(handoff, Agent):
                handoffs.append(copied(handoff, change, seen))
            else:
                handoffs.append(copy.copy(handoff))
                handoffs[-1].on_invoke_handoff = _CopiedHandoff(handoff.on_invoke_handoff, change, seen)
        twin.handoffs = handoffs
    return seen[id(agent)][1]


def servers_to_connect(agent: Agent[Any]) -> list[MCPServer]:
    """Return the MCP servers of reachable agents that nobody has connected yet."""
    servers = [s for a in reachable(agent) for s in a.mcp_servers]
    return list({id(s): s for s in servers if getattr(s, "session", None) is None}.values())


async def connect(server: MCPServer, connections: AsyncExitStack) -> MCPServer:
    """Connect a server until `connections` closes, and return it. Raises ServerFailed."""
    connections.push_async_callback(server.cleanup)
    try:
        await server.connect()
    except Exception as exc:
        group: Any = exc
        cause = first_error(group) if isinstance(exc, ExceptionGroup) else exc
        why = f"{type(cause).__name__}: {cause}".removesuffix(": ")
        raise ServerFailed(f"the MCP server {server.name!r} did not start ({_started_by(server)}): {why}") from exc
    return server


class ServerFailed(HarnessError):
    """An MCP server of the agent's cannot be connected to."""


_SECRET = re.compile(r"(?i)((?:key|token|secret|passw|auth|header|cred)[^\s=]*[= ])\S+")


def _started_by(server: MCPServer) -> str:
    """Return the command or address of a server, without what may be secret."""
    params: Any = getattr(server, "params", None)
    if command := getattr(params, "command", None):
        return on_a_line(_SECRET.sub(rf"\1{MARK}", " ".join([command, *params.args])))
    url = urlsplit(str(params["url"]) if server.__class__.__module__.startswith("agents.") else "")
    return (
        on_a_line(f"{url.scheme}://{url.netloc.rpartition('@')[2]}{url.path}") if url.netloc else type(server).__name__
    )


@dataclass(frozen=True)
class _CopiedHandoff:
    """What a `handoff(...)` object of a copied agent does: it hands over to a copy of its target."""

    hand_over: Callable[[RunContextWrapper[Any], str], Awaitable[Any]]
    change: Change
    seen: Copies

    async def __call__(self, context: RunContextWrapper[Any], arguments: str) -> Any:
        target = await self.hand_over(context, arguments)
        return copied(cast("Agent[Any]", target), self.change, self.seen) if isinstance(target, Agent) else target


def hands_off_unseen(agent: Agent[Any]) -> bool:
    """Return whether an agent has a `handoff(...)` object to a target that would not be copied."""
    return any(isinstance(h, Handoff) and not isinstance(h.on_invoke_handoff, _CopiedHandoff) for h in agent.handoffs)
