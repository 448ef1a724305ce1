"""The two stages of a run, opened with their connections: an engine that rolls out, a ranker that judges and ranks."""

import random
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import anyio
from agents import Agent

from harness.archive.store import Store, VerdictStore
from harness.core.errors import UsageError
from harness.core.settings import OFFLINE_JUDGE, Settings
from harness.endpoints.address import Endpoint, judge_endpoint
from harness.endpoints.costs import Ceiling
from harness.endpoints.credentials import Credentials
from harness.endpoints.gate import Gate, Gates, Patience
from harness.endpoints.prices import Priced, price_list
from harness.endpoints.refused_settings import RefusedSettings
from harness.endpoints.state import EndpointState
from harness.endpoints.token_requests import TokenRequests
from harness.judging.batch_desk import BatchAsk, BatchDesk
from harness.judging.embedded import EmbeddedAsk
from harness.judging.endpoint import FLEX_REPLY_S, EndpointAsk
from harness.judging.judge_model import Ask, JudgeModel, JudgePatience
from harness.judging.judges import Judge, PairwiseJudge
from harness.judging.rubric import Rubric
from harness.judging.verdict_cache import VerdictCache
from harness.pipeline.plan import JudgingPlan
from harness.pipeline.resolve import AgentSpec, JudgeSpec, member_keys
from harness.pipeline.run_environment import RunEnvironment
from harness.rollouts.attempt import ModelSource, RunContext
from harness.rollouts.engine import Engine, sdk_in_hand
from harness.rollouts.first_call import FirstCall
from harness.rollouts.graph import connect, servers_to_connect
from harness.rollouts.loop_watch import LoopWatch
from harness.rollouts.maker import RolloutMaker, RolloutsHere
from harness.rollouts.models import provider_for
from harness.rollouts.nested import LoopModels
from harness.rollouts.servers import RolloutsOnServers
from harness.rollouts.tool_threads import tools_in_threads
from harness.tournament.group import rules_of
from harness.tournament.ranker import METHODS, Ranker

_OWN_THREADS = 4
"""Threads for what is no tool, such as waiting for a slow disk."""


def gate_of(endpoint: Endpoint | None, settings: Settings, gates: Gates) -> Gate:
    """Return the gate that all calls to an endpoint go through; None is where the agent's own models are."""
    patience = Patience(settings.request_timeout, settings.give_up)
    return gates.of(endpoint, patience, random.Random(f"{settings.seed}/gate"))


@asynccontextmanager
async def open_engine(
    spec: AgentSpec,
    settings: Settings,
    store: Store,
    run_env: RunEnvironment,
    *,
    run_id: str = "",
    ceiling: Ceiling | None = None,
) -> AsyncGenerator[Engine]:
    """Give an engine, with the connections that the whole run shares; they are closed at the end."""
    tokens = TokenRequests(settings.tokens, run_env.progress.note)  # one for all event loops

    def models_of_loop(endpoint: Endpoint | None, refused: RefusedSettings) -> LoopModels:
        gate = gate_of(endpoint, settings, run_env.gates)  # one for all event loops
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
        connections.enter_context(sdk_in_hand())
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
            alternatives=sources if spec.servers else (),
        )
        run_env.gates.stand_in([gate_of(server, settings, run_env.gates) for server in spec.servers])
        source: Any = spec.loaded.source
        if spec.loaded.shared_mcp and isinstance(source, Agent):
            for server in servers_to_connect(source):  # pyright: ignore[reportUnknownArgumentType]
                await connect(server, connections)
        maker: RolloutMaker = RolloutsOnServers(run_context) if spec.servers else RolloutsHere(run_context)
        if settings.engine == "ray":
            from harness.pipeline.ray_engine.ray_rollouts import open_rollouts_on_ray  # noqa: PLC0415 - imports Ray

            on_ray = open_rollouts_on_ray(spec, run_context, run_env)
            maker = await connections.enter_async_context(on_ray)
        connections.enter_context(tools_in_threads(settings.concurrency + _OWN_THREADS, run_env.progress.note))
        connections.enter_context(LoopWatch(run_env.progress.note))
        first_call = FirstCall(run_env.deadline.alone_s)
        yield Engine(run_context, anyio.CapacityLimiter(settings.concurrency), first_call, maker)


@asynccontextmanager
async def open_ranker(
    plan: JudgingPlan, cache: VerdictCache, run_env: RunEnvironment, *, one_of_many: bool = False
) -> AsyncGenerator[Ranker]:
    """Give a ranker whose judges look in `cache` before they are asked; their connections are closed at the end.

    With `one_of_many` a group is ranked provisionally where its judge can be learnt from the others, too.
    """
    rules = replace(rules_of(plan.settings, plan.judge.counter), one_of_many=one_of_many)
    judges = open_judge_models(plan.judge, plan.settings, plan.credentials, cache.store, run_env, batches=cache.batches)
    async with judges as models:
        yield METHODS[plan.settings.judge].ranker(models, plan.rubric, cache, rules)


