"""The agent that a run would run: whether it loads, what it runs on, which tools it has."""

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents import Agent, FunctionTool, Model

from harness.core.errors import HarnessError
from harness.doctor.checks import Check, from_error
from harness.doctor.request import Asked
from harness.endpoints import OPENAI_HOST, Endpoint
from harness.pipeline import AgentSpec, resolve_agent
from harness.rollouts import AgentEnv, LoadedAgent, load_agent, reachable


@dataclass(frozen=True)
class Subject:
    """An agent as made for a look, and what a run of it was resolved to."""

    spec: AgentSpec
    agent: Agent[Any]
    own_model: bool
    """It brings a model object or client, so that the endpoint here is not what it asks."""

    @property
    def calls_functions(self) -> bool:
        """Whether its models are offered functions to call: tools, MCP servers, handoffs."""
        return any(
            a.mcp_servers or a.handoffs or any(isinstance(t, FunctionTool) for t in a.tools)
            for a in reachable(self.agent)
        )

    @property
    def model_name(self) -> str:
        """The model's name, or its class where it has none."""
        return self.spec.model or type(self.agent.model).__name__

    @property
    def host(self) -> str:
        """Where the model is, as far as it can be told."""
        return self.spec.endpoint.host if self.spec.endpoint and not self.own_model else "the agent's endpoint"

    @property
    def takes_seed(self) -> bool:
        """Whether a run sends seeds, as a rollout decides it: not on the Responses API, nor without an endpoint."""
        return self.spec.endpoint is not None and self.spec.endpoint.api == "chat"

    @property
    def hosted_tools(self) -> list[str]:
        """Tools that no function here serves: they exist on the Responses API only."""
        return [t.name for a in reachable(self.agent) for t in a.tools if not isinstance(t, FunctionTool)]


async def look_at_agent(asked: Asked, here: Path) -> tuple[Subject | None, list[Check]]:
    """Load the agent, make one, and tell what it is."""
    try:
        loaded = load_agent(asked.agent, here)
        spec = await resolve_agent(loaded, asked.settings, asked.environ)
        async with loaded.open(_env(asked, spec)) as agent:
            own = isinstance(agent.model, Model) and asked.settings.model is None
            subject = Subject(spec, agent, own_model=own or (spec.endpoint is None and not spec.offline))
    except HarnessError as exc:
        return None, [from_error("agent", exc)]
    except Exception as exc:  # noqa: BLE001 - the user's own code, and servers that it starts
        found = f"{asked.agent!r} could not be made: {type(exc).__name__}: {exc}"
        return None, [Check("agent", "fail", found, "mend its file; `harness run` would stop there too")]
    return subject, [Check("agent", "ok", _described(loaded)), _model(asked, subject), _tools(subject)]


def _env(asked: Asked, spec: AgentSpec) -> AgentEnv:
    settings, api = asked.settings, spec.endpoint.api if spec.endpoint else "chat"
    return AgentEnv(
        api=api, offline=spec.offline, corpus=settings.corpus, model=settings.model, rng=random.Random(settings.seed)
    )


def _described(loaded: LoadedAgent) -> str:
    where = "an example that comes with the harness" if loaded.packaged else loaded.file or "not from a file"
    return f"{loaded.name}, {where}"


def _model(asked: Asked, subject: Subject) -> Check:
    if subject.spec.offline:
        return Check("model", "ok", f"{subject.spec.model}, the embedded one")
    origin = f"by {asked.origin('model')}" if asked.settings.model else "the agent's own"
    return Check("model", "ok", f"{subject.model_name}, {origin}")


def _tools(subject: Subject) -> Check:
    there, hosted, endpoint = _names(subject.agent), ", ".join(subject.hosted_tools), subject.spec.endpoint
    if hosted and endpoint and not subject.own_model and not subject.spec.offline:
        return _hosted(there, hosted, endpoint)
    return Check("tools", "ok", there)


def _hosted(there: str, hosted: str, endpoint: Endpoint) -> Check:
    if endpoint.api == "chat":
        return Check(
            "tools",
            "fail",
            f"{there}; hosted tools ({hosted}) do not exist on the chat API",
            "leave them out where build(env) finds env.api == 'chat', or set --api responses",
        )
    if endpoint.host != OPENAI_HOST:
        return Check(
            "tools",
            "warn",
            f"{there}: OpenAI hosts that, and {endpoint.host} may not",
            "if a run fails on it: --api chat, where an agent has to bring tools of its own",
        )
    return Check("tools", "ok", there)


def _names(agent: Agent[Any]) -> str:
    words = [t.name if isinstance(t, FunctionTool) else f"{t.name} (hosted)" for t in agent.tools]
    words += [f"MCP server {s.name}" for s in agent.mcp_servers]
    words += [f"handoff to {h.name if isinstance(h, Agent) else h.agent_name}" for h in agent.handoffs]
    return ", ".join(words) or "none"
