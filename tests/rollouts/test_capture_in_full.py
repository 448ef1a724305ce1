"""Whatever an agent is made of, its record holds what the server saw; where it does not, the record says so."""

import json
import random
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from agents import (
    Agent,
    AgentHooks,
    Model,
    ModelResponse,
    ModelSettings,
    ModelTracing,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_trace_processors,
    set_tracing_disabled,
    trace,
)
from agents.testing import ScriptedModel, assistant_message, function_call
from agents.tracing import TracingProcessor, get_trace_provider, set_trace_provider
from agents.tracing.processors import default_processor
from agents.tracing.provider import DefaultTraceProvider
from openai import AsyncOpenAI

import harness
from harness.core.errors import UsageError
from harness.core.records import Rollout, Step
from harness.offline.model import OfflineModel
from tests.fake_endpoint import FakeEndpoint, Say, Seen
from tests.rollouts.test_replay import archived, identical

pytestmark = pytest.mark.anyio
BOTH_APIS = pytest.mark.parametrize("api", ["chat", "responses"])


class Listener(TracingProcessor):
    """A user's own processor."""

    def __init__(self) -> None:
        self.spans: list[str] = []

    def on_trace_start(self, trace: Any) -> None: ...
    def on_trace_end(self, trace: Any) -> None: ...
    def on_span_start(self, span: Any) -> None: ...
    def on_span_end(self, span: Any) -> None:
        self.spans.append(span.span_data.type)

    def shutdown(self) -> None: ...
    def force_flush(self) -> None: ...


class Exporter(Listener):
    """Stands for the SDK's default exporter."""


@pytest.fixture(autouse=True)
def processors_put_back() -> Generator[None]:
    provider: Any = get_trace_provider()
    before = provider._multi_processor._processors
    yield
    set_trace_provider(provider)
    set_tracing_disabled(False)
    provider.set_processors(list(before))


class Unwatched(Model):
    """A Model of one's own that opens no span: it asks another whose tracing is off."""

    def __init__(self, inner: Model) -> None:
        self._inner, self.model = inner, "unwatched"

    async def get_response(self, *args: Any, **more: Any) -> ModelResponse:
        if "tracing" in more:  # the runner calls with keywords, a wrapper of the harness without
            more["tracing"] = ModelTracing.DISABLED
            return await self._inner.get_response(*args, **more)
        inner: Any = self._inner
        return await inner.get_response(*args[:6], ModelTracing.DISABLED, **more)

    def stream_response(self, *args: Any, **more: Any) -> Any:
        raise NotImplementedError


@asynccontextmanager
async def unwatched(endpoint: FakeEndpoint, api: str) -> AsyncGenerator[Model]:
    async with AsyncOpenAI(base_url=endpoint.base_url, api_key="sk-x", max_retries=0) as client:
        kind = OpenAIChatCompletionsModel if api == "chat" else OpenAIResponsesModel
        yield Unwatched(kind("m", client))


def script(seen: Seen) -> Say:
    if len(seen.tool_outputs) == 2:
        return Say("Done.", reasoning="Enough.")
    word = f"w{len(seen.tool_outputs)}"
    return Say(calls=(("look_up", {"word": word}),), reasoning=f"I look {word} up.")


def journal(requests: list[Seen]) -> list[tuple[str, str, str]]:
    """Return what a rollout's requests, in order, tell of its tool calls: reasoning is what the script says."""
    last = max(requests, key=lambda r: len(r.tool_outputs))
    return [(f"I look w{i} up.", json.dumps({"word": f"w{i}"}), out) for i, out in enumerate(last.tool_outputs)]


def in_archive(path: tuple[Step, ...]) -> list[tuple[str | None, str | None, str | None]]:
    return [(s.reasoning, s.tool_input, s.tool_output) for s in path if s.kind == "tool"]


@function_tool
def look_up(word: str) -> str:
    """Look a word up."""
    return f"meaning of {word}"


def full(rollout: Rollout, requests: list[Seen]) -> None:
    assert (rollout.status, rollout.capture, rollout.capture_gaps) == ("ok", "full", ())
    assert in_archive(rollout.trajectory.path) == journal(requests)
    assert rollout.trajectory.path[-1].reasoning == "Enough."
    assert rollout.trajectory.answer == "Done."
    assert [c.raw for c in rollout.calls] == [0, 1, 2]
    assert (rollout.usage.requests, rollout.usage.input) == (3, 300)


@BOTH_APIS
async def test_a_model_that_opens_no_span_is_captured_in_full(api: str):
    with FakeEndpoint(agent=script).serving() as endpoint:
        async with unwatched(endpoint, api) as model:
            (rollout,) = (await harness.rollout(Agent(name="a", model=model, tools=[look_up]), "Do it.", n=1)).rollouts
    full(rollout, endpoint.requests)
    assert {c.own_model for c in rollout.calls} == {"Unwatched"}
    assert all(s.started_at for s in rollout.trajectory.path)
    assert {s.agent for s in rollout.trajectory.path} == {"a"}


