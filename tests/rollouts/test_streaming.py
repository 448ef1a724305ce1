"""An agent used as a tool may stream what it does; its model calls are recorded, retried and replayed like any."""

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from agents import Agent, Model, ModelResponse, ModelSettings, ModelTracing, Usage
from openai.types.responses import ResponseOutputMessage

import harness
from harness.endpoints.gate import EndpointState, Gate
from harness.endpoints.refused_settings import RefusedSettings
from harness.endpoints.usage import completed
from harness.offline.tool import search_tool
from harness.rollouts.models import RecordedModel
from harness.rollouts.recorder import Recorder
from tests.fake_endpoint import Hang, Reaction, Refuse, Say, Seen
from tests.rollouts.test_capture import roll_out, slow_then_fast, told
from tests.rollouts.test_replay import archived, identical

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
    (rollout,), seen = await roll_out(outer(events.append), lambda seen: replace(script(seen), model="m-2026"), api)
    assert [bool(r.body.get("stream")) for r in seen] == [False, True, True, False]
    assert {r.body["temperature"] for r in seen} == {0.0}
    (asked,) = rollout.trajectory.path
    assert (asked.tool_type, asked.tool_output) == ("agent", "Inner is done.")
    assert [told(s) for s in asked.inner] == [("tool", "slow_then_fast", '{"word": "in"}', "echo in")]
    streamed = "m-2026" if api == "responses" else None  # on Chat the SDK does not pass it on
    assert [(c.agent, c.raw, c.replied_model) for c in rollout.calls] == [
        ("outer", 0, "m-2026"),
        ("inner", 1, streamed),
        ("inner", 2, streamed),
        ("outer", 3, "m-2026"),
    ]
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


async def test_a_server_that_tells_no_usage_of_streams_is_asked_once():
    def refusing(seen: Seen) -> Reaction:
        return Refuse(400, "Unknown field: stream_options") if "stream_options" in seen.body else script(seen)

    rollouts, seen = await roll_out(outer(), refusing, n=3)
    assert [r.status for r in rollouts] == ["ok"] * 3
    assert sum("stream_options" in r.body for r in seen) == 1
    assert rollouts[0].effective.uniform


@BOTH_APIS
async def test_a_call_under_way_when_the_time_is_up_is_an_error_and_no_success(api: str):
    def hanging(seen: Seen) -> Reaction:
        return Hang(30) if seen.body.get("stream") else script(seen)

    (rollout,), _ = await roll_out(outer(), hanging, api, timeout=1)
    assert rollout.failure
    assert rollout.failure.kind == "network"  # nothing but a reply that never came took its time
    assert [(c.raw, c.temperature, bool(c.error)) for c in rollout.calls] == [(0, 0.0, False), (None, 0.0, True)]
    assert "CancelledError" in str(rollout.calls[1].error)
    assert (rollout.usage.requests, rollout.effective.uniform) == (1, True)


async def test_a_stream_that_breaks_off_is_an_error_of_its_call_and_the_agent_around_it_goes_on():
    def cut(seen: Seen) -> Say:
        return Say("Half an", finish="length") if seen.body.get("stream") else script(seen)

    (rollout,), _ = await roll_out(outer(), cut, "responses")
    errors = [c.error for c in rollout.calls]
    assert errors == [None, "ModelBehaviorError: the stream ended with response.incomplete: max_output_tokens", None]
    assert rollout.status == "ok"
    assert rollout.trajectory.path[0].error


class Streaming(Model):
    """A model of the user's own that streams what it is told."""

    def __init__(self, *events: Any, closing: Exception | None = None) -> None:
        self._events, self._closing = events, closing

    async def get_response(self, *args: Any, **more: Any) -> Any:
        raise NotImplementedError

    async def stream_response(self, *args: Any, **more: Any) -> AsyncIterator[Any]:
        try:
            for event in self._events:
                yield event
        finally:
            if self._closing:
                raise self._closing


DONE = completed(ModelResponse(output=[], usage=Usage(requests=1, input_tokens=7), response_id="r"))
SAID = ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[])
ITEM = SimpleNamespace(type="response.output_item.done", item=SAID)
LIMIT = SimpleNamespace(
    type="response.failed",
    response=SimpleNamespace(error=SimpleNamespace(code="rate_limit_exceeded", message="Slow down.")),
)


def opened(*events: Any, closing: Exception | None = None) -> tuple[Recorder, Any]:
    recorder = Recorder(on_reply=lambda: None, state=EndpointState(Gate.impatient(), RefusedSettings()))
    args: tuple[Any, ...] = (None, "Hi.", ModelSettings(), [], None, [], ModelTracing.DISABLED)
    return recorder, RecordedModel(Streaming(*events, closing=closing), recorder).stream_response(*args)


async def test_what_a_model_of_ones_own_streams_passes_through_and_is_written_down():
    strange = SimpleNamespace(said="an event without a type")
    recorder, events = opened(strange, ITEM, DONE)
    assert [event async for event in events] == [strange, ITEM, DONE]
    (call,) = recorder.calls
    assert call.response
    assert (call.response.output, call.response.usage.input_tokens) == ([SAID], 7)


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ((), "the stream ended without a reply"),
        ((ITEM,), "the stream ended without a reply"),
        ((LIMIT,), "the stream ended with response.failed: rate_limit_exceeded: Slow down."),
    ],
)
async def test_a_stream_without_a_reply_is_an_error_that_says_why(events: tuple[Any, ...], said: str):
    recorder, stream = opened(*events)
    assert [event async for event in stream] == [*events]
    assert [(c.response, str(c.error)) for c in recorder.calls] == [(None, said)]


@pytest.mark.parametrize(("until", "replied"), [(ITEM, False), (DONE, True)])
async def test_a_consumer_that_leaves_before_the_end_leaves_an_error_and_one_at_the_end_a_reply(
    until: Any, replied: bool
):
    recorder, stream = opened(ITEM, DONE, ITEM, closing=RuntimeError("at closing") if replied else None)
    async with aclosing(stream) as events:
        async for event in events:
            if event is until:
                break
    (call,) = recorder.calls
    assert (call.response is not None, call.error is None) == (replied, replied)


@pytest.mark.few(1)
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
