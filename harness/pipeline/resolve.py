"""From settings and environment to an engine and a judge: which endpoint, which model, embedded or not."""

import random
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio
from agents import Agent
from agents.models import get_default_model

from harness.archive import RunInfo, RunReader, Store
from harness.core.clock import Clock
from harness.core.errors import UsageError
from harness.core.records import Record, Rollout
from harness.core.redaction import Redactor
from harness.core.settings import OFFLINE_JUDGE, OFFLINE_MODEL, Api, Settings, without_credentials
from harness.endpoints import (
    Ceiling,
    Endpoint,
    EndpointState,
    Priced,
    agent_endpoint,
    host_of,
    judge_endpoint,
    jurors,
    secrets_in,
)
from harness.judging import (
    Ask,
    Buyer,
    EmbeddedAsk,
    EndpointAsk,
    Judge,
    Jury,
    ListBuyer,
    ListJury,
    ListRubric,
    PairwiseJudge,
    Pricing,
    Rubric,
    RulerJudge,
)
from harness.pipeline.surroundings import Surroundings
from harness.rollouts import (
    AgentEnv,
    Engine,
    FirstCall,
    LoadedAgent,
    ModelSource,
    RawCall,
    RunContext,
    connect,
    has_own_model,
    load_agent,
    provider_for,
    servers_to_connect,
)

Close = Callable[[], Any]
"""Closes the connections that were opened."""


class JudgeSpec(Record):
    """The judge as resolved: enough, with a key from the environment, to ask the same judge again."""

    model: str
    base_url: str | None = None
    api: Api = "chat"
    label: str | None = None
    jurors: tuple["JudgeSpec", ...] = ()
    """The members where it is a jury; `model` then names them all."""

    @property
    def offline(self) -> bool:
        """Whether it is the embedded judge, or a jury with it."""
        return self.model == OFFLINE_JUDGE or any(juror.offline for juror in self.jurors)

    @property
    def members(self) -> tuple["JudgeSpec", ...]:
        """The judges: a single one is a jury of itself."""
        return self.jurors or (self,)

    @property
    def identity(self) -> str:
        """Who judges: the label, else model@host; of a jury all of them."""
        if self.jurors:
            return ", ".join(juror.identity for juror in self.jurors)
        host = "offline" if self.offline else host_of(self.base_url)
        return self.label or f"{self.model}@{host}"

    @property
    def priced(self) -> Priced:
        """Where its tokens are priced; of a jury see each of `members`."""
        return Priced(self.model, self.base_url, free=self.offline)


@dataclass(frozen=True)
class AgentSpec:
    """The agent's side as resolved: an endpoint, the embedded model, or neither (it brings its own models)."""

    loaded: LoadedAgent
    endpoint: Endpoint | None
    offline: bool
    model: str | None
    """The starting agent's model by name, None where it is an object that has none."""

    @property
    def priced(self) -> Priced:
        """Where its tokens are priced; what a model that the agent brings along costs is not known."""
        url = self.endpoint.base_url if self.endpoint else None
        return Priced(self.model if self.endpoint else None, url, free=self.offline)


async def resolve_agent(loaded: LoadedAgent, settings: Settings, environ: Mapping[str, str]) -> AgentSpec:
    """Decide what the agent runs on. The agent is made once, to look at: what is no Agent is found out here.

    Raises UsageError where there is neither a key, nor an address, nor a model that the agent brings.
    """
    endpoint = None if settings.offline else agent_endpoint(settings, environ)
    offline = settings.offline or (endpoint is None and loaded.packaged)
    api: Api = endpoint.api if endpoint else "chat"
    env = AgentEnv(
        api=api, offline=offline, corpus=settings.corpus, model=settings.model, rng=random.Random(settings.seed)
    )
    async with loaded.open(env) as agent:
        if endpoint is None and not offline and not has_own_model(agent):
            raise UsageError(
                f"agent {loaded.name!r} has no model to run on: set OPENAI_API_KEY, name a server with --base-url "
                "(or OPENAI_BASE_URL), or try it on the embedded model with --offline"
            )
        return AgentSpec(loaded, endpoint, offline, OFFLINE_MODEL if offline else _model_name(agent, settings))


