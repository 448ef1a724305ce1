"""What a run or a rescoring is going to do and to cost: checked before anything is spent."""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from pydantic import JsonValue

from harness.archive.comparison_reader import ComparisonReader
from harness.archive.reader import RunReader
from harness.archive.run_info import RunInfo, WayFound, new_run_id
from harness.archive.typed_records import RankingHead, checked, recorded_settings
from harness.core.errors import UsageError, call, did_you_mean, option, quoted
from harness.core.judge_profile import JudgeLeanings
from harness.core.progress import Clock
from harness.core.records import Query
from harness.core.redaction import Redactor
from harness.core.settings import ADDRESSES, OFFLINE_MODEL, Settings, as_written
from harness.core.settings_sources import changed, load
from harness.core.unicode import without_credentials
from harness.endpoints.address import host_of
from harness.endpoints.costs import CostBounds, agent_tokens, cost_bounds, price_list, total_bounds
from harness.endpoints.credentials import AGENT_URL, OPENAI_URL, Credentials
from harness.pipeline import judge_inputs, resolve
from harness.pipeline.app_checks import check_app
from harness.pipeline.run_environment import check_engine, package_versions
from harness.pipeline.trust import Trust, as_in_run_json, trust_in
from harness.pipeline.varying import cost_of_asking, settle_vary
from harness.rollouts.loading import LoadedAgent
from harness.rollouts.variation import vary_in
from harness.tournament.group import Rules, rules_of
from harness.tournament.ranker import METHODS, AnyRubric
from harness.transcripts.transcript import check_rendering

_JUDGING = {"judge", "judge_model", "judge_base_url", "judge_api", "judge_label"}


@dataclass(frozen=True)
class JudgingPlan:
    """How rollouts are to be judged and ranked."""

    judge: resolve.JudgeSpec
    rubric: AnyRubric
    settings: Settings
    credentials: Credentials
    """The keys of the judges, and where they may go."""
    leanings: JudgeLeanings | None = field(default=None, kw_only=True)
    """What probes show of the judge: the run's own, or those of a profile that is lent."""
    judge_agents: Mapping[str, LoadedAgent] = field(default_factory=dict[str, LoadedAgent], kw_only=True)
    """The agents that judge, by the identities of their judges, as far as they are at hand."""
    judge_may_fail: bool = field(default=False, kw_only=True)
    """A judge that turns the first call down, or gives no reply to it, leaves a group unranked, and is no error."""


@dataclass(frozen=True)
class Prepared(JudgingPlan):
    """A run that is fully checked and has cost nothing yet."""

    agent: resolve.AgentSpec
    way_found: WayFound | None = field(default=None, kw_only=True)
    """What was asked before the first rollout, so that samples differ; None: nothing, or not yet."""
    paraphrases: int | None = field(default=None, kw_only=True)
    """How many paraphrases the user asked for."""

    @property
    def offline(self) -> bool:
        """Whether any part of it is embedded, so that its ranks say nothing of an LLM."""
        return self.agent.offline or self.judge.offline

    def judge_calls(self, queries: int) -> tuple[int, int]:
        """Return the fewest and the most judge calls, repair turns aside."""
        low, high = call_bounds(self.settings, self.settings.n, self.judge)
        return low * queries, high * queries

    def agent_cost(self, queries: int) -> CostBounds | None:
        """Return what the agent runs are taken to cost, None if their price is unknown."""
        runs, per_run = self.settings.n * queries, agent_tokens(self.settings.max_turns)
        priced = self.agent.priced(price_list(self.settings))[0]
        return total_bounds(cost_bounds((runs, runs), per_run, priced), self.way_cost)

    @property
    def way_cost(self) -> CostBounds | None:
        """What is asked before the first rollout, None if its price is unknown; see `cost_of_asking`."""
        return cost_of_asking(vary_in(self.settings), self.agent, price_list(self.settings))

    def judge_cost(self, queries: int) -> CostBounds | None:
        """Return what the judge calls are taken to cost, None if their price is unknown."""
        return resolve.judge_cost(self.settings, self.judge, self.judge_calls(queries))

    def cost(self, queries: int) -> CostBounds | None:
        """Return what all of it is taken to cost, None if any price is unknown."""
        return total_bounds(self.agent_cost(queries), self.judge_cost(queries))


