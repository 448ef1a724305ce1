"""An app's own RunConfig is merged with what a run of rollouts sets, and the record says what gave way."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, Model, ModelProvider, ModelSettings, OpenAIProvider, RunConfig
from agents.models.multi_provider import MultiProvider

import harness
from harness.core.errors import UsageError
from harness.core.records import Rollout
from harness.rollouts.run_options import is_chosen
from tests.fake_endpoint import FakeEndpoint, Say, Seen
from tests.rollouts.test_capture import roll_out
from tests.rollouts.test_nested_runs import OwnModel, OwnProvider
from tests.rollouts.test_replay import archived, identical

pytestmark = pytest.mark.anyio
BOTH_APIS = pytest.mark.parametrize("api", ["chat", "responses"])

SOURCE = """
from agents import Agent, ModelSettings, RunConfig, function_tool
from agents.run_config import ModelInputData

@function_tool
def look_up(word: str) -> str:
    "Look a word up."
    raise LookupError("no such word")

def filtered(data):
    given = data.model_data
    return ModelInputData(input=given.input, instructions=f"{given.instructions} Today is Friday.")

def run_config(query):
    return RunConfig(
        call_model_input_filter=filtered,
        tool_error_formatter=lambda args: f"sorry: {args.error}",
        tracing_disabled=True,
        trace_include_sensitive_data=False,
        model_settings=ModelSettings(temperature=0.2, max_tokens=77, extra_headers={"X-Asked": query.text}),
    )

agent = Agent(name="app", instructions="Answer.", tools=[look_up])
"""


def looking_up(seen: Seen) -> Say:
    return Say("Done.") if seen.tool_outputs else Say(reasoning="I look.", calls=(("look_up", {"word": "x"}),))


@pytest.fixture
def app(tmp_path: Path) -> str:
    (tmp_path / "app.py").write_text(SOURCE)
    return str(tmp_path / "app.py")


@BOTH_APIS
async def test_what_an_app_sets_reaches_every_call_and_what_the_run_sets_wins(app: str, api: str):
    rollouts, requests = await roll_out(app, looking_up, api, n=2)
    assert {seen.system for seen in requests} == {"Answer. Today is Friday."}
    assert sorted(seen.body["temperature"] for seen in requests) == [0.0, 0.0, 0.8, 0.8]
    assert {seen.body.get("max_tokens", seen.body.get("max_output_tokens")) for seen in requests} == {77}
    assert {output for seen in requests for output in seen.tool_outputs} == {"sorry: no such word"}
    for rollout in rollouts:
        assert (rollout.status, rollout.capture, rollout.capture_gaps) == ("ok", "full", ())
        assert rollout.trajectory.path[0].error == "LookupError: no such word"
        assert rollout.effective.uniform
        assert rollout.effective.run_config == (
            "tracing_disabled gives way",
            "trace_include_sensitive_data gives way",
            "call_model_input_filter",
            "tool_error_formatter",
            f"temperature 0.2 gives way to {rollout.requested.temperature}",
            "max_tokens",
            "extra_headers",
        )


@BOTH_APIS
async def test_a_replay_merges_it_too(app: str, api: str, tmp_path: Path):
    run = await archived(app, "Go.", looking_up, tmp_path / "runs", api)
    await identical(run, app)
    await identical(run, app, live_tools=True)


async def test_a_rollout_without_one_records_nothing_of_it():
    ((rollout,), _) = await roll_out(Agent(name="plain"), lambda _: Say("Hi."))
    assert "run_config" not in rollout.model_dump()["effective"]


def configured(file: Path, config: str) -> str:
    agent = "agent = Agent(name='a', model='its')"
    file.write_text(f"from agents import Agent, RunConfig\nrun_config = {config}\n{agent}\n")
    return str(file)


async def told(file: Path, config: str, **settings: Any) -> tuple[Rollout, list[Seen]]:
    ((rollout,), requests) = await roll_out(configured(file, config), lambda _: Say("Hi."), **settings)
    return rollout, requests


async def test_its_model_goes_before_the_agents_and_gives_way_to_the_users(tmp_path: Path):
    config = "RunConfig(model='configured')"
    rollout, (seen,) = await told(tmp_path / "one.py", config, model=None)
    assert (seen.body["model"], rollout.effective.run_config) == ("configured", ("model configured",))
    rollout, (seen,) = await told(tmp_path / "two.py", config)
    assert (seen.body["model"], rollout.effective.run_config) == ("m", ("model configured gives way to m",))


async def test_it_may_be_the_mapping_that_the_sdk_takes(tmp_path: Path):
    _, (seen,) = await told(tmp_path / "mapped.py", "{'model': 'configured'}", model=None)
    assert seen.body["model"] == "configured"


class Elsewhere(ModelProvider):
    """An app's own provider."""

    def get_model(self, model_name: str | None) -> Model:
        raise NotImplementedError


CHOSEN: Mapping[str, ModelProvider] = {
    "Elsewhere": Elsewhere(),
    "OpenAIProvider": OpenAIProvider(base_url="http://gateway/v1", api_key="k"),
    "MultiProvider": MultiProvider(openai_base_url="http://gateway/v1", openai_api_key="k"),
}