@asynccontextmanager
async def open_judge(
    spec: JudgeSpec,
    rubric: Rubric,
    settings: Settings,
    credentials: Credentials,
    store: VerdictStore,
    run_env: RunEnvironment,
) -> AsyncGenerator[Judge]:
    """Give the judge of pairs that `spec` names, which is no jury; its connections are closed at the end."""
    async with open_judge_models(spec, settings, credentials, store, run_env) as (model,):
        yield PairwiseJudge(model, rubric)


@asynccontextmanager
async def open_judge_models(
    spec: JudgeSpec,
    settings: Settings,
    credentials: Credentials,
    store: VerdictStore,
    run_env: RunEnvironment,
    extra: Mapping[str, Any] | None = None,
    *,
    batches: BatchDesk | None = None,
) -> AsyncGenerator[list[JudgeModel]]:
    """Give the models that `spec` names; their raw replies are kept in `store`.

    `extra` are parameters added to every request. With `batches` nothing is sent: questions are left there.
    Raises UsageError without a key, and as `Credentials.key`.
    """
    async with AsyncExitStack() as connections:
        models: list[JudgeModel] = []
        for member, endpoint in judge_endpoints(spec, settings, credentials):
            if batches and endpoint:
                ask = BatchAsk(batches, member.identity, member.model, endpoint.api, extra or {})
                pricing = Priced(member.model, endpoint.base_url, prices=price_list(settings))
            else:
                ask, pricing = _ask(member, endpoint, settings, run_env, extra or {}, connections)
            models.append(
                JudgeModel(
                    ask=ask,
                    identity=member.identity,
                    pricing=pricing,
                    keep=store.put_blob,
                    clock=run_env.clock,
                    settle=store.settle,
                    extra=extra or {},
                    patience=JudgePatience(settings.judge_timeout, settings.repairs),
                )
            )
        yield models


def judge_endpoints(
    spec: JudgeSpec, settings: Settings, credentials: Credentials
) -> list[tuple[JudgeSpec, Endpoint | None]]:
    """Return each member of a jury, and where it is asked with its key; None for the embedded judge.

    Raises UsageError without a key, and as `Credentials.key`.
    """
    members = member_keys(spec, settings, credentials)
    return [(member, _endpoint(member, settings, of_member)) for member, of_member in members]


def _endpoint(spec: JudgeSpec, settings: Settings, credentials: Credentials) -> Endpoint | None:
    if spec.offline:
        return None
    at_judge = replace(settings, judge_base_url=spec.base_url, judge_api=spec.api)
    # a judge recorded at OpenAI's own address stays there, wherever OPENAI_BASE_URL points now
    endpoint = judge_endpoint(
        at_judge, credentials if spec.base_url else credentials.with_variables(OPENAI_BASE_URL="")
    )
    if endpoint is None:
        raise UsageError(f"the judge {spec.model!r} needs a key: set OPENAI_API_KEY (or HARNESS_JUDGE_API_KEY)")
    return endpoint


def _ask(
    spec: JudgeSpec,
    endpoint: Endpoint | None,
    settings: Settings,
    run_env: RunEnvironment,
    extra: Mapping[str, Any],
    connections: AsyncExitStack,
) -> tuple[Ask, Priced]:
    """Return how to ask the model that `spec` names, and what it costs."""
    if endpoint is None:
        return EmbeddedAsk(), Priced(OFFLINE_JUDGE, None, free=True)
    ask = EndpointAsk(
        endpoint,
        spec.model,
        _gate_of_judge(endpoint, settings, run_env.gates),
        retries=settings.retries,
        limit=settings.judge_concurrency,
        alone_s=run_env.deadline.alone_s,
        extra=extra,
        tier=settings.judge_tier,
    )
    connections.push_async_callback(ask.aclose)
    return ask, Priced(spec.model, endpoint.base_url, prices=price_list(settings))


def _gate_of_judge(endpoint: Endpoint, settings: Settings, gates: Gates) -> Gate:
    """Return the gate of a judge's calls: one of their own, with more patience, where they ask for another tier."""
    if settings.judge_tier == "default":
        return gate_of(endpoint, settings, gates)
    patience = Patience(max(settings.request_timeout, FLEX_REPLY_S), max(settings.give_up, FLEX_REPLY_S))
    return gates.of(endpoint, patience, random.Random(f"{settings.seed}/gate"), settings.judge_tier)