async def prepare(
    loaded: LoadedAgent,
    settings: Settings,
    environ: Mapping[str, str],
    queries: Iterable[Query] = (),
    judge_agents: Sequence[LoadedAgent] = (),
    *,
    alone: bool = True,
) -> Prepared:
    """Check everything that can be checked for free, also what the agent's app gives runs of the first `queries`.

    `settings` are those of today's user; `judge_agents` are what these name, where they are objects. Of an agent that
    is not `alone`, --approve may name tools of others. Raises UsageError.
    """
    check_engine(settings)
    settings, rubric = judge_inputs.rubric_for_run(loaded, settings)
    redact = resolve.make_redactor(loaded, settings, environ)
    redact("")  # a hook that does not work fails before anything is spent
    credentials = Credentials.naming(environ, settings.base_url, settings.judge_base_url)
    agent = await resolve.resolve_agent(loaded, settings, credentials)
    count = vary_in(settings).paraphrases
    settings = settle_vary(settings, agent, redact, environ)
    judge, agents = await named_judge(settings, credentials, judge_agents, agent.model, offline=agent.offline)
    resolve.check_prices(settings, judge, agent)
    settings = judge_inputs.with_profile(settings, judge, rubric)
    await check_app(agent, settings, queries)
    if alone:
        resolve.check_approved(agent, settings)
    plan = Prepared(judge, rubric, settings, credentials, agent=agent, judge_agents=agents, paraphrases=count)
    return replace(plan, leanings=judge_inputs.leanings_for(settings, judge, rubric))


async def named_judge(
    settings: Settings,
    credentials: Credentials,
    loaded: Sequence[LoadedAgent],
    agent_model: str | None,
    *,
    offline: bool,
) -> tuple[resolve.JudgeSpec, Mapping[str, LoadedAgent]]:
    """Return the judge that settings name, and the agents in it by identity. Raises UsageError."""
    if settings.judge_agent is None:
        if settings.judge_agent_when == "unsure":
            raise UsageError(f"{option('judge_agent_when', 'unsure')}: no agent judges: name it with --judge-agent")
        return resolve.resolve_judge(settings, credentials, agent_model, offline=offline), {}
    from harness.pipeline.judge_agents import resolve_jury  # noqa: PLC0415 - only where an agent judges

    return await resolve_jury(settings, credentials, agent_model, offline=offline, loaded=loaded)


def new_run(prepared: Prepared, clock: Clock, queries: int | None, redact: Redactor) -> RunInfo:
    """Describe a run that begins now; `queries` is their number where it is known, `redact` the run's."""
    at, loaded, endpoint = clock(), prepared.agent.loaded, prepared.agent.endpoint
    return RunInfo(
        schema_version=1,
        id=new_run_id(loaded.name, at, secrets.token_hex(8)),
        created_at=at,
        agent=loaded.name,
        agent_file=loaded.file.name if loaded.file else None,
        settings=as_written(prepared.settings),
        judge=prepared.judge.model_dump(mode="json"),
        offline=prepared.offline,
        agent_offline=prepared.agent.offline,
        agent_api=endpoint.api if endpoint else None,
        endpoint=endpoint and {"base_url": without_credentials(endpoint.base_url), "api": endpoint.api},
        agent_word=loaded.word,
        rubric=prepared.rubric.label,
        rendering=prepared.rubric.rendering,
        rubric_text=judge_inputs.whole_text(prepared.rubric.source, redact),
        instructions=judge_inputs.whole_text(loaded.instructions, redact),
        queries=queries,
        versions=package_versions(),
        way_found=prepared.way_found,
    )


@dataclass(frozen=True)
class RescoreOptions:
    """How an archived run is judged again, beside the changes to its settings."""

    reuse: Sequence[Path] = ()
    _: KW_ONLY
    free: bool = False
    trust_archive: bool = False
    """Whether keys may go wherever the run says."""
    judge_agents: Sequence[LoadedAgent] = ()
    """The agents that judge, where they are given as objects."""


async def rescoring(
    reader: RunReader, changes: Mapping[str, Any], environ: Mapping[str, str], options: RescoreOptions
) -> tuple[Trust, JudgingPlan]:
    """Return how an archived run is to be judged under `changes`, and what it may decide. Raises UsageError.

    Agents judge that `changes` name, else those of a run that was made here; a model that is named judges in their
    place.
    """
    urls = changes.get("base_url"), changes.get("judge_base_url")
    trust = trust_in(reader, environ, *urls, trust_archive=options.trust_archive)
    changes = {"judge_profile": None, **changes}  # the run's own may be of another judge: it holds where it is named
    named = changes.get("judge_agent") is not None
    if named:
        changes = {"judge_model": None, "judge_agent_when": "always", **changes}
    elif "judge_model" in changes:
        changes |= {"judge_agent": None}
    settings, credentials, info = changed_settings(reader, changes), trust.credentials, reader.info
    judge = recorded_judge(info.judge, reader.folder / "run.json") if info.judge else None  # none: it was imported
    agents: Mapping[str, LoadedAgent] = {}
    if judge is None or _JUDGING & changes.keys() or named:
        aimed, model = (_aimed(settings, judge, changes), judge.model) if judge else (settings, None)
        if named:
            judge, agents = await named_judge(aimed, credentials, options.judge_agents, model, offline=False)
        else:  # no agent is loaded because an archive names it
            judge = resolve.resolve_judge(aimed, credentials, model, offline=judge is not None and judge.offline)
    for flag, words in (("include", settings.include), ("exclude", settings.exclude)):
        for word in words:
            _check_part(reader, option(flag, word), word)
    settings = trust.priced(settings, changes)
    if not options.free:
        resolve.check_prices(settings, judge)
    rubric = judge_inputs.rescoring_rubric(info, settings, changes)
    settings = judge_inputs.with_profile(settings, judge, rubric)
    if options.free:
        credentials = credentials.without_calls()
    leanings = judge_inputs.leanings_for(settings, judge, rubric, reader)
    plan = JudgingPlan(judge, rubric, settings, credentials, leanings=leanings, judge_agents=agents)
    return trust, plan if agents or options.free else await with_agents(plan, reader, trust)


