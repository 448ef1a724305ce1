"""Credit where tools are an MCP server's, need approval, are agents, or stream one."""

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, Runner, function_tool

import harness
from tests.fake_endpoint import FakeEndpoint, Say, Script, Seen, block, verdict
from tests.rollouts.test_approvals import Post

INNER = Agent[Any](name="inner", instructions="Inner.", mcp_servers=[Post("never", lambda _: None)])


@function_tool
def note(text: str) -> str:
    """Note a text."""
    return text


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


def run_of(agent: Agent[Any], reply: Script, n: int, folder: Path) -> harness.Run:
    with FakeEndpoint(reply, judge).serving() as endpoint:
        url: Any = {"base_url": endpoint.base_url, "model": "m", "judge_model": "j", "topology": "round_robin"}
        return harness.run_sync(
            agent, ["Go on?"], n=n, approve=["all"], concurrency=1, runs_dir=folder, report=False, **url
        )


def stopping_early_or_late(good: int) -> Callable[[Seen], Say]:
    """Half look first, where the rest post; then half of each stop, and the others go on for one to four calls more."""
    begun, now = count(), 0

    def reply(seen: Seen) -> Say:
        nonlocal now
        done = len(seen.tool_outputs)
        now = now if done else next(begun)
        looks, more = now % 2, now // 4 * (1 + now % 4)
        if done < 2 + more:
            said = ("post", "look")[looks] if not done else "read" if done == 1 else f"{now}, {done}"
            return Say(calls=(("note", {"text": said}),))
        return Say(f"Answer {'abcdefgh'[now]}: {good if looks else 1}.")

    return reply


NOTING = Agent[Any](name="outer", instructions="Outer.", tools=[note])


def test_to_stop_early_or_late_is_worth_nothing(tmp_path: Path) -> None:
    run = run_of(NOTING, stopping_early_or_late(5), 8, tmp_path)
    rollouts = run.credit()["rollouts"]
    assert sorted(len(rollout["steps"]) for rollout in rollouts) == [3] * 4 + [4, 5, 6, 7]
    for rollout in rollouts:
        first, *others = rollout["steps"]
        for step in others:
            low, high = step["interval"]
            assert low < 0 < high
            assert abs(step["credit"]) < (high - low) / 4, "less than one standard deviation"
            assert step["named"] is None
        ends = {round(other["end"], 1) for other in rollouts if other["steps"][1]["state"] == others[0]["state"]}
        assert ends == {round(rollout["end"], 1)}, "the short and the long are worth the same"
        assert first["interval"][0] > 0 or first["interval"][1] < 0
    (said,) = run.why(0, 2).credit_sentences[:1]
    assert 'at model call 1: note {"text": "post"} instead of note {"text": "look"} (' in said


def test_a_group_without_signal_has_no_credit(tmp_path: Path) -> None:
    group = run_of(NOTING, stopping_early_or_late(1), 8, tmp_path).credit()
    assert group["rollouts"] == []
    assert group["reason"] == "the judging tells its rollouts apart by nothing (signal none)"


def test_the_step_that_decides_is_found_among_calls_of_all_kinds(tmp_path: Path) -> None:
    outer = Agent[Any](
        name="outer",
        instructions="Outer.",
        tools=[stream, INNER.as_tool("ask", "Ask it.")],
        mcp_servers=[Post("always", lambda _: None)],
    )
    group = run_of(outer, script(), 4, tmp_path).credit()
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
