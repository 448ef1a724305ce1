"""The checks of the agent: whether it loads, which model it uses, which tools it has."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents import Agent, FunctionTool, Model, Tool

from harness.core.errors import HarnessError
from harness.doctor.checks import Check, DoctorRequest, failed_check
from harness.endpoints.address import OPENAI_HOST, Endpoint
from harness.pipeline.resolve import AgentSpec, resolve_agent
from harness.rollouts.environment import AgentEnv
from harness.rollouts.graph import reachable
from harness.rollouts.loading import LoadedAgent, load_agent


@dataclass(frozen=True)
class CheckedAgent:
    """An agent made for the checks, and what a run of it resolves to."""

    spec: AgentSpec
    agent: Agent[Any]
    has_own_endpoint: bool
    """The agent brings a model object or client, so that the endpoint of the settings is not asked."""

    @property
    def offers_functions(self) -> bool:
        """Whether its models are offered functions to call: tools, MCP servers, handoffs."""
        return any(
            agent.mcp_servers or agent.handoffs or any(isinstance(tool, FunctionTool) for tool in agent.tools)
            for agent in reachable(self.agent)
        )

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

    @property
    def hosted_tools(self) -> list[str]:
        """Tools that no function here serves: they exist on the Responses API only."""
        tools = [tool for agent in reachable(self.agent) for tool in agent.tools]
        return [tool.name for tool in tools if not isinstance(tool, FunctionTool)]


def find_agent(request: DoctorRequest, folder: Path) -> LoadedAgent | HarnessError:
    """Load the agent as from `folder`; return what is raised where that fails."""
    try:
        return load_agent(request.agent, folder)
    except HarnessError as exc:
        return exc


async def check_agent(request: DoctorRequest, loaded: LoadedAgent) -> tuple[CheckedAgent | None, list[Check]]:
    """Make an agent. Return it, None where that fails, with the checks of it."""
    try:
        # the tools have a check of their own
        spec = await resolve_agent(loaded, request.settings, request.credentials, with_tools=False)
        async with loaded.open(_env(request, spec)) as agent:
            checked = CheckedAgent(spec, agent, has_own_endpoint=_has_own_endpoint(request, spec, agent))
    except HarnessError as exc:
        return None, [failed_check("agent", exc)]
    except Exception as exc:  # noqa: BLE001 - the user's own code, and servers that it starts
        finding = f"{request.agent!r} could not be made: {type(exc).__name__}: {exc}"
        return None, [Check("agent", "fail", finding, "mend its file; `harness run` would stop there too")]
    origin = Check("agent", "ok", _origin(loaded))
    return checked, [origin, _model_check(request, checked), _tools_check(checked)]


def _env(request: DoctorRequest, spec: AgentSpec) -> AgentEnv:
    settings = request.settings
    return AgentEnv(
        api=spec.endpoint.api if spec.endpoint else "chat",
        offline=spec.offline,
        corpus=settings.corpus,
        model=settings.model,
        rng=random.Random(settings.seed),
    )


def _has_own_endpoint(request: DoctorRequest, spec: AgentSpec, agent: Agent[Any]) -> bool:
    model_object = isinstance(agent.model, Model) and request.settings.model is None
    return model_object or (spec.endpoint is None and not spec.offline)


def _origin(loaded: LoadedAgent) -> str:
    if loaded.packaged:
        return f"{loaded.name}, an example that comes with the harness"
    return f"{loaded.name}, {loaded.file or 'not from a file'}"


def _model_check(request: DoctorRequest, checked: CheckedAgent) -> Check:
    if checked.spec.offline:
        return Check("model", "ok", f"{checked.spec.model}, the embedded one")
    origin = f"by {request.origin('model')}" if request.settings.model else "the agent's own"
    return Check("model", "ok", f"{checked.model_name}, {origin}")


def _tools_check(checked: CheckedAgent) -> Check:
    names = ", ".join(_tool_names(checked.agent)) or "none"
    endpoint = checked.spec.endpoint
    if checked.hosted_tools and endpoint and not checked.has_own_endpoint and not checked.spec.offline:
        return _hosted_tools_check(names, ", ".join(checked.hosted_tools), endpoint)
    return Check("tools", "ok", names)


def _hosted_tools_check(names: str, hosted: str, endpoint: Endpoint) -> Check:
    if endpoint.api == "chat":
        finding = f"{names}; hosted tools ({hosted}) do not exist on the chat API"
        advice = "leave them out where build(env) finds env.api == 'chat', or set --api responses"
        return Check("tools", "fail", finding, advice)
    if endpoint.host != OPENAI_HOST:
        finding = f"{names}: OpenAI hosts that, and {endpoint.host} may not"
        advice = "if a run fails on it: --api chat, where an agent has to bring tools of its own"
        return Check("tools", "warn", finding, advice)
    return Check("tools", "ok", names)


def _tool_names(agent: Agent[Any]) -> Iterator[str]:
    yield from map(_tool_name, agent.tools)
    for server in agent.mcp_servers:
        yield f"MCP server {server.name}"
    for handoff in agent.handoffs:
        yield f"handoff to {handoff.name if isinstance(handoff, Agent) else handoff.agent_name}"


def _tool_name(tool: Tool) -> str:
    return tool.name if isinstance(tool, FunctionTool) else f"{tool.name} (hosted)"
