"""The checks that cost nothing, the agent's among them, in the order in which a run settles what they check."""

import platform
import random
import shlex
import sqlite3
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from agents import Agent, FunctionTool

from harness.core.errors import HarnessError, UsageError
from harness.core.records import Query
from harness.core.settings import DEFAULT_RUBRIC, JUDGE_KEY, Settings
from harness.core.unicode import without_credentials
from harness.doctor.checks import Check, DoctorRequest, failed_check, fit_to_print
from harness.doctor.local_servers import LOOPBACK, server_checks, usual_model
from harness.endpoints.address import AGENT_KEY, OPENAI_HOST, Endpoint, agent_servers
from harness.endpoints.credentials import AGENT_URL
from harness.endpoints.model_list import ModelList
from harness.judging.rubric import Rubric, load_rubric
from harness.pipeline.app_checks import check_app
from harness.pipeline.model_names import NamedModel, models_of_agent, models_of_judge, read_lists
from harness.pipeline.plan import named_judge
from harness.pipeline.resolve import AgentSpec, JudgeSpec, member_keys, resolve_agent
from harness.pipeline.stages import judge_endpoints
from harness.rollouts.app_parts import RUN_PARTS
from harness.rollouts.capture import check_tracing
from harness.rollouts.graph import reachable
from harness.rollouts.loading import AgentEnv, LoadedAgent, NoSuchAgent, load_agent
from harness.rollouts.sandbox_watcher import left_running


@dataclass(frozen=True)
class CheckedAgent:
    """An agent made for the checks, and what a run of it resolves to."""

    spec: AgentSpec
    agent: Agent[Any]
    has_own_endpoint: bool
    """The agent brings a model object or client, so that the endpoint of the settings is not asked."""

    @property
    def model_name(self) -> str:
        """The model's name, or its class where it has none."""
        return self.spec.model or type(self.agent.model).__name__

    @property
    def host(self) -> str:
        """The host of the model, as far as it is known."""
        endpoint = None if self.has_own_endpoint else self.spec.endpoint
        return endpoint.host if endpoint else "the agent's endpoint"

    @property
    def takes_seed(self) -> bool:
        """Whether a run sends seeds, as a rollout decides it: not on the Responses API, nor without an endpoint."""
        return self.spec.endpoint is not None and self.spec.endpoint.api == "chat"


async def check_agent(request: DoctorRequest, loaded: LoadedAgent) -> tuple[CheckedAgent | None, list[Check]]:
    """Make an agent. Return it, None where its own code fails, with the checks of it. Raises HarnessError."""
    settings = request.settings
    try:
        # the tools have a check of their own
        spec = await resolve_agent(loaded, settings, request.credentials, with_tools=False)
        env = AgentEnv(
            api=spec.endpoint.api if spec.endpoint else "chat",
            offline=spec.offline,
            corpus=settings.corpus,
            model=settings.model,
            rng=random.Random(settings.seed),
        )
        async with loaded.open(env) as agent:
            is_elsewhere = spec.endpoint is None and not spec.offline
            checked = CheckedAgent(spec, agent, has_own_endpoint=spec.own_model or is_elsewhere)
    except HarnessError:
        raise
    except Exception as exc:  # noqa: BLE001 - the user's own code, and servers that it starts
        finding = f"{request.agent!r} could not be made: {type(exc).__name__}: {exc}"
        return None, [Check("agent", "fail", finding, "mend its file; `harness run` would stop there too")]
    origin = "an example that comes with the harness" if loaded.packaged else loaded.file or "not from a file"
    chosen_by = f"by {request.origin('model')}" if settings.model else "the agent's own"
    model = f"{spec.model}, the embedded one" if spec.offline else f"{checked.model_name}, {chosen_by}"
    of_agent = Check("agent", "ok", f"{loaded.name}, {origin}")
    checks = [of_agent, Check("model", "ok", model), _tools_check(checked)]
    return checked, [*checks, *await _app_checks(spec, settings)]


async def _app_checks(spec: AgentSpec, settings: Settings) -> list[Check]:
    """Make what the agent's app gives its runs, and its sandbox."""
    name, given = "sandbox" if spec.sandboxed else "app", [part for part in RUN_PARTS if getattr(spec.loaded, part)]
    try:
        await check_app(spec, settings, [Query(id="doctor", text=next(iter(spec.loaded.examples), "Hello."))])
    except UsageError as exc:
        return [failed_check(name, exc)]
    if not spec.sandboxed:
        return [Check(name, "ok", f"gives each rollout its {', '.join(given)}")] if given else []
    finding = "a workspace of its own for each rollout; the SDK's local client confines nothing else on Linux: commands"
    finding += " have all the rights that you have"
    left = left_running()
    return [Check(name, "warn" if left else "ok", f"{finding}; {left}" if left else finding)]


