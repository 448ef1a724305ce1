"""What an SDK agent does, through the real Runner and a real socket, comes out as steps in order."""

import asyncio
import itertools
import random
from typing import Any

import pytest
from agents import Agent, ModelSettings, Runner, function_tool, handoff, input_guardrail
from agents import GuardrailFunctionOutput as Guarded
from agents.tracing import TracingProcessor, add_trace_processor
from pydantic import BaseModel

import harness
from harness.core.records import Rollout, Step
from harness.offline.model import OfflineModel
from tests.fake_endpoint import FakeEndpoint, Say, Script, Seen

pytestmark = pytest.mark.anyio


async def roll_out(agent: Any, script: Script, api: str = "chat", **settings: Any) -> tuple[list[Rollout], list[Seen]]:
    with FakeEndpoint(agent=script).serving() as endpoint:
        known: dict[str, Any] = {"n": 1, "model": "m", "base_url": endpoint.base_url, "api": api} | settings
        group = await harness.rollout(agent, "Do it.", **known)
    return list(group.rollouts), endpoint.requests


def told(step: Step) -> tuple[Any, ...]:
    return step.kind, step.tool_name, step.tool_input, step.tool_output


@function_tool
async def slow_then_fast(word: str) -> str:
    """Echo, the longer the word the later.

    Args:
        word: What to echo.
    """
    await asyncio.sleep(0.05 if word == "slow" else 0)
    return f"echo {word}"


def last_output(seen: Seen) -> str | None:
    return seen.tool_outputs[-1] if seen.tool_outputs else None


@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_parallel_calls_keep_the_order_of_the_request_and_the_reasoning_stands_on_the_first(api: str):
    def script(seen: Seen) -> Say:
        if seen.tool_outputs:
            return Say("Done.")
        return Say(
            calls=tuple(("slow_then_fast", {"word": w}) for w in ("slow", "fast", "fast")), reasoning="Three at once."
        )

    (rollout,), _ = await roll_out(Agent(name="a", tools=[slow_then_fast]), script, api)
    path = rollout.trajectory.path
    assert [s.tool_output for s in path] == ["echo slow", "echo fast", "echo fast"]
    assert [s.reasoning for s in path] == ["Three at once.", None, None]
    assert len({s.call_id for s in path}) == 3
    assert (rollout.trajectory.answer, rollout.status) == ("Done.", "ok")


async def test_a_handoff_is_a_step_and_the_next_agents_steps_follow_under_its_name():
    other = Agent(name="other", tools=[slow_then_fast])
    first = Agent(name="first", handoffs=[other])

    def script(seen: Seen) -> Say:
        names = [t["function"]["name"] for t in seen.body["tools"]]
        if "transfer_to_other" in names:
            return Say("I pass this on.", calls=(("transfer_to_other", {}),))
        return Say("Done.") if "echo x" in str(seen.tool_outputs) else Say(calls=(("slow_then_fast", {"word": "x"}),))

    (rollout,), _ = await roll_out(first, script)
    handoff, tool = rollout.trajectory.path
    assert (handoff.kind, handoff.agent, handoff.reasoning) == ("handoff", "first", "I pass this on.")
    assert handoff.tool_output == "handed over to other"
    assert (tool.agent, tool.tool_output) == ("other", "echo x")


async def test_an_agent_used_as_a_tool_is_marked_and_its_own_steps_stand_inside_its_step():
    inner = Agent(name="inner", tools=[slow_then_fast])
    outer = Agent(name="outer", tools=[inner.as_tool("ask_inner", "Ask it.")])

    def script(seen: Seen) -> Say:
        names = [t["function"]["name"] for t in seen.body["tools"]]
        if "ask_inner" in names:
            return Say("All done.") if seen.tool_outputs else Say(calls=(("ask_inner", {"input": "go"}),))
        return Say("Inner done.") if seen.tool_outputs else Say(calls=(("slow_then_fast", {"word": "in"}),))

    (rollout,), seen = await roll_out(outer, script)
    (asked,) = rollout.trajectory.path
    assert (asked.tool_type, asked.tool_output, asked.agent) == ("agent", "Inner done.", "outer")
    (echoed,) = asked.inner
    assert (echoed.agent, echoed.tool_output) == ("inner", "echo in")
    assert rollout.trajectory.answer == "All done."
    assert {r.body["temperature"] for r in seen} == {0.0}


