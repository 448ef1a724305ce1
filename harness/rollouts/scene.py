"""What a rollout runs in: its agent, its context, and whatever the agent's file sets up and cleans up."""

import inspect
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
from agents import Agent

from harness.records import Query
from harness.rollouts.environment import AgentEnv
from harness.rollouts.loading import LoadedAgent

CLEAN_UP_S = 30.0
"""How long a clean-up may take once its rollout is over, however that ended."""


@dataclass
class Scene:
    """One rollout's own: nothing here is shared with another. `clean_up_error` is set if the clean-up raised."""

    context: Any = None
    clean_up_error: str | None = None


@asynccontextmanager
async def set_up(loaded: LoadedAgent, env: AgentEnv, query: Query, scene: Scene) -> AsyncGenerator[Agent[Any]]:
    """Give the agent of one rollout and fill its `scene`: `context(query)`, `before_rollout(query, context)`, agent.

    `after_rollout(query, context)` runs also when the rollout failed or was cancelled. If it raises, the rollout's
    own result stands, and the error is told beside it.
    """
    scene.context = await _called(loaded.context, query)
    try:
        await _called(loaded.before_rollout, query, scene.context)
        async with loaded.open(env) as agent:
            yield agent
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
