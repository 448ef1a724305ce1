"""How a run of an agent, or an app's function in its place, ended."""

from dataclasses import dataclass
from typing import Any

from agents import Agent, RunResult, RunResultStreaming
from pydantic import TypeAdapter

from harness.core.errors import UsageError
from harness.core.records import Failure, Query
from harness.rollouts.app_functions import argument_for
from harness.rollouts.approval_gate import waits_for
from harness.rollouts.lifecycle import call_user_code


@dataclass(frozen=True)
class AgentOutcome:
    """How a run of the agent ended: its result, or why there is none."""

    answer: str = ""
    is_json: bool = False
    failure: Failure | None = None
    error: BaseException | None = None


async def app_outcome(function: Any, query: Query) -> AgentOutcome:
    """Call an app's function and return what became of it. Raises UsageError for what is no answer."""
    answer: Any = await call_user_code(function, argument_for(function, query))
    if answer is None:
        raise UsageError(f"{function.__name__} returned None: a function of the query returns its answer")
    returned = f"{function.__name__} returned a {type(answer).__name__}"
    if issubclass(type(answer), Agent) or hasattr(answer, "__aenter__"):
        raise UsageError(
            f"{returned}: a function of the query returns its answer; one that "
            "builds an agent is `async def build(env: AgentEnv) -> Agent`"
        )
    try:
        return read_outcome(answer)
    except ValueError:  # pydantic has no form for it
        raise UsageError(f"{returned}, which is neither text nor JSON") from None


def read_outcome(result: Any) -> AgentOutcome:
    """Return how what raised nothing ended: a run or an app, with a text, with JSON, or waiting for an approval."""
    is_run = isinstance(result, RunResult | RunResultStreaming)
    if is_run and result.interruptions:
        message = waits_for(result.interruptions)
        return AgentOutcome(failure=Failure(kind="approval", type="ToolApprovalItem", message=message))
    final: Any = result.final_output if is_run else result
    if final is None or isinstance(final, str):
        return AgentOutcome(answer=final or "")
    return AgentOutcome(answer=TypeAdapter(Any).dump_json(final).decode(), is_json=True)
