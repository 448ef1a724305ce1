"""How a run of an agent, or an app's function in its place, ended."""

from dataclasses import dataclass
from typing import Any

from agents import Agent
from agents.result import RunResultBase
from pydantic import TypeAdapter
from pydantic_core import PydanticSerializationError

from harness.core.errors import UsageError
from harness.core.records import Failure, Query
from harness.rollouts.app_functions import argument_for
from harness.rollouts.approval_gate import waits_for
from harness.rollouts.lifecycle import call_user_code
from harness.rollouts.loading import LoadedAgent


@dataclass(frozen=True)
class AgentOutcome:
    """How a run of the agent ended: its result, or why there is none."""

    answer: str = ""
    is_json: bool = False
    failure: Failure | None = None
    error: BaseException | None = None


async def app_outcome(loaded: LoadedAgent, query: Query) -> AgentOutcome:
    """Call an app's function and return what became of it. Raises UsageError for what is no answer."""
    answer: Any = await call_user_code(loaded.source, argument_for(loaded.source, query))
    returned = f"{loaded.name} returned a {type(answer).__name__}"
    if issubclass(type(answer), Agent) or hasattr(answer, "__aenter__"):
        raise UsageError(
            f"{returned}: a function of the query returns its answer; one that "
            "builds an agent is `async def build(env: AgentEnv) -> Agent`"
        )
    try:
        return read_outcome(answer)
    except PydanticSerializationError:
        raise UsageError(f"{returned}, which is neither text nor JSON") from None


def read_outcome(result: Any) -> AgentOutcome:
    """Return how what raised nothing ended: a run or an app, with a text, with JSON, or waiting for an approval."""
    is_run = issubclass(type(result), RunResultBase)
    if is_run and result.interruptions:
        message = waits_for(result.interruptions)
        return AgentOutcome(failure=Failure(kind="approval", type="ToolApprovalItem", message=message))
    final: Any = result.final_output if is_run else result
    if final is None or isinstance(final, str):
        return AgentOutcome(answer=final or "")
    return AgentOutcome(answer=TypeAdapter(Any).dump_json(final).decode(), is_json=True)