def _tools_check(checked: CheckedAgent) -> Check:
    agent, endpoint = checked.agent, checked.spec.endpoint
    tools = [tool for each in reachable(agent) for tool in each.tools]
    # no function here serves them: they exist on the Responses API only
    hosted = ", ".join(tool.name for tool in tools if not isinstance(tool, FunctionTool))
    names = [
        *(tool.name if isinstance(tool, FunctionTool) else f"{tool.name} (hosted)" for tool in agent.tools),
        *(f"MCP server {server.name}" for server in agent.mcp_servers),
        *(f"handoff to {h.name if isinstance(h, Agent) else h.agent_name}" for h in agent.handoffs),
    ]
    finding = ", ".join(names) or "none"
    if hosted and endpoint and not checked.has_own_endpoint and not checked.spec.offline:
        if endpoint.api == "chat":
            finding = f"{finding}; hosted tools ({hosted}) do not exist on the chat API"
            advice = "leave them out where build(env) finds env.api == 'chat', or set --api responses"
            return Check("tools", "fail", finding, advice)
        if endpoint.host != OPENAI_HOST:
            finding = f"{finding}: OpenAI hosts that, and {endpoint.host} may not"
            advice = "if a run fails on it: --api chat, where an agent has to bring tools of its own"
            return Check("tools", "warn", finding, advice)
    return Check("tools", "ok", finding)


def endpoint_check(request: DoctorRequest, endpoint: Endpoint | None) -> Check:
    """Say where the agent's models are, by which API, and what decided that."""
    settings = request.settings
    if endpoint is None:
        why = f"by {request.origin('offline')}" if settings.offline else "neither a key nor an address is set"
        return Check("endpoint", "skipped", f"none: {why}")
    api = f"by {request.origin('api')}" if settings.api else "the usual one there"
    if endpoint.base_url is None:
        place = f"{OPENAI_HOST} (OpenAI's own: {AGENT_KEY} is set, and no address)"
        return Check("endpoint", "ok", f"{place}, API {endpoint.api} ({api})")
    address = without_credentials(endpoint.base_url)
    origin = request.origin("base_url") if settings.base_url else AGENT_URL
    finding = f"{address} (by {origin}), API {endpoint.api} ({api})"
    if not urlsplit(endpoint.base_url).path:
        return Check("endpoint", "warn", f"{finding}; an address without a path", f"most servers want {address}/v1")
    return Check("endpoint", "ok", finding)


async def judge_checks(
    request: DoctorRequest, agent: CheckedAgent | None
) -> tuple[JudgeSpec | None, Mapping[str, LoadedAgent], list[Check]]:
    """Resolve the judge as a run does. Return it, None where that fails, its agents, and the checks of each juror."""
    if agent is None:
        return None, {}, [Check("judge", "skipped", "it depends on the agent")]
    settings, credentials, model = request.settings, request.credentials, agent.spec.model
    try:
        spec, agents = await named_judge(settings, credentials, request.judge_agents, model, offline=agent.spec.offline)
        endpoints = judge_endpoints(spec, settings, credentials, agents)
    except UsageError as exc:
        return None, {}, [failed_check("judge", exc)]
    checks: list[Check] = []
    for (juror, endpoint), (_, keys) in zip(endpoints, member_keys(spec, settings, credentials), strict=True):
        if endpoint is None:
            why = "on models of its own" if juror.agent else "the embedded one"
            checks.append(Check("judge", "ok", f"{juror.model}, {why}"))
            continue
        environ, agent_key = keys.environ, keys.environ.get(AGENT_KEY, "").strip()
        shares_key = agent_key and not environ.get(JUDGE_KEY) and endpoint.key.get_secret_value() == agent_key
        variable, state = (AGENT_KEY, "serves the judge too") if shares_key else (JUDGE_KEY, "is set")
        of_key = _key_check("judge key", variable, environ.get(variable), endpoint, state)
        checks += [_juror_check(request, agent, juror, endpoint), of_key]
    return spec, agents, checks


