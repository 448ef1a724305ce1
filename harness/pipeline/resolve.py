"""From settings and environment to an agent and a judge: endpoint, model, instructions, and what a run takes."""

import random
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from agents.models import get_default_model
from pydantic import Field

from harness.core.errors import UsageError, before_colon, call, did_you_mean, on_a_line, option, quoted, switch
from harness.core.records import Bill, Record, is_none
from harness.core.redaction import Redactor
from harness.core.settings import OFFLINE_JUDGE, OFFLINE_MODEL, Api, Settings
from harness.core.unicode import without_credentials
from harness.core.user_files import read_text
from harness.endpoints import costs
from harness.endpoints.address import AGENT_KEY, Endpoint, agent_servers, host_of, judge_endpoint, jurors, secrets_in
from harness.endpoints.credentials import Credentials
from harness.rollouts.app_parts import GivenPart
from harness.rollouts.approval_gate import ALL, NONE, ChosenApprover, check_approvals, tools_in_sight
from harness.rollouts.loading import AgentEnv, LoadedAgent
from harness.rollouts.model_request import check_tools
from harness.rollouts.models import has_own_model
from harness.rollouts.run_options import as_config, brings_models
from harness.rollouts.sandboxes import sandbox_agents
from harness.rollouts.variation import vary_in
from harness.transcripts.tokens import ESTIMATE, counter_for

_MOST = 1_000_000


class JudgeAgent(Record):
    """An agent that judges: `word` named it, unless it is an object."""

    word: str | None = None
    fingerprint: str
    """Of its instructions, tools, model and settings: it is a part of the keys of its verdicts."""
    model: str
    own_models: bool = False
    """Whether it brings its models, so that no endpoint is asked."""


class JudgeSpec(Record):
    """The judge as resolved: enough, with a key from the environment, to ask the same judge again."""

    model: str
    base_url: str | None = None
    api: Api = "chat"
    label: str | None = None
    jurors: tuple["JudgeSpec", ...] = ()
    """The members where it is a jury; `model` then names them all."""
    agent: JudgeAgent | None = Field(default=None, exclude_if=is_none)
    """The agent that judges; `model` is then its name."""

    @property
    def offline(self) -> bool:
        """Whether it is the embedded judge, or a jury with it."""
        return (self.model == OFFLINE_JUDGE and not self.agent) or any(juror.offline for juror in self.jurors)

    @property
    def members(self) -> tuple["JudgeSpec", ...]:
        """The judges: a single one is a jury of itself."""
        return self.jurors or (self,)

    @property
    def identity(self) -> str:
        """Who judges: the label, else model@host; of a jury all of them."""
        if self.jurors:
            return ", ".join(juror.identity for juror in self.jurors)
        name = f"{self.model}-{self.agent.fingerprint[:8]}" if self.agent else self.model
        return self.label or f"{name}@{self.host}"

    @property
    def asked(self) -> str:
        """The name of the model that is asked."""
        return self.agent.model if self.agent else self.model

    @property
    def priced_at(self) -> str | None:
        """The address by which it is priced."""
        return costs.UNKNOWN_ADDRESS if self.agent and self.agent.own_models else self.base_url

    @property
    def host(self) -> str:
        """The server that is asked; in words where there is none."""
        brings_models = self.agent is not None and self.agent.own_models
        return "offline" if self.offline else "own-models" if brings_models else host_of(self.base_url)

    @property
    def places(self) -> str:
        """Where it is asked, whatever its label: model@host of each member; the embedded judge's name alone."""
        return ", ".join(m.model if m.offline else f"{m.model}@{m.host}" for m in self.members)

    @property
    def counter(self) -> str:
        """How transcripts are counted for it, for a jury as for its first; it stands in a ranking's header."""
        return ESTIMATE if self.offline else counter_for(self.members[0].asked)


