"""The sandbox of an agent made once before a run, to see that it can be and what it gives the agent."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import anyio
from agents import Model, ModelResponse, RunConfig, Tool
from agents.run import AgentRunner
from agents.sandbox import SandboxAgent

from harness.core.errors import UsageError, short_message
from harness.rollouts.sandboxes import Workspaces, sandboxes_in, unguarded

_STARTING_S = 120.0


class _Enough(Exception):
    """Ends a trial, which has seen all that it is for."""


@dataclass
class SandboxTrial(Model):
    """What a sandbox gives an agent: the tools and settings of its capabilities. Stands in for a model."""

    tools: list[Tool] = field(default_factory=list[Tool])
    extra_args: dict[str, Any] = field(default_factory=dict[str, Any])

    async def get_response(self, *_: Any, **asked: Any) -> ModelResponse:
        """Note what the run would ask for, and end it."""
        self.tools, self.extra_args = asked["tools"], asked["model_settings"].extra_args or {}
        raise _Enough

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        """Do nothing: no trial streams."""
        raise NotImplementedError


async def try_sandbox(agent: SandboxAgent[Any], theirs: RunConfig | None) -> SandboxTrial:
    """Make an agent's sandbox once, up to its first model call. Raises UsageError, with the reason, if it cannot be."""
    bare: dict[str, Any] = {"instructions": None, "base_instructions": "none", "hooks": None, "output_type": None}
    bare |= {
        name: list[Any]() for name in ("tools", "mcp_servers", "handoffs", "input_guardrails", "output_guardrails")
    }
    bare["capabilities"] = unguarded(agent)["capabilities"]
    trial, workspaces = SandboxTrial(), Workspaces()
    config = workspaces.given_to(theirs or RunConfig())
    usual = RunConfig(model=trial, tracing_disabled=True, sandbox=config.sandbox)
    client = config.sandbox and config.sandbox.client
    why = f"it did not start within {_STARTING_S:g} s"
    with anyio.move_on_after(_STARTING_S), sandboxes_in(workspaces):
        try:
            await AgentRunner().run(agent.clone(**bare), "Nothing.", run_config=usual)
        except (_Enough, UsageError) as exc:
            if isinstance(exc, UsageError):
                raise
            if workspaces.failure is None:
                return trial
            why = workspaces.failure.message
        except Exception as exc:  # noqa: BLE001 - the client, and what it needs, may be anybody's
            why = short_message(f"{type(exc).__name__}: {exc.__cause__ or exc}")
        finally:
            await workspaces.close()
    raise UsageError(f"the sandbox of agent {agent.name!r} cannot be made with {client}: {why}")
