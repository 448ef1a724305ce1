"""A failed rollout is data: its kind, its cause, the steps and the usage so far."""

import asyncio
import itertools
import random
import threading
from typing import Any

import pytest
from agents import Agent, function_tool

import harness
from harness.core.errors import OutOfQuota
from harness.core.records import Failure
from tests.fake_endpoint import Cut, FakeEndpoint, Hang, Reaction, Refuse, Say, Script, Seen
from tests.rollouts.test_capture import Verse, roll_out, slow_then_fast

pytestmark = pytest.mark.anyio


async def read_failure(script: Script, agent: Agent | None = None, api: str = "chat", **settings: Any) -> Failure:
    """Roll out once, with the first call answered, so that it is not the run's but the rollout's trouble."""
    (rollout,), _ = await roll_out(agent or Agent(name="a", tools=[slow_then_fast]), script, api, **settings)
    assert rollout.failure is not None
    assert rollout.status == "failed"
    return rollout.failure


def after_a_tool(reaction: Reaction) -> Script:
    return lambda seen: reaction if seen.tool_outputs else Say(calls=(("slow_then_fast", {"word": "x"}),))


@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_a_reply_cut_at_the_token_limit_is_truncated_on_every_endpoint(api: str):
    failure = await read_failure(after_a_tool(Say("The answer is fo", finish="length")), api=api)
    assert failure.kind == "truncated"


@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_a_reply_that_a_filter_withheld_is_a_content_filter_failure(api: str):
    assert (await read_failure(after_a_tool(Say(" ", finish="content_filter")), api=api)).kind == "content_filter"


@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_a_refusal_is_a_refusal(api: str):
    failure = await read_failure(after_a_tool(Say(refusal="I will not.")), api=api)
    assert failure.kind == "refusal"
    assert "I will not." in failure.message


@pytest.mark.parametrize(
    "refusal",
    [
        Refuse(400, "too long", "context_length_exceeded"),
        Refuse(400, "This model's maximum context length is 8 tokens"),
    ],
)
async def test_a_context_too_long_is_named(refusal: Refuse):
    assert (await read_failure(after_a_tool(refusal))).kind == "context_length"


async def test_a_tool_that_waits_for_approval_is_an_approval_failure():
    async def always(*_: Any) -> bool:
        return True

    @function_tool(needs_approval=always)
    def dangerous() -> str:
        """Do it."""
        return "done"

    failure = await read_failure(lambda _: Say(calls=(("dangerous", {}),)), Agent(name="a", tools=[dangerous]))
    assert failure.kind == "approval"
    assert "dangerous" in failure.message


async def test_a_tool_that_runs_out_of_its_own_time_is_a_tool_failure_or_a_message_as_it_was_declared():
    @function_tool(timeout=0.05, timeout_behavior="raise_exception")
    async def fatal() -> str:
        """Wait."""
        await asyncio.sleep(5)
        return "late"

    @function_tool(timeout=0.05)
    async def patient() -> str:
        """Wait."""
        await asyncio.sleep(5)
        return "late"

    failure = await read_failure(lambda _: Say(calls=(("fatal", {}),)), Agent(name="a", tools=[fatal]))
    assert (failure.kind, failure.type) == ("tool", "ToolTimeoutError")

    def script(seen: Seen) -> Say:
        return Say("Done.") if seen.tool_outputs else Say(calls=(("patient", {}),))

    (rollout,), seen = await roll_out(Agent(name="a", tools=[patient]), script)
    assert rollout.trajectory.path[0].tool_output == seen[-1].tool_outputs[0]
    assert "timed out" in (rollout.trajectory.path[0].tool_output or "")


async def test_an_answer_that_does_not_fit_the_output_type_is_an_output_failure():
    assert (await read_failure(lambda _: Say("no JSON"), Agent(name="a", output_type=Verse))).kind == "output"


async def test_arguments_that_are_no_json_go_back_to_the_model_and_the_run_goes_on():
    def script(seen: Seen) -> Say:
        return Say("Done.") if seen.tool_outputs else Say(calls=(("slow_then_fast", {"wrong": 1}),))

    (rollout,), seen = await roll_out(Agent(name="a", tools=[slow_then_fast]), script)
    assert rollout.status == "ok"
    assert rollout.trajectory.path[0].tool_output == seen[-1].tool_outputs[0]


async def test_an_api_error_that_stays_after_the_retries_is_an_api_failure_with_usage_and_steps():
    script = after_a_tool(Refuse(503, "down", headers={"retry-after": "0.01"}))
    (rollout,), seen = await roll_out(Agent(name="a", tools=[slow_then_fast]), script)
    assert rollout.failure
    assert (rollout.failure.kind, rollout.failure.turn) == ("api", 1)
    assert rollout.retries == 5
    assert len(seen) == 1 + 6
    assert (rollout.usage.requests, rollout.usage.input) == (1, 100)
    assert [s.tool_output for s in rollout.trajectory.path if s.kind == "tool"] == ["echo x"]


async def test_retries_that_help_are_counted_and_leave_no_step():
    numbers = itertools.count()

    def script(seen: Seen) -> Reaction:
        if next(numbers) % 2:
            return Refuse(500, "hiccup", headers={"retry-after": "0.01"})
        return after_a_tool(Say("Done."))(seen)

    (rollout,), _ = await roll_out(Agent(name="a", tools=[slow_then_fast]), script)
    assert (rollout.status, rollout.retries) == ("ok", 1)
    assert [s.kind for s in rollout.trajectory.path] == ["tool"]
    assert [c.error is None for c in rollout.calls] == [True, False, True]
    assert rollout.usage.requests == 2