@BOTH_APIS
async def test_such_a_model_is_captured_in_a_nested_run_too(api: str):
    with FakeEndpoint(agent=script).serving() as endpoint:
        async with unwatched(endpoint, api) as model:
            inner = Agent(name="inner", model=model, tools=[look_up])

            @function_tool
            async def ask() -> str:
                """Ask."""
                return str((await Runner.run(inner, "Do it.")).final_output)

            calls = [("ask", {}), ("ask_inner", {"input": "go"})]
            said = [[function_call(name, given, call_id=name)] for name, given in calls]
            scripted = ScriptedModel([*said, [assistant_message("Done.")]])
            outer = Agent(name="outer", model=scripted, tools=[ask, inner.as_tool("ask_inner", "Ask.")])
            (rollout,) = (await harness.rollout(outer, "Do it.", n=1)).rollouts
    asked, as_tool = rollout.trajectory.path
    assert rollout.capture == "full"
    for step in (asked, as_tool):
        assert in_archive(step.inner) == journal(endpoint.requests)
        assert {s.agent for s in step.inner} == {"inner"}


@BOTH_APIS
@pytest.mark.parametrize("when", ["before", "between", "during"])
async def test_processors_that_the_user_sets_at_any_time_hear_all_and_take_nothing_away(api: str, when: str):
    theirs = Listener()

    @function_tool(name_override="look_up")
    def setting(word: str) -> str:
        """Look a word up."""
        if when == "during":
            set_trace_processors([theirs])
        return f"meaning of {word}"

    with FakeEndpoint(agent=script).serving() as endpoint:
        known: dict[str, Any] = {"model": "m", "base_url": endpoint.base_url, "api": api, "n": 1}
        agent = Agent(name="a", tools=[setting])
        if when == "between":
            await harness.rollout(agent, "Do it.", **known)
            endpoint.requests.clear()
        if when != "during":
            set_trace_processors([theirs])
        (rollout,) = (await harness.rollout(agent, "Do it.", **known)).rollouts
    full(rollout, endpoint.requests)
    assert theirs.spans.count("generation") + theirs.spans.count("response") == (3 if when != "during" else 2)
    provider: Any = get_trace_provider()
    assert provider._multi_processor._processors == (theirs,)
    assert type(provider._multi_processor).__module__ == "agents.tracing.provider"


async def test_the_default_exporter_hears_nothing_of_rollouts_and_all_of_the_users_own_runs(
    monkeypatch: pytest.MonkeyPatch,
):
    exporter, theirs = Exporter(), Listener()
    monkeypatch.setattr("harness.rollouts.capture.default_processor", lambda: exporter)
    set_trace_processors([exporter, theirs])

    @function_tool(name_override="look_up")
    def tracing(word: str) -> str:
        """Look a word up, in a trace of its own."""
        with trace("a trace of the agent's own"):
            return f"meaning of {word}"

    with FakeEndpoint(agent=script).serving() as endpoint:
        agent = Agent(name="a", tools=[tracing])
        (rollout,) = (await harness.rollout(agent, "Do it.", n=1, model="m", base_url=endpoint.base_url)).rollouts
        assert rollout.status == "ok"
    assert exporter.spans == []
    assert "generation" in theirs.spans
    await Runner.run(Agent(name="b", model=OfflineModel(random.Random(0))), "Outside of any rollout.")
    assert "generation" in exporter.spans


TRACING = """
from agents import Agent, Runner, custom_span, trace

async def answer(query: str) -> str:
    with trace("the app's own"), custom_span("asked", {"query": query}):
        return (await Runner.run(Agent(name="a"), query)).final_output
"""


