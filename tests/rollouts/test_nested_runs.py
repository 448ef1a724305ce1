"""Runs that an agent's own code begins take the rollout's models and settings, and all they do is in the archive."""

import asyncio
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agents import (
    Agent,
    Model,
    ModelProvider,
    ModelSettings,
    OpenAIChatCompletionsModel,
    RunConfig,
    Runner,
    ShellCommandRequest,
    ShellTool,
    Usage,
    function_tool,
    handoff,
)
from agents.run import AgentRunner, get_default_agent_runner, set_default_agent_runner
from agents.testing import ScriptedModel, assistant_message
from openai import AsyncOpenAI

import harness
from harness.core.records import Rollout, Step
from harness.core.settings import Api
from tests.fake_endpoint import FakeEndpoint, Refuse, Say, Seen
from tests.rollouts.test_replay import archived, identical, replayed

pytestmark = pytest.mark.anyio
BOTH_APIS = pytest.mark.parametrize("api", ["chat", "responses"])

AGENT = """
import asyncio
from agents import Agent, RunConfig, Runner, function_tool, ModelSettings

@function_tool
def look_up(word: str) -> str:
    "Look a word up."
    return f"meaning of {word}"

def inner():
    return Agent(name="inner", model="its-own-name", instructions="Inner.", tools=[look_up],
                 model_settings=ModelSettings(temperature=0.3, top_p=0.5))

OWN = RunConfig(model="another-name", model_settings=ModelSettings(temperature=0.2), tracing_disabled=True)

@function_tool
async def plain(word: str) -> str:
    "Run an agent."
    return (await Runner.run(inner(), word)).final_output

@function_tool
async def configured(word: str) -> str:
    "Run an agent with a configuration of its own."
    return (await Runner.run(inner(), word, run_config=OWN)).final_output

@function_tool
async def mapped(word: str) -> str:
    "Run an agent with a mapping for a configuration."
    return (await Runner.run(inner(), word, run_config={"model": "another-name"})).final_output

@function_tool
async def streamed(word: str) -> str:
    "Stream an agent."
    result = Runner.run_streamed(inner(), word, run_config=OWN)
    async for _ in result.stream_events():
        pass
    return result.final_output

@function_tool
def synchronous(word: str) -> str:
    "Run an agent in a thread."
    return Runner.run_sync(inner(), word, run_config=OWN).final_output

@function_tool
def in_a_loop(word: str) -> str:
    "Run an agent in an event loop of its own."
    return asyncio.run(Runner.run(inner(), word)).final_output

def build():
    as_tool = inner().as_tool("as_tool", "Ask it.", run_config=OWN)
    return Agent(name="outer", instructions="Outer.",
                 tools=[plain, configured, mapped, streamed, synchronous, in_a_loop, as_tool])
"""
FORMS = ["plain", "configured", "mapped", "streamed", "synchronous", "in_a_loop", "as_tool"]


def calling(form: str) -> Callable[[Seen], Say]:
    """Call one tool of the outer agent, whose inner agent looks a word up."""

    def script(seen: Seen) -> Say:
        if seen.system == "Inner.":
            return Say("Inner is done.") if seen.tool_outputs else Say(calls=(("look_up", {"word": "x"}),))
        argument = "input" if form == "as_tool" else "word"
        return Say("All done.") if seen.tool_outputs else Say(reasoning="I ask.", calls=((form, {argument: "go"}),))

    return script


def rollouts_of(run: Path) -> list[Rollout]:
    lines = [json.loads(line) for line in (run / "rollouts.jsonl").read_text("utf-8").splitlines()]
    return [Rollout.model_validate(line) for line in lines if line.get("type", "rollout") == "rollout"]


def shown(step: Step) -> tuple[Any, ...]:
    return step.kind, step.agent, step.tool_name, step.tool_output, tuple(shown(s) for s in step.inner)


INNER = (("tool", "inner", "look_up", "meaning of x", ()),)


