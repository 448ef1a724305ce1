"""An app's function as the agent: every run inside of it is one trajectory, under the settings of the rollout."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, Runner, RunState, function_tool, set_default_openai_api, set_default_openai_client
from openai import AsyncOpenAI
from pydantic import BaseModel

import harness
from harness import AgentEnv, Query
from harness.core.errors import UsageError
from harness.rollouts.app_functions import is_app_function
from harness.rollouts.loading import load_agent
from tests.fake_endpoint import FakeEndpoint, Say, Seen, fair_judge
from tests.rollouts.test_capture import roll_out
from tests.rollouts.test_replay import archived, identical

pytestmark = pytest.mark.anyio
BOTH_APIS = pytest.mark.parametrize("api", ["chat", "responses"])

APP = '''
"""An app as it stands: nothing in it knows of rollouts."""

from dataclasses import dataclass, field

from agents import Agent, ModelSettings, RunConfig, RunContextWrapper, RunHooks, Runner, SQLiteSession, function_tool
from agents.run_config import ModelInputData

@dataclass
class User:
    name: str
    seen: list[str] = field(default_factory=list)

class Log(RunHooks[User]):
    async def on_tool_start(self, context, agent, tool):
        context.context.seen.append(tool.name)

@function_tool
def look_up(context: RunContextWrapper[User], word: str) -> str:
    "Look a word up."
    return f"{word}, for {context.context.name}"

def dynamic(context: RunContextWrapper[User], agent: Agent[User]) -> str:
    return f"Research for {context.context.name}."

def last_items(data):
    return ModelInputData(input=data.model_data.input[-4:], instructions=data.model_data.instructions)

context = User("nobody")
session = SQLiteSession("of the command line")
hooks = ["of another kind"]
run_config = RunConfig(call_model_input_filter=last_items, tracing_disabled=True,
                       model_settings=ModelSettings(max_tokens=50))
researcher = Agent[User](name="researcher", instructions=dynamic, tools=[look_up], model="small",
                         model_settings=ModelSettings(temperature=0.4))
writer = Agent[User](name="writer", instructions="Write.", model="small")

async def answer(query: str) -> str:
    user, own = User("Ada"), SQLiteSession("conversation")
    more = {"context": user, "session": own, "hooks": Log(), "run_config": run_config}
    found = await Runner.run(researcher, query, **more)
    written = await Runner.run(writer, f"Write on {found.final_output}", **more)
    own.close()
    return f"{written.final_output} ({', '.join(user.seen)})"
'''


def scripted(seen: Seen) -> Say:
    if seen.system == "Write.":
        return Say("Written.")
    return Say("found it") if seen.tool_outputs else Say(reasoning="I look.", calls=(("look_up", {"word": "x"}),))


@pytest.fixture
def app(tmp_path: Path) -> str:
    (tmp_path / "app.py").write_text(APP)
    return f"{tmp_path / 'app.py'}:answer"


@BOTH_APIS
async def test_all_runs_of_an_app_are_one_trajectory_in_order(app: str, api: str):
    rollouts, requests = await roll_out(app, scripted, api, n=2)
    assert sorted(seen.body["temperature"] for seen in requests) == [0.0] * 3 + [0.8] * 3
    assert {seen.body["model"] for seen in requests} == {"m"}
    for rollout in rollouts:
        assert (rollout.status, rollout.capture, rollout.capture_gaps) == ("ok", "full", ())
        assert rollout.trajectory.answer == "Written. (look_up)"
        assert [(s.kind, s.agent, s.tool_output or s.reasoning) for s in rollout.trajectory.path] == [
            ("tool", "researcher", "x, for Ada"),
            ("message", "researcher", "found it"),
        ]
        assert [call.agent for call in rollout.calls] == ["researcher", "researcher", "writer"]
        assert rollout.effective.uniform


@BOTH_APIS
async def test_its_requests_are_those_of_the_bare_app_but_for_the_sampling(app: str, api: Any):
    _, requests = await roll_out(app, scripted, api, model=None)
    with FakeEndpoint(agent=scripted).serving() as bare:
        async with AsyncOpenAI(base_url=bare.base_url, api_key="none") as client:
            set_default_openai_client(client, use_for_tracing=False)
            set_default_openai_api("chat_completions" if api == "chat" else "responses")
            try:
                module: Any = load_agent(app, Path.cwd()).source  # anew: its RunConfig takes the API of its time
                assert await module("Do it.") == "Written. (look_up)"
            finally:
                set_default_openai_client(None, use_for_tracing=False)  # pyright: ignore[reportArgumentType]
                set_default_openai_api("responses")
    sampling = {"temperature", "top_p", "seed"}

    def unsampled(each: list[Seen]) -> list[dict[str, Any]]:
        return [{name: value for name, value in seen.body.items() if name not in sampling} for seen in each]

    assert unsampled(requests) == unsampled(bare.requests)


@BOTH_APIS
async def test_it_is_replayed(app: str, api: str, tmp_path: Path):
    run = await archived(app, "Go.", scripted, tmp_path / "runs", api)
    await identical(run, app)
    await identical(run, app, live_tools=True)


async def test_it_is_judged_resumed_and_compared_as_an_agent_is(app: str, tmp_path: Path):
    with FakeEndpoint(agent=scripted, judge=fair_judge()).serving() as endpoint:
        at: dict[str, Any] = {"model": "m", "base_url": endpoint.base_url, "judge_model": "judge", "runs_dir": tmp_path}
        run = await harness.run(app, "Go.", n=2, **at)
        assert run.ranking().finished
        assert (await harness.resume(run)).path == run.path
        comparison = await harness.compare(app, app, queries=["Go."], **at)
        assert comparison.results
        best = await harness.best_of(load_agent(app, Path.cwd()).source, "Go.", 2, **at)
    assert best.answer == "Written. (look_up)"


class Verdict(BaseModel):
    text: str
    sure: bool


async def typed(query: Query) -> Verdict:
    return Verdict(text=query.text, sure=True)


async def result(query: Any) -> Any:
    return await Runner.run(Agent(name="a"), query)


@pytest.mark.parametrize(("function", "answer"), [(typed, '{"text":"Do it.","sure":true}'), (result, "Hi.")])
async def test_an_answer_may_be_a_model_or_the_result_of_a_run(function: Any, answer: str):
    ((rollout,), _) = await roll_out(function, lambda _: Say("Hi."))
    assert (rollout.status, rollout.trajectory.answer) == ("ok", answer)


async def test_a_run_that_is_stopped_for_an_approval_and_goes_on_from_its_state_is_one_rollout():
    @function_tool(needs_approval=True)
    def delete() -> str:
        """Delete."""
        return "gone"

    agent = Agent(name="durable", tools=[delete])

    async def durable(query: str) -> str:
        stopped = await Runner.run(agent, query)
        kept = stopped.to_state().to_string()
        await asyncio.sleep(0)
        state = await RunState.from_string(agent, kept)
        for item in state.get_interruptions():
            state.approve(item)
        return str((await Runner.run(agent, state)).final_output)

    def script(seen: Seen) -> Say:
        return Say(seen.tool_outputs[0]) if seen.tool_outputs else Say(calls=(("delete", {}),))

    rollouts, requests = await roll_out(durable, script, n=2)
    for rollout in rollouts:
        assert (rollout.status, rollout.capture, rollout.trajectory.answer) == ("ok", "full", "gone")
        assert [(step.tool_name, step.tool_output) for step in rollout.trajectory.path] == [("delete", "gone")]
    assert sorted(seen.body["temperature"] for seen in requests) == [0.0] * 2 + [0.8] * 2


async def test_what_it_raises_or_returns_wrongly_fails_its_rollout_and_says_so():
    async def broken(query: str) -> str:
        raise LookupError("no such user")

    async def odd(query: Any) -> Any:
        return Agent(name="a")

    async def opaque(query: str) -> Any:
        return object()

    said = ["no such user; raised in broken", "one that builds an agent is `async def build", "neither text nor JSON"]
    for function, words in zip((broken, odd, opaque), said, strict=True):
        ((rollout,), _) = await roll_out(function, lambda _: Say("Hi."))
        assert rollout.failure
        assert rollout.failure.kind == "agent_code"
        assert words in rollout.failure.message


async def by_env(env: Any) -> Any: ...
async def by_type(anything: AgentEnv) -> Any: ...
async def by_what_it_returns(anything: int) -> Agent[Any]: ...
async def of_nothing() -> str: ...  # pyright: ignore[reportReturnType]
def not_async(query: str) -> Agent[Any]: ...  # pyright: ignore[reportReturnType]
async def by_name(query: Any) -> Any: ...
async def by_text(question: str) -> Any: ...
async def by_answer(question: Any) -> Verdict | str: ...
async def unclear(thing: Any) -> Any: ...
async def too_much(query: str, user: str) -> str: ...  # pyright: ignore[reportReturnType]


def test_functions_are_told_apart_by_what_they_take_and_return():
    assert [is_app_function(f) for f in (by_env, by_type, by_what_it_returns, of_nothing, not_async)] == [False] * 5
    assert [is_app_function(f) for f in (by_name, by_text, by_answer)] == [True] * 3
    with pytest.raises(UsageError, match=r"unclear\(thing\): cannot tell .* `async def unclear\(query\) -> str`"):
        is_app_function(unclear)
    with pytest.raises(UsageError, match=r"too_much: an app's function is given the query alone"):
        is_app_function(too_much)


async def test_arguments_for_its_runs_are_refused():
    with pytest.raises(UsageError, match=r"hooks=: 'typed' is a function, which gives that to its runs itself"):
        await harness.rollout(typed, "Hi.", n=2, hooks=lambda: None, base_url="http://127.0.0.1:9/v1")
