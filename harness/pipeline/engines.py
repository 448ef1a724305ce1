"""The engine that rolls out: it is opened in the process of a run, and in each worker of a Ray cluster."""

import random
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import anyio
from agents import Agent

from harness.archive.store import Store
from harness.core.errors import option
from harness.core.settings import Settings
from harness.endpoints.address import Endpoint
from harness.endpoints.costs import Ceiling
from harness.endpoints.gate import EndpointState, Gate, Gates, Patience
from harness.endpoints.refused_settings import RefusedSettings
from harness.endpoints.reply_tokens import TokenRequests
from harness.pipeline.resolve import AgentSpec
from harness.pipeline.run_environment import RunEnvironment
from harness.rollouts.capture import LOG_GUARD
from harness.rollouts.checkpoints import Attempted
from harness.rollouts.engine import Engine, RolloutsOnServers
from harness.rollouts.graph import connect, servers_to_connect
from harness.rollouts.maker import FirstCall, RolloutMaker, RolloutsHere
from harness.rollouts.models import LoopModels, provider_for
from harness.rollouts.recorder import CallBudget
from harness.rollouts.run_context import ModelSource, RunContext, WrittenFiles
from harness.rollouts.sdk_runner import RUNNER_GUARD
from harness.rollouts.tool_threads import LoopWatch, tools_in_threads

OpenMaker = Callable[[AgentSpec, RunContext, RunEnvironment], AbstractAsyncContextManager[RolloutMaker]]
"""Opens what makes a run's rollouts outside of this process."""
_OWN_THREADS = 4
"""Threads for what is no tool, such as waiting for a slow disk."""


def endpoint_gate(endpoint: Endpoint | None, settings: Settings, gates: Gates) -> Gate:
    """Return the gate that all calls to an endpoint go through; None is where the agent's own models are."""
    patience = Patience(settings.request_timeout, settings.give_up)
    return gates.of(endpoint, patience, random.Random(f"{settings.seed}/gate"))


@asynccontextmanager
async def open_run_context(
    spec: AgentSpec,
    settings: Settings,
    store: Store,
    run_env: RunEnvironment,
    *,
    run_id: str = "",
    ceiling: Ceiling | None = None,
) -> AsyncGenerator[RunContext]:
    """Open what all rollouts of a run share that are made in this process: models, tool threads, shared MCP servers."""
    tokens = TokenRequests(settings.tokens, run_env.progress.note)  # one for all event loops
    advice = f"rollouts share a process and its files ({option('isolate', 'process')} gives each its own)"
    if settings.isolate == "process":
        advice = "each has a working folder of its own, and this path is in none of them"

    def models_of_loop(endpoint: Endpoint | None, refused: RefusedSettings) -> LoopModels:
        gate = endpoint_gate(endpoint, settings, run_env.gates)  # one for all event loops
        provider, client = provider_for(endpoint, gate, tokens=tokens.wanted)
        state = EndpointState(gate, refused, alone_s=run_env.deadline.alone_s, tokens=tokens)
        return LoopModels(provider, state, client.close if client else None)

    def source_of(endpoint: Endpoint | None) -> ModelSource:
        refused = RefusedSettings(run_env.progress.note, strict=settings.strict_temperature)
        models = models_of_loop(endpoint, refused)
        if models.close:
            connections.push_async_callback(models.close)
        elsewhere = partial(models_of_loop, endpoint, refused)
        return ModelSource(endpoint, models.provider, spec.offline, models.state, elsewhere)

    async with AsyncExitStack() as connections:
        for guard in (RUNNER_GUARD, LOG_GUARD):  # each rollout uses both; this stops what outlives its rollout
            connections.enter_context(guard.in_use())
        sources = [source_of(endpoint) for endpoint in spec.servers or (spec.endpoint,)]
        run_context = RunContext(
            loaded=spec.loaded,
            settings=settings,
            models=sources[0],
            run_id=run_id,
            store=store,
            progress=run_env.progress,
            clock=run_env.clock,
            ceiling=ceiling or Ceiling(),
            stop=run_env.stop,
            deadline=run_env.deadline,
            policy_version=run_env.policy_version,
            on_write=WrittenFiles(run_env.progress.note, advice).wrote,
            alternatives=sources if spec.servers else (),
        )
        run_env.gates.together.append([endpoint_gate(server, settings, run_env.gates) for server in spec.servers])
        source: Any = spec.loaded.source
        if spec.loaded.shared_mcp and isinstance(source, Agent):
            for server in servers_to_connect(source):  # pyright: ignore[reportUnknownArgumentType]
                await connect(server, connections)
        connections.enter_context(tools_in_threads(settings.concurrency + _OWN_THREADS, run_env.progress.note))
        yield run_context


@asynccontextmanager
async def open_engine(
    spec: AgentSpec,
    settings: Settings,
    store: Store,
    run_env: RunEnvironment,
    open_maker: OpenMaker | None = None,
    *,
    run_id: str = "",
    ceiling: Ceiling | None = None,
    attempts_before: Callable[[str, int], Attempted | None] | None = None,
    calls: CallBudget | None = None,
) -> AsyncGenerator[Engine]:
    """Open an engine whose rollouts are made in this process, or by what `open_maker` opens.

    A rollout goes on from what `attempts_before` gives for its query and index.
    """
    async with AsyncExitStack() as opened:
        opening = open_run_context(spec, settings, store, run_env, run_id=run_id, ceiling=ceiling)
        run_context = await opened.enter_async_context(opening)
        if attempts_before and spec.loaded.replayable:
            run_context = replace(run_context, attempts_before=attempts_before, calls=calls or CallBudget())
        maker: RolloutMaker = RolloutsOnServers(run_context) if spec.servers else RolloutsHere(run_context)
        if open_maker:
            maker = await opened.enter_async_context(open_maker(spec, run_context, run_env))
        opened.enter_context(LoopWatch(run_env.progress.note))
        places, first_call = anyio.CapacityLimiter(settings.concurrency), FirstCall(run_env.deadline.alone_s)
        if side := run_env.side:
            places, first_call = side, side.first_call
        yield Engine(run_context, places, first_call, maker)