@pytest.mark.few(3)
@BOTH_APIS
@pytest.mark.parametrize("form", FORMS)
async def test_every_form_runs_on_the_runs_models_and_all_that_the_server_saw_is_in_the_archive(
    form: str, api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = tmp_path / "outer.py"
    file.write_text(AGENT)
    with FakeEndpoint(agent=lambda _: Say("Not me.")).serving() as other, FakeEndpoint(calling(form)).serving() as ours:
        monkeypatch.setenv("OPENAI_BASE_URL", other.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-user")
        group = await harness.rollout(str(file), "Do it.", n=3, model="m", base_url=ours.base_url, api=api)
        assert not other.requests
    assert {r.body["model"] for r in ours.requests} == {"m"}
    assert sorted(r.body["temperature"] for r in ours.requests) == [0.0] * 4 + [0.8] * 8
    for rollout in group.rollouts:
        assert (rollout.status, rollout.capture, rollout.capture_gaps) == ("ok", "full", ())
        assert [shown(s) for s in rollout.trajectory.path] == [("tool", "outer", form, "Inner is done.", INNER)]
        assert [c.agent for c in rollout.calls] == ["outer", "inner", "inner", "outer"]
        assert [c.raw for c in rollout.calls] == [0, 1, 2, 3]
        assert [c.within_raw for c in rollout.calls] == [None, 0, 0, None]
        assert rollout.effective.uniform
        assert (rollout.usage.requests, rollout.usage.input) == (4, 400)


@pytest.mark.few(3)
@BOTH_APIS
@pytest.mark.parametrize("form", FORMS)
async def test_every_form_is_replayed(form: str, api: str, tmp_path: Path):
    file = tmp_path / "outer.py"
    file.write_text(AGENT)
    run = await archived(str(file), "Do it.", calling(form), tmp_path / "runs", api)
    await identical(run, str(file))
    await identical(run, str(file), live_tools=True)


async def test_a_replay_says_which_calls_it_did_not_drive_again(tmp_path: Path):
    file = tmp_path / "outer.py"
    file.write_text(AGENT)
    run = await archived(str(file), "Do it.", calling("plain"), tmp_path / "runs")
    for outcome in await replayed(run, str(file)):
        assert outcome.notes == ("2 model calls were made inside tools whose outputs were taken as recorded",)
    file.write_text(AGENT.replace('"Inner."', '"Inside."'))
    for outcome in await replayed(run, str(file), live_tools=True):
        assert outcome.divergence
        assert (outcome.divergence.what, outcome.divergence.call) == ("prompt changed", 2)


class OwnModel(ScriptedModel):
    """A Model of one's own that opens no span, and may be asked twice."""

    model = "of-its-own"

    def __init__(self) -> None:
        usage = Usage(requests=1, input_tokens=7, output_tokens=3)
        super().__init__([[assistant_message("From my own model.")]] * 2, default_usage=usage)

    @property
    def temperatures(self) -> list[Any]:
        asked: list[Any] = [call.model_settings.temperature for call in self.calls]
        return sorted(asked)


class OwnProvider(ModelProvider):
    def __init__(self, model: Model) -> None:
        self._model = model

    def get_model(self, model_name: str | None) -> Model:
        return self._model


def fixed(form: str, model: Model) -> Agent[Any]:
    """Return an agent whose tool `ask` runs an agent on a model that it really fixed."""
    inner = Agent(name="inner", model=model if form in {"object", "handoff"} else "any")
    config = {"run config": RunConfig(model=model), "provider": RunConfig(model_provider=OwnProvider(model))}.get(form)
    start = Agent(name="start", model=model, handoffs=[handoff(inner)]) if form == "handoff" else inner

    @function_tool
    async def ask() -> str:
        """Ask."""
        return str((await Runner.run(start, "Inside.", run_config=config)).final_output)

    return Agent(name="outer", tools=[ask])


@BOTH_APIS
@pytest.mark.parametrize("form", ["object", "run config", "provider", "handoff"])
async def test_what_the_agent_really_fixed_is_kept_recorded_and_named(form: str, api: str):
    def script(seen: Seen) -> Say:
        return Say("All done.") if seen.tool_outputs else Say(calls=(("ask", {}),))

    model = OwnModel()
    with FakeEndpoint(agent=script).serving() as endpoint:
        known: dict[str, Any] = {"model": "m", "base_url": endpoint.base_url, "api": api}
        group = await harness.rollout(fixed(form, model), "Do it.", n=2, **known)
    assert model.temperatures == [0.0, 0.8]
    for rollout in group.rollouts:
        assert (rollout.status, rollout.capture) == ("ok", "full")
        named = "OwnProvider" if form == "provider" else "OwnModel"
        assert [(c.model, c.own_model) for c in rollout.calls] == [
            ("m", None),
            ("of-its-own", "OwnModel" if form == "provider" else named),
            ("m", None),
        ]
        assert rollout.trajectory.path[0].tool_output == "From my own model."
        assert rollout.effective.uniform


async def test_runs_of_the_users_own_are_as_without_rollouts_and_the_users_runner_is_put_back():
    class Counting(AgentRunner):
        runs = 0

        async def run(self, *args: Any, **more: Any) -> Any:
            Counting.runs += 1
            return await super().run(*args, **more)

    def script(seen: Seen) -> Say:
        return Say("Fine.")

    usual, theirs = get_default_agent_runner(), Counting()
    set_default_agent_runner(theirs)
    try:
        with FakeEndpoint(agent=script).serving() as ours, FakeEndpoint(agent=script).serving() as other:
            async with AsyncOpenAI(base_url=other.base_url, api_key="sk-other") as client:
                own = Agent(name="own", model=OpenAIChatCompletionsModel("theirs", client))
                began, over = asyncio.Event(), asyncio.Event()

                async def build() -> Agent:
                    began.set()
                    await over.wait()
                    return Agent(name="a")

                async def beside() -> None:
                    await began.wait()
                    settings = ModelSettings(temperature=0.7)
                    await Runner.run(own, "Beside.", run_config=RunConfig(model_settings=settings))
                    over.set()

                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(beside())
                    tasks.create_task(harness.rollout(build, "Do it.", n=2, model="m", base_url=ours.base_url))
        assert [r.body["temperature"] for r in other.requests] == [0.7]
        assert len(ours.requests) == 2
        assert Counting.runs == 3
        assert get_default_agent_runner() is theirs
    finally:
        set_default_agent_runner(usual)


async def test_a_thread_that_outlives_its_rollout_asks_nobody(monkeypatch: pytest.MonkeyPatch):
    asked = threading.Event()
    errors: list[str] = []

    @function_tool(timeout=0.05)
    async def late() -> str:
        """Leave a thread behind."""
        return await asyncio.to_thread(run_late)

    def run_late() -> str:
        over.wait(10)
        try:
            return str(Runner.run_sync(Agent(name="inner"), "Late.").final_output)
        except Exception as exc:
            errors.append(type(exc).__name__)
            raise
        finally:
            asked.set()

    @function_tool
    async def patient() -> str:
        """Wait until the other rollout's thread has tried."""
        over.set()
        await asyncio.to_thread(asked.wait, 10)
        return "waited"

    def script(seen: Seen) -> Say:
        if seen.tool_outputs:
            return Say("Done.")
        return Say(calls=(("late" if seen.body["temperature"] == 0 else "patient", {}),))

    over = threading.Event()
    agent = Agent(name="a", tools=[late, patient])
    with FakeEndpoint(agent=script).serving() as ours:
        monkeypatch.setenv("OPENAI_BASE_URL", ours.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-user")
        group = await harness.rollout(agent, "Do it.", n=2, concurrency=1, model="m")
        assert [r.status for r in group.rollouts] == ["ok", "ok"]
        assert errors == ["RolloutOver"]
        assert len(ours.requests) == 4


async def test_an_endpoint_that_a_run_in_a_thread_gave_up_is_asked_no_more_by_anybody():
    @function_tool
    def clerk() -> str:
        """Run an agent in this thread."""
        return str(Runner.run_sync(Agent(name="clerk", instructions="Inner."), "Do it.").final_output)

    def script(seen: Seen) -> Say | Refuse:
        return Refuse(429, "slow down") if seen.system == "Inner." else Say(calls=(("clerk", {}),))

    agent = Agent(name="a", tools=[clerk])
    with (
        FakeEndpoint(agent=script).serving() as ours,
        pytest.warns(UserWarning, match=r"^1 of 3 rollouts were begun: .* \(HTTP 429\) for 0.001 s \(give_up=\)"),
    ):
        group = await harness.rollout(
            agent, "Do it.", n=3, base_url=ours.base_url, give_up=0.001, concurrency=1, model="m"
        )
    assert [r.failure.kind for r in group.rollouts if r.failure] == ["api"]
    assert len(ours.requests) == 2


async def test_what_a_shell_tool_of_an_inner_agent_gave_is_in_its_step():
    async def execute(request: ShellCommandRequest) -> str:
        return f"ran {request.data.action.commands[0]}"

    def script(seen: Seen) -> Say:
        if seen.system == "Outer.":
            return Say(seen.tool_outputs[0]) if seen.tool_outputs else Say(calls=(("ask", {"input": "Go."}),))
        if any(item.get("type") == "shell_call_output" for item in seen.items):
            return Say("listed")
        return Say(items=({"type": "shell_call", "id": "s", "call_id": "c", "action": {"commands": ["ls"]}},))

    inner = Agent(name="inner", instructions="Inner.", tools=[ShellTool(executor=execute)])
    outer = Agent(name="outer", instructions="Outer.", tools=[inner.as_tool("ask", "Ask.")])
    with FakeEndpoint(script).serving() as endpoint:
        group = await harness.rollout(outer, "Go.", n=1, model="m", base_url=endpoint.base_url, api="responses")
    (step,) = group.rollouts[0].trajectory.path
    assert step.tool_output == "listed"
    assert [(each.tool_name, each.tool_output) for each in step.inner] == [("shell", "ran ls")]