@dataclass(frozen=True)
class AgentSpec:
    """The agent's side as resolved: an endpoint, the embedded model, or neither (it brings its own models)."""

    loaded: LoadedAgent
    endpoint: Endpoint | None
    offline: bool
    model: str | None
    """The starting agent's model by name, None where it is an object that has none."""
    servers: tuple[Endpoint, ...] = ()
    """All servers of its models, where several are named; `endpoint` is the first."""
    sandboxed: bool = False
    """Whether an agent in sight runs in a sandbox."""
    instructions: str | None = None
    """The starting agent's own; None where it has none, or makes them by a function."""
    own_model: bool = False
    """Whether the starting agent brings its model, so that the endpoint is not asked for it."""
    tools: frozenset[str] | None = None
    """The names of all tools in sight; None where more may come with the run."""

    @property
    def place(self) -> str:
        """Where its models are asked: model@host; the embedded model's name alone; else in words."""
        if self.endpoint is None:
            return OFFLINE_MODEL if self.offline else "models of its own"
        hosts = dict.fromkeys(server.host for server in self.servers or (self.endpoint,))
        return f"{self.model or 'models'}@{', '.join(hosts)}"

    def priced(self, prices: costs.PriceList) -> list[costs.Priced]:
        """Return what its tokens are priced by at each of its servers; where an agent's own models are is not known."""
        own = self.endpoint.base_url if self.endpoint else costs.UNKNOWN_ADDRESS
        urls = [server.base_url for server in self.servers] or [own]
        return [costs.Priced(self.model, url, self.offline, prices) for url in urls]


async def resolve_agent(
    loaded: LoadedAgent, settings: Settings, credentials: Credentials, *, with_tools: bool = True
) -> AgentSpec:
    """Decide what the agent runs on. The agent is made once, so that a wrong object fails before the first call.

    Raises UsageError without a key, an address or a model of its own; for tools that its API does not know (not looked
    at unless `with_tools`); for --upload-traces without a key; and as `Credentials.key`.
    """
    if settings.upload_traces and not credentials.environ.get(AGENT_KEY):
        raise UsageError(
            f"{switch('upload_traces')} sends the rollouts' traces to OpenAI, which needs a key: set {AGENT_KEY}"
        )
    if settings.instructions is not None and loaded.instructions is None:
        name = f"{option('instructions')} {on_a_line(settings.instructions)}"
        if loaded.app:
            raise UsageError(f"{name}: {loaded.name!r} is a function, and its agents are its own")
        text = read_text(settings.instructions, name, most=_MOST)
        if not text.strip():
            raise UsageError(f"{name}: it is empty")
        loaded = replace(loaded, instructions=text)
    servers = () if settings.offline else agent_servers(settings, credentials)
    endpoint = next(iter(servers), None)
    offline = settings.offline or (endpoint is None and loaded.packaged)
    async with loaded.open(env_before(settings, endpoint, offline=offline)) as agent:
        if endpoint is None and not offline and not (has_own_model(agent) or _may_bring_models(loaded)):
            raise _no_model(loaded)
        check_approvals(agent, ChosenApprover(settings.approve, loaded.approve))
        if with_tools and not offline:
            check_tools(agent, endpoint, settings.model)
        own = agent.model if isinstance(agent.model, str | None) else getattr(agent.model, "model", None)
        own = get_default_model() if agent.model is None and not loaded.app else own
        model = OFFLINE_MODEL if offline else settings.model or own
        several = servers if len(servers) > 1 else ()
        own_text = agent.instructions if isinstance(agent.instructions, str) and not loaded.app else None
        brings_it = settings.model is None and not isinstance(agent.model, str | None)
        sandboxed = bool(sandbox_agents(agent))
        tools = None if loaded.app or sandboxed else tools_in_sight(agent)
        return AgentSpec(
            loaded, endpoint, offline, model, several, sandboxed, own_text, own_model=brings_it, tools=tools
        )


def check_approved(agent: AgentSpec, settings: Settings) -> None:
    """Raise UsageError where --approve names no tool of the agent that runs, and no judge or server may bring one."""
    unknown = [name for name in settings.approve if name not in {ALL, NONE, *(agent.tools or ())}]
    if unknown and agent.tools is not None and settings.judge_agent is None:
        names = f"its tools: {', '.join(map(quoted, sorted(agent.tools)))}" if agent.tools else "it has none"
        raise UsageError(
            f"{option('approve', unknown[0])}: agent {agent.loaded.name!r} has no tool of this name ({names})"
            f"{did_you_mean(unknown[0], agent.tools)}"
        )


def env_before(settings: Settings, endpoint: Endpoint | None, *, offline: bool) -> AgentEnv:
    """Return what an agent is made with before the first rollout."""
    api: Api = endpoint.api if endpoint else "chat"
    rng = random.Random(settings.seed)
    return AgentEnv(api=api, offline=offline, corpus=settings.corpus, model=settings.model, rng=rng)


async def refuse_no_model(loaded: LoadedAgent, settings: Settings) -> None:
    """Make the agent once and raise UsageError unless it brings a way to its model."""
    async with loaded.open(env_before(settings, None, offline=False)) as agent:
        if not has_own_model(agent):
            raise _no_model(loaded)


