"""What a rollout runs in: its agent, its context, and whatever the agent's file sets up and cleans up."""

import inspect
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import anyio
from agents import Agent
from agents.mcp import MCPServer

from harness.records import Query
from harness.rollouts.environment import AgentEnv
from harness.rollouts.graph import Change, connect, copied, servers_to_connect
from harness.rollouts.loading import LoadedAgent

CLEAN_UP_S = 30.0
"""How long a clean-up may take once its rollout is over, however that ended."""


@dataclass
class Scene:
    """One rollout's own: nothing here is shared with another. `clean_up_error` is set if the clean-up raised."""

    context: Any = None
    clean_up_error: str | None = None


@asynccontextmanager
async def set_up(
    loaded: LoadedAgent, env: AgentEnv, query: Query, scene: Scene, change: Change
) -> AsyncGenerator[Agent[Any]]:
    """Give the agent of one rollout and fill its `scene`: `context(query)`, `before_rollout(query, context)`, agent.

    The agent is a copy with the fields that `change` gives, so that rollouts share none of its lists. MCP servers that
    nobody has connected get a connection of this rollout's own.

    `after_rollout(query, context)` runs also when the rollout failed or was cancelled. If it raises, the rollout's
    own result stands, and the error is told beside it.
    """
    scene.context = await _called(loaded.context, query)
    try:
        await _called(loaded.before_rollout, query, scene.context)
        async with loaded.open(env) as agent, AsyncExitStack() as connections:
            own: dict[int, MCPServer] = {}
            for server in servers_to_connect(agent):
                own[id(server)] = await connect(deepcopy(server), connections)
            yield copied(agent, lambda a: change(a) | {"mcp_servers": [own.get(id(s), s) for s in a.mcp_servers]})
    finally:
        with anyio.move_on_after(CLEAN_UP_S, shield=True) as limit:
            try:
                await _called(loaded.after_rollout, query, scene.context)
            except Exception as exc:  # noqa: BLE001 - the user's code may raise anything
                scene.clean_up_error = f"after_rollout raised {type(exc).__name__}: {exc}"
        if limit.cancelled_caught:
            scene.clean_up_error = f"after_rollout was not done after {CLEAN_UP_S:g} s"


async def _called(function: Callable[..., Any] | None, *args: Any) -> Any:
    result = function(*args) if function else None
    return await result if inspect.isawaitable(result) else result