async def model_list_checks(request: DoctorRequest, agent: CheckedAgent | None, judge: JudgeSpec | None) -> list[Check]:
    """Look each model of a run up in the list that its endpoint gives, with the key that the model is asked with."""
    models = models_of_agent(agent.spec, request.settings) if agent else []
    models += models_of_judge(judge, request.settings, request.credentials) if judge else []
    lists, checks = await read_lists(models), dict[tuple[str, str], Check]()
    for model in models:
        if model.place in lists:  # where a key is missing, the check of the key says so
            checks.setdefault((model.endpoint.host, model.name), _listed_check(request, lists[model.place], model))
    return list(checks.values())


def _listed_check(request: DoctorRequest, listed: ModelList | None, model: NamedModel) -> Check:
    host, name = model.endpoint.host, "model list"
    if listed is None or not listed.names:
        return Check(name, "skipped", f"{host} gives none")
    if ends := listed.shutdown_soon(model.name, request.clock().date()):
        return Check(name, "warn", f"{host} says that {ends}", f"name another with {model.named_by}")
    if listed.has(model.name):
        return Check(name, "ok", f"{host} lists {model.name}")
    if urlsplit(model.endpoint.base_url or "").hostname in LOOPBACK:
        finding = f"{host} does not list {model.name!r}{listed.near(model.name)}"
        return Check(name, "warn", finding, f"{model.named_by} {shlex.quote(usual_model(listed.names))}")
    return Check(name, "ok", f"{host} {listed.unlisted(model.name)}")


def run_check(
    request: DoctorRequest, failed: Sequence[str], agent: CheckedAgent | None, judge: JudgeSpec | None, *, unknown: bool
) -> Check:
    """Say whether a run would be a real one, where the checks named in `failed` failed.

    Where the agent is `unknown`, no key or address could make it one.
    """
    settings = request.settings
    if failed or agent is None or judge is None:
        nothing_set = not settings.base_url and not any(map(request.environ.get, (AGENT_KEY, AGENT_URL)))
        advice = _how_to_run_for_real(request) if nothing_set and not unknown else None
        return Check("run", "fail", f"would stop: see {', '.join(failed)}", advice)
    if agent.spec.offline:
        why = f"by {request.origin('offline')}" if settings.offline else f"no {AGENT_KEY}, and no address"
        finding = f"would be the OFFLINE SELF-TEST ({why}); its ranks say nothing of any LLM"
        return Check("run", "warn", finding, _how_to_run_for_real(request))
    if judge.offline:
        finding = "would be ranked by the embedded judge: a SELF-TEST, whose ranks say nothing of any LLM"
        return Check("run", "warn", finding, "name a model with --judge-model")
    return Check("run", "ok", "would be a real one")


def _how_to_run_for_real(request: DoctorRequest) -> str:
    if request.settings.offline:
        return f"take {request.origin('offline')} away for a real run"
    model = request.settings.model or "NAME"
    with_server = request.command("run", base_url="http://localhost:8000/v1", model=model)
    return f"with a key:           {AGENT_KEY}=sk-... {request.command('run')}\nwith a local server:  {with_server}"


def _juror_check(request: DoctorRequest, agent: CheckedAgent, spec: JudgeSpec, endpoint: Endpoint) -> Check:
    who = f"agent {spec.model}, on {spec.asked}" if spec.agent else spec.model
    finding = f"{who} at {endpoint.host}, API {spec.api}"
    agents = agent.spec.endpoint
    if agents and spec.asked == agent.spec.model and endpoint.host == agents.host:
        finding = f"{finding}: the agent's own model, and judges favour their own"
        return Check("judge", "warn", finding, "name another with --judge-model")
    origin = request.origin("judge_agent" if spec.agent else "judge_model")
    return Check("judge", "ok", f"{finding} (by {origin})" if origin else finding)


def _key_check(name: str, variable: str, key: str | None, endpoint: Endpoint, state: str = "is set") -> Check:
    """Say whether a key is set, never what it is.

    Local servers rarely want a key, and OpenAI always does; of the others nobody knows.
    """
    key = (key or "").strip()  # as a run does; what else no header can carry it has refused already
    if key:
        quoted = key[0] in "'\"" or key[-1] in "'\""
        if not quoted and key.isascii() and key.isprintable() and " " not in key:
            return Check(name, "ok", f"{variable} {state}")
        faults = "it has quotes, spaces, a line break or letters beyond ASCII"
        finding = f"{variable} {state}, but no key looks like that: {faults}"
        return Check(name, "fail", finding, f"set {variable} again, to the key alone")
    finding = f"{variable} is not set; {endpoint.host} gets the word `none` for a key"
    if urlsplit(endpoint.base_url or "").hostname in LOOPBACK:
        return Check(name, "ok", f"{finding}, as local servers take it")
    return Check(name, "fail" if endpoint.host == OPENAI_HOST else "warn", finding, f"set {variable}")