def _may_bring_models(loaded: LoadedAgent) -> bool:
    """Return whether an app's configuration brings models, or the app, or its function for that, may do so."""
    run_config = loaded.run_config
    if isinstance(run_config, GivenPart):
        return brings_models(as_config(run_config.value))
    return loaded.app or run_config is not None


def _no_model(loaded: LoadedAgent) -> UsageError:
    """Return the error of an agent that has no way to a model."""
    return UsageError(
        f"agent {loaded.name!r} has no model to run on: set OPENAI_API_KEY, name a server with "
        f"{option('base_url')} (or OPENAI_BASE_URL), or try it on the embedded model with {switch('offline')}"
    )


def resolve_judge(settings: Settings, credentials: Credentials, agent_model: str | None, *, offline: bool) -> JudgeSpec:
    """Decide who judges: --judge-model, several a jury, else the agent's or the embedded model. Raises UsageError."""
    if settings.judge_agent is not None:
        raise UsageError(
            f"{before_colon('judge_agent')}: agents judge where an agent's runs are judged, as in {call('run')} and "
            f"{call('rescore')}; here, name a model with {option('judge_model')}"
        )
    seats = jurors(settings, credentials.without_calls())  # keys are handed over when the judge is opened
    return as_jury([_resolve_juror(of_juror, keys, agent_model, offline=offline) for of_juror, keys in seats], settings)


def as_jury(specs: Sequence[JudgeSpec], settings: Settings) -> JudgeSpec:
    """Return the only judge, or a jury of several. Raises UsageError for one that sits in it twice."""
    if len(specs) == 1:
        return specs[0]
    if settings.judge_label:
        raise UsageError(f"{option('judge_label')} names one judge; the members of a jury are told apart as model@host")
    seats = [(spec.agent.fingerprint, spec.base_url) if spec.agent else spec.identity for spec in specs]
    if twice := next((spec for spec, seat in zip(specs, seats, strict=True) if seats.count(seat) > 1), None):
        flag = before_colon("judge_agent" if twice.agent else "judge_model")
        raise UsageError(f"{flag}: {twice.identity} sits in the jury twice, and would be asked only once: name it once")
    return JudgeSpec(model=", ".join(spec.model for spec in specs), jurors=tuple(specs))


def _resolve_juror(
    settings: Settings, credentials: Credentials, agent_model: str | None, *, offline: bool
) -> JudgeSpec:
    named = settings.judge_model if isinstance(settings.judge_model, str) else None
    if named == OFFLINE_JUDGE or (offline and named is None and settings.judge_base_url is None):
        return JudgeSpec(model=OFFLINE_JUDGE, label=settings.judge_label)
    endpoint = judge_endpoint(settings, credentials)
    if endpoint is None:
        raise UsageError(
            "there is no judge: set OPENAI_API_KEY (or HARNESS_JUDGE_API_KEY), name a server with "
            f"{option('judge_base_url')}, or take the embedded one with {option('judge_model', OFFLINE_JUDGE)} (a "
            "self-test)"
        )
    model = named or (None if offline else agent_model)
    if model is None:
        raise UsageError(f"the judge's model cannot be told from the agent: name one with {option('judge_model')}")
    return JudgeSpec(
        model=model, base_url=without_credentials(endpoint.base_url), api=endpoint.api, label=settings.judge_label
    )


def member_keys(spec: JudgeSpec, settings: Settings, credentials: Credentials) -> list[tuple[JudgeSpec, Credentials]]:
    """Return the members of `spec`, each with the credentials that hold its key alone."""
    if not spec.jurors:
        return [(spec, credentials)]
    models, urls = zip(*((juror.model, juror.base_url or "") for juror in spec.jurors), strict=True)
    seats = replace(settings, judge_model=models, judge_base_url=urls)
    return [(juror, keys) for juror, (_, keys) in zip(spec.jurors, jurors(seats, credentials), strict=True)]


def make_redactor(loaded: LoadedAgent | None, settings: Settings, environ: Mapping[str, str]) -> Redactor:
    """Return what takes out the keys in force, passwords in addresses, and what patterns and the agent's file name."""
    secrets = secrets_in(environ, settings.base_url, settings.judge_base_url)
    return Redactor(secrets, settings.redact, loaded.redact if loaded else None)