async def with_agents(plan: JudgingPlan, reader: RunReader | ComparisonReader, trust: Trust) -> JudgingPlan:
    """Return a plan of a recorded judge with those of its agents that this machine's own record lets it load."""
    if not any(member.agent for member in plan.judge.members):
        return plan
    from harness.pipeline.judge_agents import agents_made_here  # noqa: PLC0415 - only where an agent judges

    return replace(plan, judge_agents=await agents_made_here(plan.judge, reader, trust, plan.settings))


def places_of_begun(reader: RunReader, like: RankingHead | None) -> str:
    """Return in words where resuming a run asks its agent's models and its judge. Raises ArchiveDamaged."""
    info = reader.info
    where = f"rankings/{like.id}.jsonl:1" if like else f"{info.id}/run.json"
    judge = recorded_judge(like.judge if like else info.judge, where)
    url = (info.endpoint or {}).get("base_url")
    own = OFFLINE_MODEL if info.agent_offline else "models of its own"
    host = host_of(None if url is None else str(url))
    rollouts = (rollout for query in reader.queries() for rollout in reader.group(query).rollouts)
    asked = next((rollout.effective.models for rollout in rollouts if rollout.effective.models), ("models",))
    models = [str(named)] if (named := info.settings.get("model")) else asked
    place = ", ".join(f"{model}@{host}" for model in models) if info.endpoint else own
    return f"agent: {place}, judge: {judge.places}"


def changed_settings(reader: RunReader, changes: Mapping[str, Any]) -> Settings:
    """Return a run's settings under `changes`. Raises UsageError for these, ArchiveDamaged for the run's own."""
    _ = reader.settings  # what is wrong now is wrong with the archive, and later with the changes
    if changes.get("judge") == "ruler":  # what the run asked was of remarks on pairs
        changes = {"require_citations": False, **changes}
    return load(changed(reader.info.settings, changes))


def recorded_judge(judge: Mapping[str, JsonValue], where: object) -> resolve.JudgeSpec:
    """Return the judge that an archive names. Raises ArchiveDamaged, naming `where`."""
    return checked(judge, resolve.JudgeSpec.model_validate, f"{where}: judge")


def _check_part(reader: RunReader, option: str, word: str) -> None:
    rollouts, queries, run = reader.index.rollouts, reader.index.queries, reader.info.id
    query, _, index = word.rpartition("/")
    if query and query not in queries:
        raise UsageError(f"{option}: no query {quoted(query)} in run {run}{did_you_mean(query, queries)}")
    groups = [rollouts.get(query, {})] if query else rollouts.values()
    if index and not any(int(index) in indices for indices in groups):
        raise UsageError(f"{option}: no rollout {index} in run {run}; they count from 0")


@dataclass(frozen=True)
class NamedAddresses:
    """The addresses of a run that is resumed, as today's user names them: so that keys may go there."""

    base_url: str | tuple[str, ...] | None = None
    judge_base_url: str | tuple[str, ...] | None = None

    @classmethod
    def split(cls, given: Mapping[str, Any]) -> tuple[Self, dict[str, Any]]:
        """Take the addresses out of what a user gives; return them, and the rest."""
        urls = {name: given.get(name) for name in ADDRESSES}
        named = cls(**{name: url if isinstance(url, str | None) else tuple(url) for name, url in urls.items()})
        return named, {name: value for name, value in given.items() if name not in ADDRESSES}

    def check(self, agent_urls: Sequence[str | None], judge: resolve.JudgeSpec) -> None:
        """Refuse addresses that are not the run's: resuming goes on where the run was. Raises UsageError."""
        for url in _several(self.base_url):
            if not any(_same_place(url, agent_url) for agent_url in agent_urls):
                raise UsageError(
                    f"{option('base_url', without_credentials(url))}: the run's models are at "
                    f"{', '.join(agent_url or OPENAI_URL for agent_url in agent_urls)}; `resume` and `fork` go on there"
                )
        named = _several(self.judge_base_url)
        urls = [member.base_url for member in judge.members]
        fits = len(named) in {1, len(urls)} and all(map(_same_place, named * len(urls), urls))
        if named and not fits:
            addresses = ", ".join(str(without_credentials(url)) for url in named)
            raise UsageError(
                f"{option('judge_base_url', addresses)}: the run's judge is at "
                f"{', '.join(url or OPENAI_URL for url in urls)}; {call('rescore')} takes a judge elsewhere"
            )