def machine_checks() -> list[Check]:
    """Check what a run needs of the machine, whatever the agent."""
    checks = [Check("python", "ok", f"{platform.python_version()} at {sys.executable}")]
    try:
        packages = ("arena-harness", "openai-agents", "openai", "pydantic")
        versions = ", ".join(f"{name} {version(name)}" for name in packages)
        checks.append(Check("packages", "ok", versions))
    except PackageNotFoundError as exc:
        advice = f"{sys.executable} -m pip install -e ."
        checks.append(Check("packages", "fail", f"{exc.name} is not installed", advice))
    name = f"SQLite {sqlite3.sqlite_version}"
    with closing(sqlite3.connect(":memory:")) as db:
        try:
            db.execute("CREATE VIRTUAL TABLE probe USING fts5(text)")
            checks.append(Check("sqlite", "ok", f"{name} with FTS5"))
        except sqlite3.OperationalError:
            advice = "use a Python whose SQLite has FTS5, such as python.org's or uv's"
            checks.append(Check("sqlite", "warn", f"{name} without FTS5: no local search, no self-test", advice))
    return checks


def tracing_check() -> Check:
    """Check that steps can be captured. Call this after the agent's own code ran, which may switch tracing off."""
    try:
        check_tracing()
    except UsageError as exc:
        return Check("tracing", "fail", *str(exc).split(": ", 1))
    return Check("tracing", "ok", "on, and kept here: nothing is uploaded")


@dataclass(frozen=True)
class Findings:
    """What the free checks found. What is None could not be settled; a failed check says why."""

    checks: tuple[Check, ...]
    agent: CheckedAgent | None = None
    judge: JudgeSpec | None = None
    rubric: Rubric | None = None
    judge_agents: Mapping[str, LoadedAgent] = field(default_factory=dict[str, LoadedAgent])
    """Those of the judge, by identity."""


async def run_free_checks(request: DoctorRequest, ports: Sequence[int] | None) -> Findings:
    """Check the machine, the agent, its endpoint and its judge, and look for model servers at `ports`.

    With `ports` None no server is asked for its models, nor is that of the run. Raises UsageError for settings that
    cannot be read; everything else that is wrong is a failed check.
    """
    checks = machine_checks()
    agent, judge, rubric, endpoint, is_unknown = None, None, None, None, False
    judge_agents: Mapping[str, LoadedAgent] = {}
    try:
        servers = () if request.settings.offline else agent_servers(request.settings, request.credentials)
    except UsageError as exc:
        checks.append(failed_check("endpoint", exc))
    else:
        endpoint = next(iter(servers), None)
        try:
            agent, of_agent = await check_agent(request, load_agent(request.agent, Path.cwd()))
        except HarnessError as exc:
            of_agent, is_unknown = [failed_check("agent", exc)], isinstance(exc, NoSuchAgent)
        judge, judge_agents, of_judge = await judge_checks(request, agent)
        try:
            rubric = load_rubric(request.settings.rubric or (agent and agent.spec.loaded.rubric) or DEFAULT_RUBRIC)
            of_rubric = Check("rubric", "ok", rubric.label)
        except UsageError as exc:
            of_rubric = failed_check("rubric", exc)
        checks += [*of_agent, tracing_check()]
        checks += [endpoint_check(request, server) for server in servers or (None,)]
        key = request.environ.get(AGENT_KEY)
        if endpoint:
            checks.append(_key_check("key", AGENT_KEY, key, endpoint))
        else:
            checks.append(Check("key", "skipped", f"{AGENT_KEY} is {'set, and not used' if key else 'not set'}"))
        checks += [*of_judge, of_rubric]
        if ports is not None:
            checks += await model_list_checks(request, agent, judge)
    failed = [check.name for check in checks if check.status == "fail"]
    checks.append(run_check(request, failed, agent, judge, unknown=is_unknown))
    checks += await server_checks(request, ports or (), endpoint)
    printed = tuple(fit_to_print(check, request.secrets) for check in checks)
    return Findings(checks=printed, agent=agent, judge=judge, rubric=rubric, judge_agents=judge_agents)
