"""An agent that reads a context that its file does not make is told so."""

from pathlib import Path
from typing import Any

import pytest
from agents import Agent, RunContextWrapper, function_tool

import harness as package
from tests.conftest import Harness
from tests.fake_endpoint import FakeEndpoint
from tests.rollouts.test_agent_code import calling_script, roll_out

pytestmark = pytest.mark.anyio

SAYS = "it reads the run's context, which is None: define `context(query)` in the agent's file"


def greeting(ctx: RunContextWrapper[Any], _: Any) -> str:
    return f"Greet {ctx.context.user}."


@function_tool(failure_error_function=None)
def look_up(ctx: RunContextWrapper[Any]) -> str:
    """Look up."""
    return ctx.context["user"]


async def test_an_agent_that_reads_a_context_that_nobody_makes_is_told_before_its_first_call():
    agent = Agent(name="a", instructions=greeting)
    with pytest.raises(package.UsageError) as raised:
        await roll_out(agent)
    assert "'NoneType' object has no attribute 'user'; raised in greeting (" in str(raised.value)
    assert str(raised.value).endswith(SAYS)


async def test_a_tool_that_does_so_is_told_in_its_failure():
    rollouts = await roll_out(Agent(name="a", tools=[look_up]))
    assert [r.failure.kind for r in rollouts if r.failure] == ["tool"] * 2
    assert all(r.failure.message.endswith(SAYS) for r in rollouts if r.failure)


async def test_none_that_is_no_context_is_not_taken_for_one():
    def wrong(ctx: RunContextWrapper[Any], _: Any) -> str:
        return ctx.context["user"].name

    (rollout, _) = await roll_out(Agent(name="a", instructions=wrong), context=lambda _: {"user": None})
    assert rollout.failure
    assert SAYS not in rollout.failure.message


def test_the_command_says_so_with_a_code_of_its_own_and_no_next_line(
    harness: Harness, endpoint: FakeEndpoint, tmp_path: Path
):
    source = "from agents import Agent\n\ndef greet(ctx, agent):\n    return ctx.context.user\n"
    (tmp_path / "reads.py").write_text(f"{source}\nagent = Agent(name='a', instructions=greet)\n")
    env = {"OPENAI_BASE_URL": endpoint.base_url}
    done = harness("run", "--agent", "reads.py", "Do it.", "--model", "m", "-n", "3", env=env)
    assert done.code == 2, done.err
    assert "define `context(query)`" in done.err
    assert "Traceback" not in done.err
    assert "next: " not in done.err + done.out


def test_a_tool_whose_error_went_to_the_model_is_noted(harness: Harness, endpoint: FakeEndpoint, tmp_path: Path):
    source = "from agents import Agent, RunContextWrapper, function_tool\n\n@function_tool\n"
    tool = "def act(ctx: RunContextWrapper) -> str:\n    return ctx.context.user\n"
    (tmp_path / "reads.py").write_text(f"{source}{tool}\nagent = Agent(name='a', tools=[act])\n")
    endpoint.agent = calling_script
    env = {"OPENAI_BASE_URL": endpoint.base_url}
    done = harness("run", "--agent", "reads.py", "Do it.", "--model", "m", "-n", "3", env=env)
    assert done.err.count("a tool of agent 'reads' failed: it reads the run's context, which is None") == 1, done.err