def _several(urls: str | tuple[str, ...] | None) -> tuple[str, ...]:
    return (urls,) if isinstance(urls, str) else urls or ()


def _same_place(named: str, url: str | None) -> bool:
    return str(without_credentials(named)).rstrip("/") == (url or OPENAI_URL)


async def as_begun(
    reader: RunReader,
    like: RankingHead | None,
    changes: Mapping[str, Any],
    trust: Trust,
    named: NamedAddresses,
    rubric_word: str | None = None,
) -> JudgingPlan:
    """Return how a run is to be judged: as when it began, or as the ranking that is to be made again.

    The addresses and the rubric are those of then, `changes` are settings of today's user. Raises UsageError for other
    addresses or another rubric, and for transcripts that only a later version can write.
    """
    info = reader.info
    where = f"rankings/{like.id}.jsonl:1" if like else f"{info.id}/run.json"
    settings = recorded_settings(like.settings if like else info.settings, where)
    settings = as_in_run_json(settings, recorded_settings(info.settings, f"{info.id}/run.json"))
    place, environ = dict(info.endpoint or {}), trust.credentials.environ
    judge = recorded_judge(like.judge if like else info.judge, where)
    if info.endpoint and not isinstance(settings.base_url, tuple):
        servers = (str(url),) if (url := place.get("base_url")) else ()  # none: OpenAI's own alone
    else:
        servers = _several(settings.base_url)
    named.check(servers or (None,), judge)
    if named.base_url:
        settings = replace(settings, base_url=named.base_url)
    elif servers and servers != (without_credentials(environ.get(AGENT_URL)),):
        settings = replace(settings, base_url=_each(servers))
    settings = trust.priced(settings, changes)
    if changes:
        settings = load(changed(asdict(settings), changes))
    settings = replace(settings, offline=info.agent_offline, api=place.get("api", settings.api))
    rubric = judge_inputs.rubric_as_begun(info, like, settings, rubric_word)
    check_rendering((like or info).rendering)
    leanings = like.leanings if like else judge_inputs.leanings_for(settings, judge, rubric)
    plan = JudgingPlan(judge, rubric, settings, trust.credentials, leanings=leanings)
    return await with_agents(plan, reader, trust)


def describe_calls(settings: Settings) -> str | None:
    """Return in words what a budget of judge calls is spent on, for each query; None where there is no choice."""
    return METHODS[settings.judge].describe(_rules_of_calls(settings), settings.n)


def _rules_of_calls(settings: Settings) -> Rules:
    """Return the rules as far as they decide on calls: a profile, which may not have been looked up yet, does not."""
    return rules_of(replace(settings, judge_profile=None))


def call_bounds(settings: Settings, n: int, judge: resolve.JudgeSpec) -> tuple[int, int]:
    """Return the fewest and the most judge calls for a group of n, those of all jurors."""
    low, high = METHODS[settings.judge].call_bounds(_rules_of_calls(settings), n)
    sure = [member for member in judge.members if not member.agent or settings.judge_agent_when == "always"]
    return low * len(sure), high * len(judge.members)


def _aimed(settings: Settings, before: resolve.JudgeSpec, changes: Mapping[str, Any]) -> Settings:
    """Keep of the run's own judge what the changes leave alone: its model and its address."""
    if before.offline:
        return settings
    models = [j for j in before.members if not j.agent]
    if "judge_model" not in changes and models:
        settings = replace(settings, judge_model=_each([j.model for j in models]))
    if "judge_base_url" in changes:
        return settings
    urls = [j.base_url or "" for j in models or before.members]
    settings = replace(settings, judge_base_url=(urls[0] if "judge_model" in changes else _each(urls)) or None)
    return settings if before.jurors else replace(settings, judge_api=settings.judge_api or before.api)


def _each(values: Sequence[str]) -> str | tuple[str, ...]:
    return tuple(values) if len(values) > 1 else "".join(values)