@pytest.mark.parametrize("name", CHOSEN)
async def test_a_provider_of_its_own_and_an_address_are_refused_naming_both(name: str, tmp_path: Path):
    url = "http://elsewhere/v1"
    with pytest.raises(UsageError, match=rf"base_url='{url}': .* model_provider .*\({name}\).*leave out one"):
        await harness.run(
            Agent(name="a"),
            "Hi.",
            run_config=RunConfig(model_provider=CHOSEN[name]),
            base_url=url,
            model="m",
            runs_dir=tmp_path,
        )
    assert not harness.runs(tmp_path)


def test_the_sdks_own_default_is_no_choice():
    assert not is_chosen(RunConfig().model_provider)
    assert not is_chosen(OpenAIProvider())


@pytest.mark.parametrize("by", ["value", "function"])
async def test_a_provider_of_its_own_needs_no_server_and_is_named(by: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    model = OwnModel()
    config = RunConfig(model_provider=OwnProvider(model))
    given: Any = config if by == "value" else lambda: config
    group = await harness.rollout(Agent(name="a"), "Hi.", n=2, run_config=given)
    assert model.temperatures == [0.0, 0.8]
    for rollout in group.rollouts:
        assert (rollout.status, rollout.capture) == ("ok", "full")
        assert [call.own_model for call in rollout.calls] == ["OwnModel"]
        assert rollout.effective.run_config == ("model_provider",)


async def test_a_model_of_its_own_gives_way_to_the_users():
    model = OwnModel()
    with FakeEndpoint(agent=lambda _: Say("Hi.")).serving() as endpoint:
        at: dict[str, Any] = {"n": 1, "base_url": endpoint.base_url, "run_config": RunConfig(model=model)}
        own = (await harness.rollout(Agent(name="a"), "Hi.", **at)).rollouts[0]
        assert (own.trajectory.answer, own.effective.run_config) == ("From my own model.", ("model OwnModel",))
        named = (await harness.rollout(Agent(name="a"), "Hi.", **at, model="m")).rollouts[0]
        assert (named.trajectory.answer, named.effective.run_config) == ("Hi.", ("model OwnModel gives way to m",))


async def test_a_function_without_a_model_is_refused_before_the_first_call(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(UsageError, match="agent 'a' has no model to run on"):
        await harness.rollout(Agent(name="a"), "Hi.", n=2, run_config=lambda query: RunConfig(group_id=query.id))


async def test_the_embedded_model_goes_before_all():
    config = RunConfig(model="other", model_provider=Elsewhere())
    group = await harness.rollout(Agent(name="a"), "Hi.", n=1, run_config=config, offline=True)
    assert group.rollouts[0].status == "ok"


async def test_a_function_is_called_for_each_rollout_with_its_query(tmp_path: Path):
    def config(query: harness.Query) -> RunConfig:
        return RunConfig(model_settings=ModelSettings(metadata={"about": query.text}))

    with FakeEndpoint(agent=lambda _: Say("Hi.")).serving() as endpoint:
        await harness.run(
            Agent(name="a"),
            ["One.", "Two."],
            run_config=config,
            n=2,
            topology="none",
            model="m",
            base_url=endpoint.base_url,
            judge_model="offline-features",
            runs_dir=tmp_path,
        )
    assert sorted((seen.user, seen.body["metadata"]["about"]) for seen in endpoint.requests) == [
        ("One.", "One."),
        ("One.", "One."),
        ("Two.", "Two."),
        ("Two.", "Two."),
    ]


OF_THE_AGENT = """
def hooks(query):
    from agents import AgentHooks
    return AgentHooks()
"""
WRONG = {
    "run_config = 3": r"'run_config' must be a function .* or an openai-agents RunConfig, not a int; .*rename",
    "hooks = []": r"'hooks' must be a function of the query, or openai-agents RunHooks, not a list",
    "import sqlite3 as session": r"'session' must be .* Session, not a module",
    "run_config = {'nonsense': 1}": r"'run_config' must be .* RunConfig, which has no 'nonsense', not a dict",
    "def run_config(query): return {'nonsense': 1}": r"it must give an .* RunConfig, which has no 'nonsense'",
    "def run_config(query): return 3": r"run_config of agent 'wrong' gives a int; it must give an .* RunConfig",
    "def hooks(query): return 1 / 0": r"hooks\(query\) of agent 'wrong' raised ZeroDivisionError: .* line 2\)",
    OF_THE_AGENT: r"belong on the agent: Agent\(hooks=",
    "def session(a, b): pass": r"session\(query\) of agent 'wrong' raised TypeError: .*'b'",
}


@pytest.mark.parametrize("line", WRONG)
async def test_what_cannot_be_used_is_refused_before_anything_is_asked(line: str, tmp_path: Path):
    file = tmp_path / "wrong.py"
    file.write_text(f"from agents import Agent\n{line}\nagent = Agent(name='a')\n")
    with pytest.raises(UsageError, match=WRONG[line]):
        await harness.rollout(str(file), "Hi.", n=2, model="m", base_url="http://127.0.0.1:9/v1")


async def test_a_keyword_of_the_wrong_kind_is_named():
    with pytest.raises(UsageError, match=r"run_config=3: give an openai-agents RunConfig, or a function of the query"):
        await harness.rollout(Agent(name="a"), "Hi.", n=2, run_config=3, model="m", base_url="http://127.0.0.1:9/v1")
