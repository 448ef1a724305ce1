"""`harness.AppAgent`: an agent with what its app gives its runs, wherever Python takes an agent."""

from pathlib import Path
from typing import Any

import pytest
from agents import Agent, ModelSettings, RunConfig, RunContextWrapper, SQLiteSession, function_tool
from agents.run_config import CallModelData, ModelInputData

import harness
from tests.conftest import Harness
from tests.fake_endpoint import FakeEndpoint, Refuse, Say, Seen, fair_judge
from tests.rollouts.test_run_hooks import Noting

pytestmark = pytest.mark.anyio


@function_tool
def who(context: RunContextWrapper[Any]) -> str:
    """Tell the user's name."""
    return str(context.context)


def filtered(data: CallModelData[Any]) -> ModelInputData:
    return ModelInputData(input=data.model_data.input, instructions="Filtered.")


def asking(seen: Seen) -> Say:
    return Say(f"{seen.system} {seen.tool_outputs[0]}") if seen.tool_outputs else Say(calls=(("who", {}),))


def parts(noting: Noting) -> dict[str, Any]:
    return {
        "context": "Ada",
        "run_config": lambda query: RunConfig(call_model_input_filter=filtered, workflow_name=query.id),
        "hooks": noting,
        "session": lambda: SQLiteSession("one"),
    }


AGENT = Agent[Any](name="app", instructions="Plain.", tools=[who], model_settings=ModelSettings(max_tokens=9))


def settings(endpoint: FakeEndpoint, folder: Path) -> dict[str, Any]:
    return {"model": "m", "base_url": endpoint.base_url, "judge_model": "judge", "runs_dir": folder}


async def test_run_rollout_and_best_take_them_as_arguments_and_replay_and_resume_in_an_app_agent(tmp_path: Path):
    noting, failing = Noting(), [True]

    def once_refused(seen: Seen) -> Say | Refuse:
        return Refuse(400, "not now") if seen.tool_outputs and failing and failing.pop() else asking(seen)

    with FakeEndpoint(agent=once_refused, judge=fair_judge()).serving() as endpoint:
        at = settings(endpoint, tmp_path)
        best = await harness.best_of(AGENT, "Who am I?", 2, **parts(noting), **at)
        assert best.answer == "Filtered. Ada"
        failing.append(True)
        run = await harness.run(AGENT, "Who am I?", n=3, **parts(noting), **at)
        assert sorted(r.status for r in run.rollouts("Who am I?")) == ["failed", "ok", "ok"]
        agent = harness.AppAgent(AGENT, **parts(noting))
        with pytest.raises(harness.UsageError, match="no longer the one of run"):
            await harness.resume(run, AGENT, retry_failed=True)
        run = await harness.resume(run, agent, retry_failed=True)
        assert [r.trajectory.answer for r in run.rollouts("Who am I?")] == ["Filtered. Ada"] * 3
    assert noting.called.count("who gave Ada") == 2 + 3 + 1
    assert [outcome.divergence for outcome in await harness.replay(run, agent)] == [None] * 3
    assert all(outcome.divergence for outcome in await harness.replay(run, AGENT))


async def test_a_run_with_arguments_of_its_own_is_not_resumed_by_its_agents_name_alone(tmp_path: Path):
    file = tmp_path / "own.py"
    file.write_text("from agents import Agent\nagent = Agent(name='a')\n")
    with FakeEndpoint(agent=lambda _: Say("Hi."), judge=fair_judge()).serving() as endpoint:
        run = await harness.run(file, "Hi.", n=2, hooks=Noting(), **settings(endpoint, tmp_path))
    with pytest.raises(harness.UsageError, match="does not say where its agent is"):
        await harness.replay(run)
    assert [outcome.divergence for outcome in await harness.replay(run, file)] == [None, None]


async def test_two_configurations_of_one_agent_are_compared(tmp_path: Path):
    def by_length(seen: Seen) -> Say:
        return Say("long" * seen.body["max_tokens"])

    def configured(most: int) -> harness.AppAgent:
        config = RunConfig(model_settings=ModelSettings(max_tokens=most))
        return harness.AppAgent(Agent(name=f"most-{most}"), run_config=config)

    with FakeEndpoint(agent=by_length, judge=fair_judge()).serving() as endpoint:
        at = settings(endpoint, tmp_path)
        await harness.compare(configured(1), configured(2), queries=["One.", "Two."], **at)
        assert {seen.body["max_tokens"] for seen in endpoint.requests if not seen.is_judge} == {1, 2}


SHARING = """
from agents import Agent, SQLiteSession
def session(query):
    return SQLiteSession("me", "chat.db")
agent = Agent(name="a")
"""


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_the_command_refuses_a_shared_session_with_exit_2(harness: Harness, more: tuple[str, ...], tmp_path: Path):
    (tmp_path / "own.py").write_text(SHARING)
    done = harness("run", "--agent", "own.py", "Hi.", *more, env={"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"})
    assert done.code == 2
    assert "-n 8: session(query) of agent 'own' gives rollouts of one query the same session" in done.err
    assert not (tmp_path / "runs").exists()
