"""What the path says of tools and handoffs is what the model saw, and what really went wrong."""

import asyncio
import itertools
import sys
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, ModelSettings, Runner, function_tool
from agents.mcp import MCPServerStdio

import harness
from harness.core.progress import Silent
from harness.core.records import Rollout
from tests.fake_endpoint import FakeEndpoint, Raw, Reaction, Say, Script, Seen
from tests.rollouts.test_capture import roll_out

pytestmark = pytest.mark.anyio
BOTH_APIS = pytest.mark.parametrize("api", ["chat", "responses"])
IGNORED = "Multiple handoffs detected, ignoring this one."


def then_done(*calls: tuple[str, dict[str, Any]]) -> Script:
    return lambda seen: Say("Done.") if seen.tool_outputs else Say(calls=calls)


@BOTH_APIS
async def test_of_two_handoffs_in_one_turn_the_first_is_made_and_the_other_ignored(api: str):
    first = Agent(name="first", handoffs=[Agent(name="left"), Agent(name="right")])

    def script(seen: Seen) -> Say:
        if seen.tool_outputs:
            return Say("Done.")
        return Say(reasoning="Both.", calls=(("transfer_to_left", {}), ("transfer_to_right", {})))

    (rollout,), seen = await roll_out(first, script, api)
    left, right = rollout.trajectory.path
    assert (left.kind, left.tool_output, left.error) == ("handoff", "handed over to left", None)
    assert (right.kind, right.tool_name, right.error) == ("handoff", "transfer_to_right", None)
    assert right.tool_output == IGNORED
    assert IGNORED in seen[-1].tool_outputs
    assert (left.reasoning, rollout.status, rollout.capture) == ("Both.", "ok", "full")


@BOTH_APIS
async def test_the_none_of_a_tool_is_what_the_model_saw_of_it(api: str):
    @function_tool
    def nothing() -> None:
        """Return nothing."""

    (rollout,), seen = await roll_out(Agent(name="a", tools=[nothing]), then_done(("nothing", {})), api)
    (step,) = rollout.trajectory.path
    assert [step.tool_output] == seen[-1].tool_outputs
    assert step.tool_output is not None
    assert step.error is None


@function_tool(timeout=0.02)
async def slow() -> str:
    """Take too long."""
    await asyncio.sleep(10)
    return "never"


@function_tool(timeout=0.02, timeout_error_function=lambda context, error: "I was too slow.")
async def slow_in_words() -> str:
    """Take too long."""
    await asyncio.sleep(10)
    return "never"


@BOTH_APIS
@pytest.mark.parametrize("nested", [False, True])
async def test_a_timed_out_tool_has_an_error_whoever_words_the_timeout(api: str, nested: bool):
    inner = Agent(name="inner", instructions="Inner.", tools=[slow, slow_in_words])

    @function_tool
    async def ask() -> str:
        """Ask."""
        return str((await Runner.run(inner, "Go.")).final_output)

    def script(seen: Seen) -> Reaction:
        calls = (("slow", {}), ("slow_in_words", {})) if seen.system == "Inner." else (("ask", {}),)
        return then_done(*calls)(seen)

    agent = Agent(name="outer", tools=[ask]) if nested else inner
    (rollout,), _ = await roll_out(agent, script, api)
    path = rollout.trajectory.path[0].inner if nested else rollout.trajectory.path
    assert [s.tool_output for s in path] == ["Tool 'slow' timed out after 0.02 seconds.", "I was too slow."]
    assert [s.error for s in path] == [
        "ToolTimeoutError: Tool 'slow' timed out after 0.02 seconds.",
        "ToolTimeoutError: Tool 'slow_in_words' timed out after 0.02 seconds.",
    ]


@BOTH_APIS
async def test_a_tool_that_was_cancelled_because_another_raised_says_so(api: str):
    @function_tool(failure_error_function=None)
    async def broken() -> str:
        """Break."""
        await asyncio.sleep(0.02)
        raise ValueError("inside")

    @function_tool
    async def patient() -> str:
        """Wait."""
        await asyncio.sleep(10)
        return "never"

    @function_tool
    async def quick() -> str:
        """Be quick."""
        return "done before"

    tools: list[Any] = [patient, broken, quick]
    (rollout,), _ = await roll_out(Agent(name="a", tools=tools), then_done(*((t.name, {}) for t in tools)), api)
    waiting, raised, done = rollout.trajectory.path
    assert rollout.failure
    assert rollout.failure.kind == "tool"
    assert (waiting.tool_output, waiting.error) == (None, "cancelled, because the tool 'broken' beside it raised")
    assert "inside" in str(raised.error)
    assert (done.tool_output, done.error) == ("done before", None)