def resolve_judge(
    settings: Settings, environ: Mapping[str, str], agent_model: str | None, *, offline: bool
) -> JudgeSpec:
    """Decide who judges: --judge-model, else the agent's model; the embedded judge where the agent's is embedded.

    Several --judge-model are a jury. Raises UsageError where no judge can be reached or named, or one sits twice.
    """
    found = [_resolve_one(own, env, agent_model, offline=offline) for own, env in jurors(settings, environ)]
    if len(found) == 1:
        return found[0]
    if settings.judge_label:
        raise UsageError("--judge-label names one judge; the members of a jury are told apart as model@host")
    identities = [spec.identity for spec in found]
    if twice := next((name for name in identities if identities.count(name) > 1), None):
        raise UsageError(f"--judge-model: {twice} sits in the jury twice, and would be asked only once")
    return JudgeSpec(model=", ".join(spec.model for spec in found), jurors=tuple(found))


def _resolve_one(
    settings: Settings, environ: Mapping[str, str], agent_model: str | None, *, offline: bool
) -> JudgeSpec:
    named = settings.judge_model if isinstance(settings.judge_model, str) else None
    if named == OFFLINE_JUDGE or (offline and named is None and settings.judge_base_url is None):
        return JudgeSpec(model=OFFLINE_JUDGE, label=settings.judge_label)
    endpoint = judge_endpoint(settings, environ)
    if endpoint is None:
        raise UsageError(
            "there is no judge: set OPENAI_API_KEY (or HARNESS_JUDGE_API_KEY), name a server with --judge-base-url, "
            f"or take the embedded one with --judge-model {OFFLINE_JUDGE} (a self-test)"
        )
    model = named or (None if offline else agent_model)
    if model is None:
        raise UsageError("the judge's model cannot be told from the agent: name one with --judge-model")
    return JudgeSpec(
        model=model, base_url=without_credentials(endpoint.base_url), api=endpoint.api, label=settings.judge_label
    )


@asynccontextmanager
async def open_engine(
    spec: AgentSpec,
    settings: Settings,
    *,
    run_id: str,
    store: Store,
    surroundings: Surroundings,
    ceiling: Ceiling | None = None,
) -> AsyncGenerator[Engine]:
    """Give an engine, with the connections that the whole run shares; they are closed at the end."""
    provider, client = provider_for(spec.endpoint)
    state = EndpointState(surroundings.progress.note, strict=settings.strict_temperature)
    run_context = RunContext(
        loaded=spec.loaded,
        settings=settings,
        models=ModelSource(spec.endpoint, provider, spec.offline, state),
        run_id=run_id,
        store=store,
        progress=surroundings.progress,
        clock=surroundings.clock,
        ceiling=ceiling or Ceiling(),
    )
    async with AsyncExitStack() as connections:
        if client:
            connections.push_async_callback(client.close)
        source: Any = spec.loaded.source
        if spec.loaded.shared_mcp and isinstance(source, Agent):
            for server in servers_to_connect(source):  # pyright: ignore[reportUnknownArgumentType]
                await connect(server, connections)
        yield Engine(run_context, anyio.CapacityLimiter(settings.concurrency), FirstCall())


def make_judge(
    spec: JudgeSpec, rubric: Rubric, settings: Settings, environ: Mapping[str, str], *, store: Store, clock: Clock
) -> tuple[Judge, Close]:
    """Return the judge of pairs that `spec` names, which is no jury, and how to close its connections."""
    ask, pricing, close = make_ask(spec, settings, environ)
    judge = PairwiseJudge(
        ask, rubric, identity=spec.identity, pricing=pricing, keep=store.put_blob, clock=clock, settle=store.settle
    )
    return judge, close


