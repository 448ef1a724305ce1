"""The checks of the agent: whether it loads, which model it uses, which tools it has."""

import random
from dataclasses import dataclass
from typing import Any

from agents import Agent, FunctionTool, Model

from harness.core.errors import HarnessError
from harness.doctor.checks import Check, DoctorRequest
from harness.endpoints.address import OPENAI_HOST
from harness.pipeline.resolve import AgentSpec, resolve_agent
from harness.rollouts.environment import AgentEnv
from harness.rollouts.graph import reachable
from harness.rollouts.loading import LoadedAgent


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
            brings_model = isinstance(agent.model, Model) and settings.model is None
            is_elsewhere = spec.endpoint is None and not spec.offline
            checked = CheckedAgent(spec, agent, has_own_endpoint=brings_model or is_elsewhere)
    except HarnessError:
        raise
    except Exception as exc:  # noqa: BLE001 - the user's own code, and servers that it starts
        finding = f"{request.agent!r} could not be made: {type(exc).__name__}: {exc}"
        return None, [Check("agent", "fail", finding, "mend its file; `harness run` would stop there too")]
    origin = "an example that comes with the harness" if loaded.packaged else loaded.file or "not from a file"
    chosen_by = f"by {request.origin('model')}" if settings.model else "the agent's own"
    model = f"{spec.model}, the embedded one" if spec.offline else f"{checked.model_name}, {chosen_by}"
    of_agent = Check("agent", "ok", f"{loaded.name}, {origin}")
    return checked, [of_agent, Check("model", "ok", model), _tools_check(checked)]


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
