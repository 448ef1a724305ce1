"""An agent and those it hands off to: walking them, and copying them for one rollout."""

import copy
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

from agents import Agent
from agents.mcp import MCPServer

Change = Callable[[Agent[Any]], dict[str, Any]]


def reachable(agent: Agent[Any]) -> list[Agent[Any]]:
    """Return an agent and its handoff targets, however far, each once.

    An agent inside `handoff(...)` or `as_tool` is not among them: the SDK offers no way in.
    """
    agents = [agent]
    for source in agents:  # grows while it is walked
        agents += [h for h in source.handoffs if isinstance(h, Agent) and not any(h is a for a in agents)]
    return agents


def copied(agent: Agent[Any], change: Change) -> Agent[Any]:
    """Return copies of all reachable agents, lists and all, with the fields that `change` gives for each."""
    return _copied(agent, change, {})


def servers_to_connect(agent: Agent[Any]) -> list[MCPServer]:
    """Return the MCP servers of reachable agents that nobody has connected yet."""
    servers = [s for a in reachable(agent) for s in a.mcp_servers]
    return list({id(s): s for s in servers if getattr(s, "session", None) is None}.values())


async def connect(server: MCPServer, connections: AsyncExitStack) -> MCPServer:
    """Connect a server until `connections` closes, and return it."""
    connections.push_async_callback(server.cleanup)
    await server.connect()
    return server


def _copied(agent: Agent[Any], change: Change, seen: dict[int, Agent[Any]]) -> Agent[Any]:
    if id(agent) not in seen:
        # Not clone(): that validates the settings anew, which takes longer than a turn of the SDK itself.
        twin = seen[id(agent)] = copy.copy(agent)
        twin.tools, twin.mcp_servers = [*agent.tools], [*agent.mcp_servers]
        for name, value in change(agent).items():
            setattr(twin, name, value)
        twin.handoffs = [_copied(h, change, seen) if isinstance(h, Agent) else h for h in agent.handoffs]
    return seen[id(agent)]
