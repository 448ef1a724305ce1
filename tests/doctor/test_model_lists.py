"""Each model of a run is looked up in the list of its endpoint, and what no list says is no fault."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from harness.doctor.checks import Check
from harness.doctor.free_checks import run_free_checks
from tests.builders import AT
from tests.doctor.examined import KEY, a_request, at
from tests.fake_endpoint import FakeEndpoint, Page, Refuse

pytestmark = pytest.mark.anyio
DAY = (AT + timedelta(days=15)).date().isoformat()
OLD = {"id": "old", "shutdown_date": DAY}


async def found(endpoint: FakeEndpoint, given: Any, model: str = "a", *judges: str, **flags: Any) -> list[Check]:
    endpoint.models = given
    request = a_request(environ=at(endpoint), model=model, judge_model=judges or None, **flags)
    return [check for check in (await run_free_checks(request, ())).checks if check.name == "model list"]


async def test_a_model_that_is_listed_is_fine_and_the_list_is_read_once_for_agent_and_judges(endpoint: FakeEndpoint):
    checks = await found(endpoint, ["a", "j", "k"], "a", "j", "k")
    assert [(c.status, c.found) for c in checks] == [("ok", f"{endpoint.host} lists {name}") for name in "ajk"]
    assert endpoint.lists_read == [KEY]
    assert endpoint.requests == []


async def test_an_agent_that_is_its_own_judge_is_looked_up_once(endpoint: FakeEndpoint):
    assert len(await found(endpoint, ["a"], "a", "a")) == 1


async def test_a_judge_elsewhere_is_looked_up_there(endpoint: FakeEndpoint):
    with FakeEndpoint().serving() as other:
        other.models = ["j"]
        checks = await found(endpoint, ["a"], "a", "j", judge_base_url=[other.base_url])
        assert [c.found for c in checks] == [f"{endpoint.host} lists a", f"{other.host} lists j"]
        assert other.lists_read == ["none"]


async def test_a_shutdown_within_sixty_days_is_a_warning_with_its_date(endpoint: FakeEndpoint):
    agent, judge = await found(endpoint, [OLD, {**OLD, "id": "j"}], "old", "j")
    assert (agent.status, agent.do) == ("warn", "name another with --model")
    assert agent.found == f"{endpoint.host} says that old shuts down on {DAY}"
    assert (judge.status, judge.do) == ("warn", "name another with --judge-model")


async def test_at_a_server_of_this_machine_an_unlisted_name_is_a_warning_with_the_models_it_has(endpoint: FakeEndpoint):
    (check,) = await found(endpoint, ["nomic-embed-text", "qwen3:latest"], "qwen2")
    assert (check.status, check.do) == ("warn", "--model qwen3:latest")
    assert check.found == f"{endpoint.host} does not list 'qwen2'"


async def test_elsewhere_an_unlisted_name_is_a_note(endpoint: FakeEndpoint):
    there = endpoint.base_url.replace("127.0.0.1", "0.0.0.0")
    (check,) = await found(endpoint, ["gpt-6-luna"], "gpt-6-lunar", base_url=[there])
    assert check.status == "ok"
    assert check.found.endswith(
        "does not list 'gpt-6-lunar', and may serve it all the same; did you mean 'gpt-6-luna'?"
    )


@pytest.mark.parametrize("given", [Refuse(404), Refuse(401), Page(), "no JSON", [], [{"id": 5}]], ids=repr)
async def test_without_a_list_the_check_is_skipped(endpoint: FakeEndpoint, given: Any):
    assert await found(endpoint, given) == [Check("model list", "skipped", f"{endpoint.host} gives none")]


async def test_offline_no_list_is_asked_for(endpoint: FakeEndpoint):
    request = a_request(environ=at(endpoint), offline=True)
    assert "model list" not in {check.name for check in (await run_free_checks(request, ())).checks}
    assert endpoint.lists_read == []


async def test_for_the_measurement_of_a_judge_no_list_is_asked_for(endpoint: FakeEndpoint):
    await run_free_checks(a_request(environ=at(endpoint), model="a"), None)
    assert endpoint.lists_read == []


async def test_an_agent_that_brings_its_model_has_no_check_of_it(endpoint: FakeEndpoint, tmp_path: Path):
    text = """
from agents import Agent, OpenAIChatCompletionsModel
from openai import AsyncOpenAI

agent = Agent(name="mine", model=OpenAIChatCompletionsModel("own", AsyncOpenAI(api_key="k", base_url="http://own/v1")))
"""
    (tmp_path / "mine.py").write_text(text)
    request = a_request(f"{tmp_path / 'mine.py'}:agent", environ=at(endpoint), judge_model=["j"])
    endpoint.models = ["j"]
    checks = [check for check in (await run_free_checks(request, ())).checks if check.name == "model list"]
    assert [check.found for check in checks] == [f"{endpoint.host} lists j"]