async def test_an_empty_purse_stops_the_run_at_once_and_keeps_what_was_done():
    numbers = itertools.count()
    quota = Refuse(429, "You exceeded your current quota", "insufficient_quota")
    store = harness.MemoryStore()
    with (
        FakeEndpoint(agent=lambda _: Say("x") if next(numbers) < 3 else quota).serving() as endpoint,
        pytest.raises(OutOfQuota, match="quota"),
    ):
        await harness.rollout(
            Agent(name="a"), "Do it.", n=16, model="m", base_url=endpoint.base_url, store=store, concurrency=2
        )
    assert sum(r.status == "ok" for r in store.rollouts) in {2, 3}  # the third may be on its way back
    assert {r.failure.kind for r in store.rollouts if r.failure} <= {"quota", "cancelled"}
    assert len(endpoint.requests) < 8


def nested(seen: Seen, inner: Reaction) -> Reaction:
    """Let an agent that is used as a tool get this reaction."""
    if "tools" not in seen.body:
        return inner
    return Say("All done.") if seen.tool_outputs else Say(calls=(("ask", {"input": "go"}),))


ASKING = Agent(name="outer", tools=[Agent(name="inner").as_tool("ask", "Ask it.")])


async def test_an_empty_purse_inside_a_tool_stops_the_run_as_well():
    store, quota = harness.MemoryStore(), Refuse(429, "You exceeded your current quota", "insufficient_quota")
    with (
        FakeEndpoint(agent=lambda seen: nested(seen, quota)).serving() as endpoint,
        pytest.raises(OutOfQuota, match="quota"),
    ):
        await harness.rollout(ASKING, "Do it.", n=8, model="m", base_url=endpoint.base_url, store=store, concurrency=1)
    assert [r.failure.kind for r in store.rollouts if r.failure] == ["quota"]
    assert not any(r.status == "ok" for r in store.rollouts)


async def test_a_temperature_refused_inside_a_tool_stops_a_strict_run_as_well():
    refusal = Refuse(400, "Unsupported parameter: 'temperature'", "unsupported_parameter", "temperature")
    with (
        FakeEndpoint(agent=lambda seen: nested(seen, refusal)).serving() as endpoint,
        pytest.raises(harness.UsageError, match="'m' refuses the setting temperature"),
    ):
        await harness.rollout(ASKING, "Do it.", n=3, model="m", base_url=endpoint.base_url, strict_temperature=True)


async def test_a_rate_limit_that_never_ends_fails_as_the_endpoints_once_the_user_gives_up():
    script = after_a_tool(Refuse(429, "slow down", headers={"retry-after": "30"}))
    failure = await read_failure(script, timeout=0.5, give_up=1.0)
    assert (failure.kind, failure.type) == ("api", "RateLimitError")


async def test_time_lost_on_replies_that_never_came_is_the_networks_fault():
    failure = await read_failure(lambda _: Hang(30), timeout=1.0)
    assert failure.kind == "network"
    assert "1 s of them for replies that never came" in failure.message


@pytest.mark.nightly
@pytest.mark.parametrize("hung", [1, 2, 6])
async def test_hung_requests_among_instant_ones_fail_no_rollout(hung: int):
    numbers = itertools.count()

    def script(_: Seen) -> Reaction:
        return Hang(30) if next(numbers) < hung else Say("Done.")

    rollouts, _ = await roll_out(Agent(name="a"), script, n=6, timeout=20.0, request_timeout=0.5)
    assert [r.status for r in rollouts] == ["ok"] * 6


async def test_a_rate_limit_pauses_the_whole_run_and_not_one_rollout():
    limited = threading.Event()

    def script(seen: Seen) -> Reaction:
        if seen.body["temperature"] and not limited.is_set():
            limited.set()
            return Refuse(429, "slow down", headers={"retry-after": "1"})
        return Say("x")

    rollouts, seen = await roll_out(Agent(name="a"), script, n=4, concurrency=1)
    assert [r.status for r in rollouts] == ["ok"] * 4
    assert len(seen) == 5


@pytest.mark.nightly
async def test_in_a_storm_every_rollout_ends_ok_or_failed_with_its_kind_and_none_is_lost():
    rng, lock, before = random.Random(7), threading.Lock(), asyncio.all_tasks()

    def script(seen: Seen) -> Reaction:
        with lock:
            dice = rng.random()
        if dice < 0.06:
            return Refuse(500, "oops", headers={"retry-after": "0.01"})
        if dice < 0.07:
            return Refuse(429, "slow down", headers={"retry-after": "0.01"})
        if dice < 0.18:
            return Cut()
        if dice < 0.20:
            return Hang(30)
        return Say("Done.") if len(seen.tool_outputs) >= 2 else Say(calls=(("slow_then_fast", {"word": str(dice)}),))

    rollouts, _ = await roll_out(Agent(name="a", tools=[slow_then_fast]), script, n=48, timeout=8.0)
    assert [r.index for r in rollouts] == list(range(48))
    assert {r.failure.kind for r in rollouts if r.failure} <= {"timeout", "api", "network"}
    assert sum(r.status == "ok" for r in rollouts) > 24
    assert asyncio.all_tasks() <= before  # an open socket would be a warning, and so an error
    for rollout in rollouts:
        if rollout.status == "ok":
            assert [s.kind for s in rollout.trajectory.path] == ["tool", "tool"]
