"""Credit where tools are an MCP server's, need approval, are agents, or stream one."""

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, Runner, function_tool

import harness
from tests.fake_endpoint import FakeEndpoint, Say, Seen, block, verdict
from tests.rollouts.test_approvals import Post

INNER = Agent[Any](name="inner", instructions="Inner.", mcp_servers=[Post("never", lambda _: None)])


@function_tool
async def stream(text: str) -> str:
    """Ask another agent, in a stream."""
    result = Runner.run_streamed(INNER, text)
    async for _ in result.stream_events():
        pass
    return str(result.final_output)


def script() -> Callable[[Seen], Say]:
    """Every other rollout looks first, where the rest post; then all do the same, and say how good that was."""
    begun, ended = count(), count()

    def reply(seen: Seen) -> Say:
        if seen.system == "Inner.":
            return Say("Done.") if seen.tool_outputs else Say(calls=(("look", {}),))
        done = [str(output) for output in seen.tool_outputs]
        if not done:
            return Say(calls=((("post", "look")[next(begun) % 2], {}),))
        if len(done) < 3:
            tool, named = (("stream", "text"), ("ask", "input"))[len(done) - 1]
            return Say(calls=((tool, {named: "x"}),))
        return Say(f"Answer {'abcd'[next(ended)]}: {5 if 'look done' in done[0] else 1}.")

    return reply


def judge(seen: Seen) -> Say:
    """The greater number is better."""
    return Say(verdict(*(int("".join(filter(str.isdigit, block(seen.user, f"ANSWER_{side}")))) for side in "AB")))


def test_the_step_that_decides_is_found_among_calls_of_all_kinds(tmp_path: Path) -> None:
    outer = Agent[Any](
        name="outer",
        instructions="Outer.",
        tools=[stream, INNER.as_tool("ask", "Ask it.")],
        mcp_servers=[Post("always", lambda _: None)],
    )
    with FakeEndpoint(script(), judge).serving() as endpoint:
        run = harness.run_sync(
            outer,
            ["Go on?"],
            n=4,
            model="m",
            judge_model="j",
            topology="round_robin",
            approve=["all"],
            concurrency=1,
            base_url=endpoint.base_url,
            runs_dir=tmp_path,
            report=False,
        )
    group = run.credit()
    ways = [way["rollouts"] for way in group["tree"]]
    assert (len(ways[0]), ways[0]) == (2, ways[1])
    for rollout in group["rollouts"]:
        steps = rollout["steps"]
        looked = steps[0]["tools"] == ["look"]
        assert [step["agent"] for step in steps] == "outer outer inner inner outer inner inner outer".split()
        assert [step["tools"] for step in steps[1:]] == [["stream"], ["look"], [], ["ask"], ["look"], [], []]
        assert [step["shared"] for step in steps] == [3, *[1] * 7]
        assert (steps[0]["credit"] > 0) is looked
        assert abs(steps[0]["credit"]) > 3 * max(abs(step["credit"]) for step in steps[1:])
        assert steps[0]["value"] + sum(step["credit"] for step in steps) == pytest.approx(rollout["end"], abs=1e-4)