def judge_cost(settings: Settings, judge: JudgeSpec, calls: tuple[int, int]) -> costs.CostBounds | None:
    """Return what calls cost that are shared out evenly among the jurors."""
    least, most = costs.judge_tokens(settings.judge_budget)
    dearest, bounds = _dearest_tier(settings), list[float]()
    for at, tokens, tier in ((0, least, "flex" if settings.judge_tier != "default" else dearest), (1, most, dearest)):
        of_agent = costs.agent_tokens(settings.judge_max_turns)[at].usage()
        prices = [
            priced.cost(Bill(of_agent) if member.agent else Bill(tokens.usage(), tier)).usd
            for member, priced in zip(judge.members, _jurors(settings, judge), strict=True)
        ]
        if None in prices:
            return None
        bounds.append(fmean(price for price in prices if price is not None))
    return costs.CostBounds(calls[0] * bounds[0], calls[1] * bounds[1])


def _dearest_tier(settings: Settings) -> str | None:
    if settings.judge_batch:
        return "batch"
    return "flex" if settings.judge_tier == "flex" else None


def _jurors(settings: Settings, judge: JudgeSpec) -> list[costs.Priced]:
    prices = costs.price_list(settings)
    return [costs.Priced(member.asked, member.priced_at, member.offline, prices) for member in judge.members]


def second_judge(first: JudgeSpec, settings: Settings, credentials: Credentials, model: str) -> JudgeSpec:
    """Return the model that judges after a run's judge, at its address. Raises UsageError, also for the same one."""
    settings = replace(settings, judge_model=model, judge_label=None, judge_agent=None)  # the label is the first one's
    second = resolve_judge(settings, credentials, None, offline=False)
    check_prices(settings, second)
    if second.places in {member.places for member in first.members}:
        raise UsageError(f"{option('gate_judge_model', model)}: it judges the training, too; name another model")
    return second


def check_prices(settings: Settings, judge: JudgeSpec | None, agent: AgentSpec | None = None) -> None:
    """Refuse a ceiling on what has no price. Raises UsageError."""
    if settings.max_cost is None:
        return
    named = [replace(agent, model=name) for name, _ in vary_in(settings).models] if agent else []
    priced = [
        ("the agent's model", at) for a in filter(None, (agent, *named)) for at in a.priced(costs.price_list(settings))
    ]
    priced += [("the judge", at) for at in _jurors(settings, judge)] if judge else []
    for who, at in priced:
        if at.cost(Bill(costs.judge_tokens(0)[0].usage())).usd is None:
            model = shlex.quote(at.model or "MODEL")
            way_out = f"name it with {option('prices', {model: 'IN/OUT'})}, in USD a million tokens"
            if like := at.list_price:
                way_out += f", or take {like.provider_name}'s list price with {switch('price_by_name')}"
            where = f" at {at.base_url}" if at.base_url and at.base_url != costs.UNKNOWN_ADDRESS else ""
            raise UsageError(
                f"{option('max_cost', settings.max_cost)} cannot be kept: the price of {who} "
                f"({at.model or 'one of its own'}{where}) is unknown; {way_out}, or leave {option('max_cost')} out"
            )


def make_ceiling(
    settings: Settings,
    judge: JudgeSpec | None,
    agent: AgentSpec | None = None,
    shared: costs.Ceiling | None = None,
) -> costs.Ceiling:
    """Return --max-cost, or what is `shared` with other runs, as a ceiling that knows what calls are likely to cost.

    `judge` None: unknown.
    """
    least = Bill(costs.judge_tokens(settings.judge_budget)[0].usage(), _dearest_tier(settings))
    judged = [usd for juror in _jurors(settings, judge) if (usd := juror.cost(least).usd) is not None] if judge else []
    first = Bill(costs.agent_tokens(settings.max_turns)[0].usage())
    rolled_out = agent.priced(costs.price_list(settings))[0].cost(first).usd if agent else None
    ceiling = shared or costs.Ceiling(settings.max_cost)
    ceiling.also_expect({"judge": max(judged)} if judged else {})
    ceiling.also_expect({} if rolled_out is None else {"agent": rolled_out})
    return ceiling


def prices_by_name(settings: Settings, judge: JudgeSpec, agent: AgentSpec | None = None) -> list[str]:
    """Return in words which models take the list price of their name (--price-by-name), and whose price that is."""
    if not settings.price_by_name:
        return []
    prices = costs.price_list(settings)
    priced = [*(agent.priced(prices)[:1] if agent else []), *_jurors(settings, judge)]
    named = [(at.model, like) for at in priced if (like := at.list_price)]
    return list(dict.fromkeys(f"{model}: {like.provider_name}'s list price of {like.model}" for model, like in named))
