"""Hooks that the agent's own code gives its runs are called, and the record loses nothing by them."""

from pathlib import Path
from typing import Any

import anyio
import pytest
from agents import Agent, RunHooks, Runner, function_tool

from tests.fake_endpoint import Say, Seen
from tests.rollouts.test_capture import roll_out
from tests.rollouts.test_replay import archived, identical

pytestmark = pytest.mark.anyio


class Noting(RunHooks[Any]):
    """Notes what it is called for."""

    def __init__(self) -> None:
        self.called: list[str] = []

    async def on_llm_start(self, context: Any, agent: Any, system_prompt: Any, input_items: Any) -> None:
        self.called.append("llm starts")

    async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
        self.called.append("agent ends")

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        self.called.append(f"{tool.name} starts")

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
        self.called.append(f"{tool.name} gave {result}")


def calling_once(seen: Seen) -> Say:
    """Call the first tool once, then answer."""
    tools = seen.body.get("tools")
    return Say("Done.") if seen.tool_outputs or not tools else Say(calls=((tools[0]["function"]["name"], {}),))


async def test_a_nested_runs_own_hooks_are_called_and_its_tools_timeout_is_told():
    noting = Noting()

    @function_tool(timeout=0.01)
    async def hang() -> str:
        """Never come back."""
        await anyio.sleep_forever()
        return ""

    @function_tool
    async def ask() -> str:
        """Ask an agent."""
        return (await Runner.run(Agent(name="inner", tools=[hang]), "Go.", hooks=noting)).final_output

    ((rollout,), _) = await roll_out(Agent(name="outer", tools=[ask]), calling_once)
    (step,) = rollout.trajectory.path[0].inner
    assert step.error == f"ToolTimeoutError: {step.tool_output}"
    assert noting.called[:2] == ["llm starts", "hang starts"]
    assert noting.called[-2:] == ["llm starts", "agent ends"]


DEEP = """
from agents import Agent, RunHooks, Runner, function_tool

@function_tool
async def dig() -> str:
    "Ask the deepest."
    return (await Runner.run(Agent(name="deepest"), "Go.")).final_output

@function_tool
async def ask() -> str:
    "Ask the inner."
    return (await Runner.run(Agent(name="inner", tools=[dig]), "Go.", hooks=RunHooks())).final_output

agent = Agent(name="outer", tools=[ask])
"""


async def test_calls_inside_of_a_nested_run_with_hooks_say_within_which_tool_call_they_were_made(tmp_path: Path):
    file = tmp_path / "deep.py"
    file.write_text(DEEP)
    ((rollout,), _) = await roll_out(str(file), calling_once)
    assert [(c.agent, c.within is not None) for c in rollout.calls] == [
        ("outer", False),
        ("inner", True),
        ("deepest", True),
        ("inner", True),
        ("outer", False),
    ]
    await identical(await archived(str(file), "Go.", calling_once, tmp_path / "runs"), str(file))