def make_jury(
    spec: JudgeSpec,
    rubric: Rubric | ListRubric,
    settings: Settings,
    surroundings: Surroundings,
    *,
    store: Store,
    lenders: Sequence[RunReader] = (),
    ceiling: Ceiling | None = None,
    free: bool = False,
) -> tuple[Jury | ListJury, Close]:
    """Return the judges that `spec` names, of pairs or of lists as `rubric` is, and how to close their connections.

    They buy as a Buyer does by `lenders`, `ceiling` and `free`.
    """
    ceiling = ceiling or Ceiling()  # one for all members
    limits: Any = {"lenders": lenders, "ceiling": ceiling, "free": free}
    closes: list[Close] = []
    pairs: list[Buyer] = []
    lists: list[ListBuyer] = []
    for member, keys in member_keys(spec, settings, surroundings.environ):
        ask, pricing, close = make_ask(member, settings, keys)
        closes.append(close)
        about: Any = {
            "identity": member.identity,
            "pricing": pricing,
            "keep": store.put_blob,
            "clock": surroundings.clock,
            "settle": store.settle,
        }
        if isinstance(rubric, ListRubric):
            lists.append(ListBuyer(RulerJudge(ask, rubric, **about), store, surroundings.progress, **limits))
        else:
            pairs.append(Buyer(PairwiseJudge(ask, rubric, **about), store, surroundings.progress, **limits))

    async def close_all() -> None:
        for close in closes:
            await close()

    return ListJury(lists, settings.jury) if lists else Jury(pairs, settings.jury), close_all


def make_ask(
    spec: JudgeSpec, settings: Settings, environ: Mapping[str, str], extra: Mapping[str, Any] | None = None
) -> tuple[Ask, Pricing, Close]:
    """Return how to ask the model that `spec` names, what it costs, and how to close its connections.

    `extra` are parameters added to every request. Raises UsageError without a key.
    """
    if spec.offline:
        return EmbeddedAsk(), Pricing(OFFLINE_JUDGE, None, free=True), _nothing
    there = replace(settings, judge_base_url=spec.base_url, judge_api=spec.api)
    endpoint = judge_endpoint(there, dict(environ) | _default_address(spec))
    if endpoint is None:
        raise UsageError(f"the judge {spec.model!r} needs a key: set OPENAI_API_KEY (or HARNESS_JUDGE_API_KEY)")
    ask = EndpointAsk(
        endpoint, spec.model, timeout_s=settings.judge_timeout, limit=settings.judge_concurrency, extra=extra
    )
    return ask, Pricing(spec.model, endpoint.base_url), ask.aclose


def member_keys(
    spec: JudgeSpec, settings: Settings, environ: Mapping[str, str]
) -> list[tuple[JudgeSpec, Mapping[str, str]]]:
    """Return the members of `spec`, each with the environment that holds its key alone."""
    if not spec.jurors:
        return [(spec, environ)]
    seats = replace(
        settings,
        judge_model=tuple(juror.model for juror in spec.jurors),
        judge_base_url=tuple(juror.base_url or "" for juror in spec.jurors),
    )
    return [(juror, keys) for juror, (_, keys) in zip(spec.jurors, jurors(seats, environ), strict=True)]


def redactor_of(loaded: LoadedAgent | None, settings: Settings, environ: Mapping[str, str]) -> Redactor:
    """Return what takes out the keys in force, passwords in addresses, and what patterns and the agent's file name."""
    secrets = secrets_in(environ, settings.base_url, settings.judge_base_url)
    return Redactor(secrets, settings.redact, loaded.redact if loaded else None)


def agent_of(info: RunInfo, here: Path) -> LoadedAgent:
    """Find the agent of an archived run by its name. Raises UsageError."""
    try:
        return load_agent(info.agent, here)
    except UsageError as exc:
        raise UsageError(f"the run's agent cannot be loaded: {exc}; name it with --agent") from None


def replay_env(info: RunInfo, settings: Settings, rollout: Rollout, calls: Sequence[RawCall]) -> AgentEnv:
    """Return what the agent's file was told when a rollout was made.

    A run that does not say which API it spoke shows it in its replies: Chat Completions gives the SDK no response id.
    """
    api: Api = info.agent_api or settings.api or ("responses" if any(c.reply.response_id for c in calls) else "chat")
    return AgentEnv(
        api=api,
        offline=info.agent_offline,
        corpus=settings.corpus,
        model=settings.model,
        rng=random.Random(f"{settings.seed}/{rollout.query}/{rollout.index}"),
    )


def _model_name(agent: Agent[Any], settings: Settings) -> str | None:
    if settings.model:
        return settings.model
    if agent.model is None:
        return get_default_model()
    return agent.model if isinstance(agent.model, str) else getattr(agent.model, "model", None)


def _default_address(spec: JudgeSpec) -> dict[str, str]:
    """A judge recorded at OpenAI's own address stays there, wherever OPENAI_BASE_URL points now."""
    return {"OPENAI_BASE_URL": ""} if spec.base_url is None else {}


async def _nothing() -> None:
    """Nothing was opened."""