async def test_the_default_exporter_hears_nothing_of_a_replay_whose_app_begins_a_trace(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    (tmp_path / "app.py").write_text(TRACING)
    app = f"{tmp_path / 'app.py'}:answer"
    run = await archived(app, "Go.", lambda _: Say("Done."), tmp_path / "runs")
    exporter, theirs = Exporter(), Listener()
    monkeypatch.setattr("harness.rollouts.capture.default_processor", lambda: exporter)
    set_trace_processors([exporter, theirs])
    await identical(run, app)
    assert (exporter.spans, set(theirs.spans)) == ([], {"custom"})


async def test_with_upload_traces_the_default_exporter_hears_of_rollouts(monkeypatch: pytest.MonkeyPatch):
    exporter = Exporter()
    monkeypatch.setattr("harness.rollouts.capture.default_processor", lambda: exporter)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-user")
    set_trace_processors([exporter])
    with FakeEndpoint(agent=script).serving() as endpoint:
        known: dict[str, Any] = {"n": 1, "model": "m", "base_url": endpoint.base_url, "upload_traces": True}
        await harness.rollout(Agent(name="a", tools=[look_up]), "Do it.", **known)
    assert exporter.spans.count("generation") == 3


async def test_upload_traces_needs_a_key():
    known: dict[str, Any] = {"n": 1, "model": "m", "base_url": "http://localhost:1/v1", "upload_traces": True}
    with pytest.raises(UsageError, match="set OPENAI_API_KEY"):
        await harness.rollout(Agent(name="a"), "Do it.", **known)


async def test_a_trace_that_the_agents_code_begins_is_part_of_the_rollout():
    inner = Agent(name="inner", tools=[look_up])

    @function_tool
    async def ask() -> str:
        """Ask."""
        with trace("a trace of the agent's own"):
            return str((await Runner.run(inner, "Do it.")).final_output)

    def outer(seen: Seen) -> Say:
        names = [t["function"]["name"] for t in seen.body["tools"]]
        if "look_up" in names:
            return script(seen)
        return Say("All done.") if seen.tool_outputs else Say(calls=(("ask", {}),))

    with FakeEndpoint(agent=outer).serving() as endpoint:
        agent = Agent(name="outer", tools=[ask])
        (rollout,) = (await harness.rollout(agent, "Do it.", n=1, model="m", base_url=endpoint.base_url)).rollouts
    (asked,) = rollout.trajectory.path
    assert rollout.capture == "full"
    assert in_archive(asked.inner) == journal([r for r in endpoint.requests if len(r.tool_outputs) == 2])


@BOTH_APIS
async def test_where_the_agent_switches_tracing_off_the_steps_are_there_and_the_record_is_partial(api: str):
    @function_tool(name_override="look_up")
    def dark(word: str) -> str:
        """Look a word up."""
        set_tracing_disabled(True)
        return f"meaning of {word}"

    with FakeEndpoint(agent=script).serving() as endpoint:
        known: dict[str, Any] = {"model": "m", "base_url": endpoint.base_url, "api": api, "n": 1}
        (rollout,) = (await harness.rollout(Agent(name="a", tools=[dark]), "Do it.", **known)).rollouts
    assert in_archive(rollout.trajectory.path) == journal(endpoint.requests)
    assert (rollout.capture, rollout.usage.requests) == ("partial", 3)
    assert "2 model calls while tracing was off" in rollout.capture_gaps[0]


async def test_another_trace_provider_in_the_middle_makes_the_record_partial():
    @function_tool(name_override="look_up")
    def replacing(word: str) -> str:
        """Look a word up."""
        set_trace_provider(DefaultTraceProvider())
        return f"meaning of {word}"

    with FakeEndpoint(agent=script).serving() as endpoint:
        agent = Agent(name="a", tools=[replacing])
        (rollout,) = (await harness.rollout(agent, "Do it.", n=1, model="m", base_url=endpoint.base_url)).rollouts
    assert in_archive(rollout.trajectory.path) == journal(endpoint.requests)
    assert rollout.capture == "partial"


async def test_a_model_called_past_the_sdks_runner_is_said_to_be_missing():
    @function_tool(name_override="look_up")
    async def direct(word: str) -> str:
        """Ask a model."""
        model = OfflineModel(random.Random(0))
        more: dict[str, Any] = {"previous_response_id": None, "conversation_id": None, "prompt": None}
        await model.get_response(None, word, ModelSettings(), [], None, [], ModelTracing.ENABLED, **more)
        return f"meaning of {word}"

    with FakeEndpoint(agent=script).serving() as endpoint:
        agent = Agent(name="a", tools=[direct])
        (rollout,) = (await harness.rollout(agent, "Do it.", n=1, model="m", base_url=endpoint.base_url)).rollouts
    assert (rollout.status, rollout.capture) == ("ok", "partial")
    assert rollout.capture_gaps == (
        "2 model calls on a model that was not recorded: the request and the whole reply are missing",
    )


@BOTH_APIS
async def test_a_turn_whose_model_nothing_could_see_is_said_to_be_missing(api: str):
    class Swapping(AgentHooks[Any]):
        async def on_start(self, context: Any, agent: Any) -> None:
            agent.model = model

    with FakeEndpoint(agent=script).serving() as endpoint:
        async with unwatched(endpoint, api) as model:
            agent = Agent(name="a", model=OfflineModel(random.Random(0)), tools=[look_up], hooks=Swapping())
            (rollout,) = (await harness.rollout(agent, "Do it.", n=1)).rollouts
    assert (rollout.status, rollout.capture) == ("ok", "partial")
    assert rollout.capture_gaps == ("3 turns of the agent of whose model call there is no record",)


def test_the_exporter_that_is_dropped_is_the_sdks():
    assert default_processor() is default_processor()