async def test_a_think_block_is_lifted_out_of_the_answer_into_a_reasoning_step():
    (rollout,), _ = await roll_out(Agent(name="a"), lambda _: Say("<think>Easy.</think>\nForty-two."))
    assert [(s.kind, s.reasoning) for s in rollout.trajectory.path] == [("reasoning", "Easy.")]
    assert rollout.trajectory.answer == "Forty-two."


@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_reasoning_before_the_answer_is_a_step_and_the_answer_is_none(api: str):
    (rollout,), _ = await roll_out(Agent(name="a"), lambda _: Say("Forty-two.", reasoning="Easy."), api)
    assert [told(s) for s in rollout.trajectory.path] == [("reasoning", None, None, None)]
    assert rollout.trajectory.path[0].reasoning == "Easy."


async def test_a_tool_that_raises_is_shown_with_what_the_model_saw_and_its_error():
    @function_tool
    def broken() -> str:
        """Break."""
        raise ValueError("inside")

    script: Script = lambda seen: Say("Sorry.") if seen.tool_outputs else Say(calls=(("broken", {}),))  # noqa: E731
    (rollout,), seen = await roll_out(Agent(name="a", tools=[broken]), script)
    (step,) = rollout.trajectory.path
    assert step.tool_output == last_output(seen[-1])
    assert step.error == "ValueError: inside"


async def test_a_fatal_tool_error_is_a_failure_of_kind_tool_with_the_steps_so_far():
    @function_tool(failure_error_function=None)
    def broken() -> str:
        """Break."""
        raise ValueError("inside")

    (rollout,), _ = await roll_out(Agent(name="a", tools=[broken]), lambda _: Say(calls=(("broken", {}),)))
    assert rollout.failure
    assert (rollout.failure.kind, rollout.failure.turn) == ("tool", 1)
    assert "inside" in rollout.failure.message
    assert [s.tool_name for s in rollout.trajectory.path] == ["broken"]


async def test_a_tripped_guardrail_is_a_failure_and_a_step():
    @input_guardrail(run_in_parallel=False)
    def no(_ctx: Any, _agent: Any, _input: Any) -> Guarded:
        return Guarded(output_info=None, tripwire_triggered=True)

    (rollout,), seen = await roll_out(Agent(name="a", input_guardrails=[no]), lambda _: Say("x"))
    assert rollout.failure
    assert rollout.failure.kind == "guardrail"
    assert [(s.kind, s.tool_output) for s in rollout.trajectory.path] == [("guardrail", "tripped")]
    assert not seen


async def test_a_tool_nobody_has_is_a_failure_of_kind_output():
    (rollout,), _ = await roll_out(Agent(name="a"), lambda _: Say(calls=(("nothing", {}),)))
    assert rollout.failure
    assert rollout.failure.kind == "output"
    assert [s.tool_name for s in rollout.trajectory.path] == ["nothing"]


class Verse(BaseModel):
    lines: list[str]


async def test_structured_output_is_a_json_answer():
    (rollout,), _ = await roll_out(Agent(name="a", output_type=Verse), lambda _: Say('{"lines": ["one", "two"]}'))
    assert (rollout.trajectory.answer_type, rollout.trajectory.answer) == ("json", '{"lines":["one","two"]}')


async def test_the_users_agent_is_not_changed_and_its_own_temperature_gives_way():
    agent = Agent(name="a", model="theirs", model_settings=ModelSettings(temperature=1.7))
    rollouts, seen = await roll_out(agent, lambda _: Say("x"), n=3, model=None)
    assert sorted(r.body["temperature"] for r in seen) == [0.0, 0.8, 0.8]
    assert {r.body["model"] for r in seen} == {"theirs"}
    assert agent.model_settings.temperature == 1.7
    assert all(r.effective.uniform for r in rollouts)


async def test_a_model_object_of_the_agents_own_needs_no_endpoint_and_is_recorded():
    agent = Agent(name="a", model=OfflineModel(random.Random(0)))
    group = await harness.rollout(agent, "What is it?", n=2)
    assert [r.status for r in group.rollouts] == ["ok", "ok"]
    assert [c.temperature for r in group.rollouts for c in r.calls] == [0.0, 0.8]
    assert all(r.raw_calls and r.calls[0].raw == 0 and r.price_usd is None for r in group.rollouts)


