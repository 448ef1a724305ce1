"""Tools that Chat Completions does not know are told before anything is spent."""

from pathlib import Path
from typing import Any

import pytest
from agents import Agent, CodeInterpreterTool, Model, OpenAIChatCompletionsModel, WebSearchTool, function_tool, handoff
from openai import AsyncOpenAI

import harness
from harness.core.errors import UsageError
from tests.conftest import Harness
from tests.fake_endpoint import FakeEndpoint, Say

pytestmark = pytest.mark.anyio


@function_tool
def plain() -> str:
    """Do nothing."""
    return ""


def of_form(form: str) -> Agent[Any]:
    searching = Agent(name="searching", tools=[plain, WebSearchTool()])
    other = Agent(name="other", handoffs=[searching])
    match form:
        case "own":
            return searching
        case "handoff target":
            return Agent(name="a", handoffs=[other])
        case "handoff object":
            return Agent(name="a", handoffs=[handoff(other)])
        case _:
            return Agent(name="a", tools=[other.as_tool("ask", "Ask.")])


@pytest.mark.parametrize("form", ["own", "handoff target", "handoff object", "tool"])
async def test_on_chat_completions_a_hosted_tool_in_sight_is_refused_at_once(form: str, endpoint: FakeEndpoint):
    agent = of_form(form)
    with pytest.raises(UsageError, match=r"searching.*web_search.*api='responses'"):
        await harness.rollout(agent, "Do it.", n=2, model="m", base_url=endpoint.base_url)
    assert not endpoint.requests


@pytest.mark.parametrize("form", ["own", "handoff target", "handoff object", "tool"])
async def test_on_responses_it_runs(form: str):
    with FakeEndpoint(agent=lambda _: Say("Fine.")).serving() as endpoint:
        known: dict[str, Any] = {"model": "m", "base_url": endpoint.base_url, "api": "responses"}
        group = await harness.rollout(of_form(form), "Do it.", n=2, **known)
    assert [r.status for r in group.rollouts] == ["ok", "ok"]


async def test_an_agent_on_a_chat_model_of_its_own_is_told_of_its_model(endpoint: FakeEndpoint):
    async with AsyncOpenAI(base_url=endpoint.base_url, api_key="sk-x") as client:
        model: Model = OpenAIChatCompletionsModel("m", client)
        tool = CodeInterpreterTool(tool_config={"type": "code_interpreter", "container": {"type": "auto"}})
        with pytest.raises(UsageError, match=r"code_interpreter.*OpenAIResponsesModel"):
            await harness.rollout(Agent(name="a", model=model, tools=[tool]), "Do it.", n=2)
    assert not endpoint.requests


def test_the_command_exits_2(harness: Harness, endpoint: FakeEndpoint, tmp_path: Path):
    (tmp_path / "web.py").write_text("from agents import *\nagent = Agent(name='a', tools=[WebSearchTool()])\n")
    done = harness("run", "Why?", "--agent", "web.py", "--model", "m", "--base-url", endpoint.base_url)
    assert done.code == 2
    assert "--api responses" in done.err
    assert "Traceback" not in done.err
    assert not endpoint.requests
    assert not (tmp_path / "runs").exists()
