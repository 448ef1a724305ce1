"""The stages of a run, opened with their connections: an engine that rolls out, a ranker, its judges' batches."""

import math
import random
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from fractions import Fraction
from typing import Any

from harness.archive.batch_log import BatchLog
from harness.archive.store import RunStore, VerdictStore
from harness.core.errors import UsageError, call, option, quoted, switch
from harness.core.settings import OFFLINE_JUDGE, Settings
from harness.endpoints.address import Endpoint, judge_endpoint
from harness.endpoints.batch_files import BatchFiles
from harness.endpoints.costs import Priced, price_list
from harness.endpoints.credentials import Credentials
from harness.endpoints.gate import Patience
from harness.judging.batch_desk import BatchAsk, BatchDesk, BatchRounds
from harness.judging.endpoint import FLEX_REPLY_S, EndpointAsk
from harness.judging.judge_model import Ask, JudgeModel, JudgePatience
from harness.judging.judges import EmbeddedAsk
from harness.judging.verdict_cache import VerdictCache
from harness.pipeline.engines import OpenMaker, endpoint_gate
from harness.pipeline.plan import JudgingPlan
from harness.pipeline.resolve import JudgeSpec, member_keys
from harness.pipeline.run_environment import RunEnvironment
from harness.ranking.topologies import Entry, make_topology
from harness.rollouts.loading import LoadedAgent
from harness.tournament.group import rules_of
from harness.tournament.ranker import METHODS, Ranker


def maker_elsewhere(settings: Settings) -> OpenMaker | None:
    """Return what opens a run's rollouts on a cluster or in processes of their own; None where this process does."""
    if settings.engine == "ray":
        from harness.pipeline.ray_rollouts import open_rollouts_on_ray  # noqa: PLC0415 - imports Ray

        return open_rollouts_on_ray
    if settings.isolate == "process":
        from harness.pipeline.process_rollouts import open_rollouts_in_processes  # noqa: PLC0415 - for few runs

        return open_rollouts_in_processes
    return None


@asynccontextmanager
async def open_ranker(
    plan: JudgingPlan, cache: VerdictCache, run_env: RunEnvironment, *, one_of_many: bool = False
) -> AsyncGenerator[Ranker]:
    """Give a ranker whose judges look in `cache` first; `one_of_many` lets a judge be learnt from other groups, too."""
    rules = rules_of(plan.settings, plan.judge.counter, plan.rubric.rendering)
    rules = replace(rules, one_of_many=one_of_many, leanings=plan.leanings)
    parts = plan.judge, plan.settings, plan.credentials, cache.store, run_env
    agents = None if cache.free or plan.settings.topology == "none" else plan.judge_agents
    judges = open_judge_models(*parts, batches=cache.batches, may_fail=plan.judge_may_fail, agents=agents)
    async with judges as models:
        yield METHODS[plan.settings.judge].ranker(models, plan.rubric, cache, rules)


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
    may_fail: bool = False,
    agents: Mapping[str, LoadedAgent] | None = None,
) -> AsyncGenerator[list[JudgeModel]]:
    """Give the models that `spec` names; their replies are kept in `store`. Raises UsageError as `Credentials.key`.

    `agents` are those of its members that are agents, by identity; None: nothing will be asked.
    """
    async with AsyncExitStack() as connections:
        models: list[JudgeModel] = []
        for member, endpoint in judge_endpoints(spec, settings, credentials, agents):
            patience, more = JudgePatience(settings.judge_timeout, settings.repairs), extra or {}
            if member.agent:
                ask = EmbeddedAsk()  # never asked without the agent: whoever may ask has it
                if loaded := (agents or {}).get(member.identity):
                    from harness.pipeline.judge_agents import open_judge_agent  # noqa: PLC0415 - where an agent judges

                    opening = open_judge_agent(member, loaded, endpoint, settings, store, run_env)
                    ask = await connections.enter_async_context(opening)
                pricing = Priced(member.asked, member.priced_at, prices=price_list(settings))
                # a reply off its form ends the agent's own run: what is left to mend is what it cites
                patience = JudgePatience(math.inf, settings.repairs)
                more = {**more, "judge_agent": member.agent.fingerprint}
            elif batches and endpoint:
                ask = BatchAsk(batches, member.identity, member.model, endpoint.api, extra or {})
                pricing = Priced(member.model, endpoint.base_url, prices=price_list(settings))
            else:
                ask, pricing = _ask(member, endpoint, settings, run_env, extra or {}, connections, may_fail=may_fail)
            models.append(
                JudgeModel(
                    ask=ask,
                    identity=member.identity,
                    pricing=pricing,
                    keep=store.put_blob,
                    clock=run_env.clock,
                    settle=store.settle,
                    extra=more,
                    patience=patience,
                    reads_records=member.agent is not None,
                )
            )
        yield models