async def test_of_sixty_four_rollouts_with_three_parallel_calls_each_no_step_lands_in_another():
    def script(seen: Seen) -> Say:
        token = str(seen.body["seed"])  # each rollout's own
        if seen.tool_outputs:
            return Say(token)
        return Say(calls=tuple(("slow_then_fast", {"word": f"{token}-{i}"}) for i in range(3)))

    rollouts, _ = await roll_out(Agent(name="a", tools=[slow_then_fast]), script, n=64, concurrency=64)
    for rollout in rollouts:
        token = str(rollout.requested.seed)
        assert rollout.trajectory.answer == token
        assert [s.tool_output for s in rollout.trajectory.path] == [f"echo {token}-{i}" for i in range(3)]
        assert [s.tool_input for s in rollout.trajectory.path] == [f'{{"word": "{token}-{i}"}}' for i in range(3)]
    assert len({r.trajectory.answer for r in rollouts}) == 64


async def test_the_users_own_trace_processor_keeps_hearing_of_everything():
    heard: list[str] = []

    class Listener(TracingProcessor):
        def on_trace_start(self, trace: Any) -> None: ...
        def on_trace_end(self, trace: Any) -> None: ...
        def on_span_start(self, span: Any) -> None: ...
        def on_span_end(self, span: Any) -> None:
            heard.append(span.span_data.type)

        def shutdown(self) -> None: ...
        def force_flush(self) -> None: ...

    add_trace_processor(Listener())
    await roll_out(Agent(name="a"), lambda _: Say("x"))
    assert "generation" in heard
    heard.clear()
    await Runner.run(Agent(name="b", model=OfflineModel(random.Random(0))), "Outside of any rollout.")
    assert "generation" in heard


async def test_an_agent_that_must_be_built_is_built_once_a_rollout_and_closed_again():
    events: list[str] = []

    class Building:
        async def __aenter__(self) -> Agent:
            events.append("open")
            return Agent(name="a")

        async def __aexit__(self, *_: object) -> None:
            events.append("close")

    def build(env: harness.AgentEnv) -> Building:
        assert env.api == "chat"
        return Building()

    await roll_out(build, lambda _: Say("x"), n=3)
    assert sorted(events) == ["close"] * 4 + ["open"] * 4  # once more to look at it before anything is spent


async def test_the_fingerprint_is_the_same_for_all_rollouts_and_another_for_other_instructions():
    first, _ = await roll_out(Agent(name="a", instructions="Be brief."), lambda _: Say("x"), n=3)
    other, _ = await roll_out(Agent(name="a", instructions="Be long."), lambda _: Say("x"))
    assert len({r.fingerprint for r in first}) == 1
    assert first[0].fingerprint != other[0].fingerprint


async def test_a_handoff_by_another_name_is_a_handoff_and_one_that_fails_says_why():
    other = Agent(name="other")

    def refuse(_ctx: Any) -> None:
        raise OSError("nobody there")

    def script(seen: Seen) -> Say:
        return Say("Done.") if seen.system == "Finish." else Say(calls=(("escalate", {}),))

    other.instructions = "Finish."
    good = Agent(name="first", handoffs=[handoff(other, tool_name_override="escalate")])
    bad = Agent(name="first", handoffs=[handoff(other, tool_name_override="escalate", on_handoff=refuse)])
    (rollout,), _ = await roll_out(good, script)
    (step,) = rollout.trajectory.path
    assert (step.kind, step.tool_output, step.error) == ("handoff", "handed over to other", None)
    (failed,), _ = await roll_out(bad, script)
    assert failed.failure
    assert "nobody there" in failed.failure.message
    assert failed.trajectory.path[0].tool_output is None


async def test_an_agent_that_fails_to_start_in_one_rollout_fails_that_rollout_alone():
    starts = itertools.count()

    def build() -> Agent:
        if next(starts) == 2:
            raise OSError("no port left")
        return Agent(name="a")

    rollouts, _ = await roll_out(build, lambda _: Say("x"), n=4, concurrency=1)
    assert [r.status for r in rollouts].count("failed") == 1
    (failure,) = [r.failure for r in rollouts if r.failure]
    assert "no port left" in failure.message
