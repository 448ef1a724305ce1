"""Hooks that the agent's own code gives its runs are called, and the record loses nothing by them."""

import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from agents import Agent, RunHooks, Runner, function_tool

from harness import AppAgent
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


APP = """
from agents import Agent, RunHooks, function_tool

NOTED = []

class Noting(RunHooks):
    def __init__(self, query):
        self.query = query

    async def on_llm_end(self, context, agent, response):
        NOTED.append((self.query.text, "reply"))

    async def on_tool_end(self, context, agent, tool, result):
        NOTED.append((self.query.text, result))

@function_tool(timeout=0.01)
async def hang() -> str:
    "Never come back."
    import anyio
    await anyio.sleep_forever()

hooks = Noting
agent = Agent(name="app", tools=[hang])
"""


async def test_an_apps_hooks_are_made_for_each_rollout_and_the_record_is_whole_live_and_replayed(tmp_path: Path):
    file = tmp_path / "app.py"
    file.write_text(APP)
    rollouts, _ = await roll_out(str(file), calling_once, n=2)
    late = "Tool 'hang' timed out after 0.01 seconds."
    assert [rollout.trajectory.path[0].error for rollout in rollouts] == [f"ToolTimeoutError: {late}"] * 2
    assert sorted(load_noted(str(file))) == sorted([("Do it.", said) for said in ("reply", "reply", late)] * 2)
    run = await archived(str(file), "Go.", calling_once, tmp_path / "runs")
    assert len(load_noted(str(file))) == 6
    await identical(run, str(file))
    assert len(load_noted(str(file))) == 6


def load_noted(file: str) -> list[Any]:
    """Return what the module that was loaded last has noted."""
    return next(m for m in reversed(sys.modules.values()) if getattr(m, "__file__", None) == file).NOTED


async def test_hooks_by_value_serve_all_rollouts_and_what_they_raise_fails_theirs_as_the_agents_own_code():
    class Raising(Noting):
        async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
            await super().on_tool_start(context, agent, tool)
            raise LookupError("no such tool in my list")

    @function_tool
    def look() -> str:
        """Look."""
        return "seen"

    noting, agent = Noting(), Agent(name="a", tools=[look])
    rollouts, _ = await roll_out(AppAgent(agent, hooks=noting), calling_once, n=3)
    assert [rollout.status for rollout in rollouts] == ["ok"] * 3
    assert noting.called.count("look gave seen") == 3
    rollouts, _ = await roll_out(AppAgent(agent, hooks=Raising), calling_once, n=2)
    for rollout in rollouts:
        assert rollout.failure
        assert (rollout.failure.kind, rollout.failure.type) == ("agent_code", "LookupError")
        assert "no such tool in my list; raised in on_tool_start" in rollout.failure.message