def judge_endpoints(
    spec: JudgeSpec,
    settings: Settings,
    credentials: Credentials,
    agents: Mapping[str, LoadedAgent] | None = None,
) -> list[tuple[JudgeSpec, Endpoint | None]]:
    """Return a jury's members, and where each is asked (None: embedded, or by models of its own).

    Raises UsageError as `Credentials.key`, and for an agent that is not at hand where `agents` are given.
    """
    endpoints = list[tuple[JudgeSpec, Endpoint | None]]()
    for member, keys in member_keys(spec, settings, credentials):
        endpoint = None
        if member.agent and agents is not None and member.identity not in agents and not credentials.withheld:
            raise UsageError(
                f"the judge is the agent {quoted(member.model)}, and no code is loaded because an archive names it: "
                f"name it with {call('rescore', judge_agent='AGENT')}, or another judge with {option('judge_model')}"
            )
        if not (member.offline or (member.agent and member.agent.own_models)):
            at_judge = replace(settings, judge_base_url=member.base_url, judge_api=member.api)
            # a judge recorded at OpenAI's own address stays there, wherever OPENAI_BASE_URL points now
            its_keys = keys if member.base_url else keys.with_variables(OPENAI_BASE_URL="")
            if (endpoint := judge_endpoint(at_judge, its_keys)) is None:
                raise UsageError(
                    f"the judge {member.model!r} needs a key: set OPENAI_API_KEY (or HARNESS_JUDGE_API_KEY)"
                )
        endpoints.append((member, endpoint))
    return endpoints


def judge_fault(plan: JudgingPlan) -> UsageError | None:
    """Return why a judge of a plan cannot be asked: a key may not go there, or is missing. None where each can."""
    try:
        judge_endpoints(plan.judge, plan.settings, plan.credentials, plan.judge_agents)
    except UsageError as exc:
        return exc
    return None


def _ask(
    spec: JudgeSpec,
    endpoint: Endpoint | None,
    settings: Settings,
    run_env: RunEnvironment,
    extra: Mapping[str, Any],
    connections: AsyncExitStack,
    *,
    may_fail: bool,
) -> tuple[Ask, Priced]:
    if endpoint is None:
        return EmbeddedAsk(), Priced(OFFLINE_JUDGE, None, free=True)
    if settings.judge_tier == "default":
        gate = endpoint_gate(endpoint, settings, run_env.gates)
    else:  # calls of another tier are slower: they have a gate of their own, with more patience
        patience = Patience(max(settings.request_timeout, FLEX_REPLY_S), max(settings.give_up, FLEX_REPLY_S))
        rng = random.Random(f"{settings.seed}/gate")
        gate = run_env.gates.of(endpoint, patience, rng, settings.judge_tier)
    ask = EndpointAsk(
        endpoint,
        spec.model,
        gate,
        retries=settings.retries,
        limit=settings.judge_concurrency,
        alone_s=run_env.deadline.alone_s,
        extra=extra,
        tier=settings.judge_tier,
        may_fail=may_fail,
    )
    connections.push_async_callback(ask.aclose)
    return ask, Priced(spec.model, endpoint.base_url, prices=price_list(settings))


_DRAWS = 20


@asynccontextmanager
async def open_batches(
    plan: JudgingPlan, store: RunStore, run_env: RunEnvironment, *, free: bool = False
) -> AsyncGenerator[BatchRounds | None]:
    """Give the batches of a run that is judged so, else None. Raises Refused without batches, UsageError offline."""
    if free or not plan.settings.judge_batch or plan.settings.topology == "none":
        yield None
        return
    async with AsyncExitStack() as connections:
        files: dict[str, BatchFiles] = {}
        for member, endpoint in judge_endpoints(plan.judge, plan.settings, plan.credentials):
            if endpoint is None:
                raise UsageError(
                    f"{switch('judge_batch')}: the embedded judge has no batches; leave it out, or name a judge with "
                    f"{option('judge_model')}"
                )
            files[member.identity] = BatchFiles(endpoint, member.model, plan.settings.retries)
            connections.push_async_callback(files[member.identity].aclose)
        log = BatchLog(store.folder)
        desk = BatchDesk(store, log, files.keys())
        connections.callback(desk.close)
        rounds = BatchRounds(store, log, desk, files, run_env.clock, run_env.progress)
        await rounds.check()
        await rounds.collect()
        yield rounds


def describe_batches(settings: Settings) -> str | None:
    """Return in words how many batches a judging by batch takes one after another; None where one is enough."""
    if not settings.judge_batch or settings.judge != "pairwise":
        return None
    rng, most = random.Random(settings.seed), 0
    for _ in range(_DRAWS):  # tournaments of rollouts that all differ
        entry = Entry(range(settings.n), 0, settings.order, rng, settings.budget)
        topology, rounds = make_topology(settings.tournament, entry), 0
        strength = [Fraction(place) for place in rng.sample(range(settings.n), settings.n)]
        while pairings := topology.pairings():
            rounds += 1
            for pairing in pairings:
                topology.record(pairing, strength[pairing.a], strength[pairing.b])
        most = max(most, rounds)
    if most <= 1:
        return None
    return (
        f"by batch: {settings.topology} needs up to {most} batches, one after another, since who meets whom depends "
        f"on the round before; {option('topology', 'cyclic')} needs 1"
    )