@BOTH_APIS
async def test_a_lone_surrogate_in_a_tools_output_is_the_tools_failure(api: str):
    @function_tool
    def halved() -> str:
        """Return half a character."""
        return "half: \ud83d"

    rollouts, seen = await roll_out(Agent(name="a", tools=[halved]), then_done(("halved", {})), api, n=2)
    assert len(seen) == 2
    for rollout in rollouts:
        assert rollout.failure
        assert (rollout.failure.kind, rollout.failure.turn) == ("tool", 1)
        assert "'halved' holds a lone surrogate" in rollout.failure.message


UNREADABLE = {"half a character": '{"word": "\\ud800"}', "too deep": '{"word": ' + "[" * 20_000 + "]" * 20_000 + "}"}


@BOTH_APIS
@pytest.mark.parametrize("how", [*UNREADABLE, "in its text"])
async def test_what_the_model_says_that_cannot_be_read_or_sent_back_is_its_own_failure(api: str, how: str):
    @function_tool
    def say(word: str) -> str:
        """Say."""
        return word

    arguments, text = UNREADABLE.get(how, '{"word": "a"}'), "\ud800" if how == "in its text" else None
    made = {"id": "c1", "type": "function", "function": {"name": "say", "arguments": arguments}}
    said = {"role": "assistant", "content": text, "tool_calls": [made]}
    items = [{"type": "function_call", "id": "f1", "call_id": "c1", "name": "say", "arguments": arguments}]
    if text:
        part = {"type": "output_text", "text": text, "annotations": []}
        items = [{"type": "message", "id": "m1", "role": "assistant", "status": "completed", "content": [part]}, *items]
    head: dict[str, Any] = {"id": "r", "model": "m", "created": 1, "created_at": 1, "parallel_tool_calls": True}
    chat = {"object": "chat.completion", "choices": [{"index": 0, "finish_reason": "tool_calls", "message": said}]}
    responses = {"object": "response", "output": items, "tools": [], "tool_choice": "auto", "status": "completed"}
    (rollout,), seen = await roll_out(
        Agent(name="a", tools=[say]), lambda _: Raw(head | (chat if api == "chat" else responses)), api
    )
    assert rollout.failure
    assert (rollout.failure.kind, len(seen)) == ("output", 1), rollout.failure


SERVER = Path(__file__).with_name("stdio_server.py")


@pytest.mark.few(1)
@pytest.mark.process
@BOTH_APIS
@pytest.mark.parametrize("connected", [False, True])
async def test_an_mcp_call_that_the_server_failed_or_refused_has_an_error(api: str, connected: bool):
    params: Any = {"command": sys.executable, "args": [str(SERVER)]}
    server = MCPServerStdio(params, name="failing", client_session_timeout_seconds=60)
    agent = Agent(name="a", mcp_servers=[server])

    async def rolled_out() -> Rollout:
        (rollout,), _ = await roll_out(agent, then_done(("raises", {}), ("works", {}), ("refuses", {})), api)
        return rollout

    if connected:
        async with server:
            rollout = await rolled_out()
    else:
        rollout = await rolled_out()
    bad, good, refused = rollout.trajectory.path
    assert bad.error == "the MCP server says that the call failed: Error executing tool raises"
    assert (good.error, good.server) == (None, "failing")
    assert "not today" in str(refused.error)


@BOTH_APIS
async def test_the_anchor_carries_no_top_p_of_the_agents_own(api: str):
    agent = Agent(name="a", model_settings=ModelSettings(top_p=0.3))
    _, seen = await roll_out(agent, lambda _: Say("x"), api, n=3)
    assert sorted((r.body["temperature"], r.body.get("top_p")) for r in seen) == [(0.0, None), (0.8, 0.3), (0.8, 0.3)]


async def test_that_an_agents_own_temperature_gives_way_is_said_once():
    class Listening(Silent):
        def __init__(self) -> None:
            self.notes: list[str] = []

        def note(self, text: str) -> None:
            self.notes.append(text)

    inner = Agent(name="inner", model_settings=ModelSettings(temperature=0.3))
    numbers = itertools.count()

    @function_tool
    async def ask() -> str:
        """Ask."""
        return f"{(await Runner.run(inner, 'Inside.')).final_output} {next(numbers)}"

    agent = Agent(name="outer", tools=[ask], model_settings=ModelSettings(temperature=1.2))
    plain = Agent(name="plain", model_settings=ModelSettings(temperature=0.8))
    listening = Listening()
    script = then_done(("ask", {}))
    with FakeEndpoint(agent=lambda seen: script(seen) if seen.body.get("tools") else Say("x")).serving() as endpoint:
        known: dict[str, Any] = {"n": 4, "model": "m", "base_url": endpoint.base_url, "progress": listening}
        await harness.rollout(agent, "Do it.", **known)
        await harness.rollout(plain, "Do it.", **known)
    gives_way = "gives way to the run's: 0.8 for the samples (temperature=), 0 for the anchor"
    assert listening.notes == [
        f"the temperature 1.2 of agent 'outer' {gives_way}",
        f"the temperature 0.3 of agent 'inner' {gives_way}",
    ]
