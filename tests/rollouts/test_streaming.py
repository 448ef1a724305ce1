"""An agent used as a tool may stream what it does; its model calls are recorded, retried and replayed like any."""

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from agents import Agent

import harness
from harness.offline.tool import search_tool
from tests.fake_endpoint import Reaction, Refuse, Say, Seen
from tests.rollouts.test_capture import roll_out, slow_then_fast, told
from tests.rollouts.test_replaying import archived, identical

pytestmark = pytest.mark.anyio
BOTH_APIS = pytest.mark.parametrize("api", ["chat", "responses"])
OWN = """
from agents import Agent, function_tool

@function_tool
def slow_then_fast(word: str) -> str:
    "Echo."
    return f"echo {word}"

inner = Agent(name="inner", tools=[slow_then_fast])
agent = Agent(name="outer", tools=[inner.as_tool("ask_inner", "Ask it.", on_stream=lambda event: None)])
"""


def outer(on_stream: Callable[[Any], None] = lambda event: None) -> Agent[Any]:
    inner = Agent(name="inner", tools=[slow_then_fast])
    return Agent(name="outer", tools=[inner.as_tool("ask_inner", "Ask it.", on_stream=on_stream)])


def script(seen: Seen) -> Say:
    names = [t.get("name") or t["function"]["name"] for t in seen.body["tools"]]
    if "ask_inner" in names:
        return Say("All done.") if seen.tool_outputs else Say(calls=(("ask_inner", {"input": "go"}),))
    return Say("Inner is done.") if seen.tool_outputs else Say(calls=(("slow_then_fast", {"word": "in"}),))


@BOTH_APIS
async def test_its_steps_calls_and_usage_are_there_and_its_listener_hears_of_them(api: str):
    events: list[Any] = []
    (rollout,), seen = await roll_out(outer(events.append), script, api)
    assert [bool(r.body.get("stream")) for r in seen] == [False, True, True, False]
    assert {r.body["temperature"] for r in seen} == {0.0}
    (asked,) = rollout.trajectory.path
    assert (asked.tool_type, asked.tool_output) == ("agent", "Inner is done.")
    assert [told(s) for s in asked.inner] == [("tool", "slow_then_fast", '{"word": "in"}', "echo in")]
    assert [(c.agent, c.raw, c.replied_model) for c in rollout.calls] == [
        ("outer", 0, "m"), ("inner", 1, "m"), ("inner", 2, "m"), ("outer", 3, "m")
    ]  # fmt: skip
    assert (rollout.usage.requests, rollout.usage.input, rollout.usage.output) == (4, 400, 80)
    assert rollout.effective.uniform
    assert events


@BOTH_APIS
async def test_a_temperature_that_it_is_refused_is_left_out_and_said(api: str):
    def refusing(seen: Seen) -> Reaction:
        if seen.body.get("stream") and "temperature" in seen.body:
            return Refuse(400, "Unsupported parameter: 'temperature'", "unsupported_parameter", "temperature")
        return script(seen)

    rollouts, seen = await roll_out(outer(), refusing, api, n=2)
    assert [r.status for r in rollouts] == ["ok", "ok"]
    assert sum(bool(r.body.get("stream")) and "temperature" in r.body for r in seen) == 1
    assert not rollouts[0].effective.uniform


@BOTH_APIS
async def test_a_server_error_before_its_first_word_is_retried_and_counted(api: str):
    numbers = count()

    def failing(seen: Seen) -> Reaction:
        return Refuse(500) if seen.body.get("stream") and next(numbers) == 0 else script(seen)

    (rollout,), _ = await roll_out(outer(), failing, api)
    assert (rollout.status, rollout.retries) == ("ok", 1)
    assert [bool(c.error) for c in rollout.calls] == [False, True, False, False, False]


async def test_a_stream_that_breaks_off_is_an_error_of_its_call_and_the_agent_around_it_goes_on():
    def cut(seen: Seen) -> Say:
        return Say("Half an", finish="length") if seen.body.get("stream") else script(seen)

    (rollout,), _ = await roll_out(outer(), cut, "responses")
    errors = [c.error for c in rollout.calls]
    assert errors == [None, "ModelBehaviorError: the stream ended with response.incomplete", None]
    assert rollout.status == "ok"
    assert rollout.trajectory.path[0].error


@BOTH_APIS
async def test_its_replay_is_identical(api: str, tmp_path: Path):
    (tmp_path / "own.py").write_text(OWN)
    own = str(tmp_path / "own.py")
    run = await archived(own, "Do it.", script, tmp_path / "runs", api)
    await identical(run, own)
    await identical(run, own, live_tools=True)


async def test_on_the_embedded_model_it_streams_too():
    inner = Agent(name="inner", tools=[search_tool()])
    asking = Agent(name="outer", tools=[inner.as_tool("search", "Ask it.", on_stream=lambda event: None)])
    group = await harness.rollout(asking, "Why did Lisp machines disappear?", n=1, offline=True)
    (rollout,) = group.rollouts
    assert rollout.status == "ok"
    assert all(c.raw is not None for c in rollout.calls)
    assert rollout.trajectory.path[0].inner
