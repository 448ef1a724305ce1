"""Settings reach every model call, and where an endpoint refuses one the archive says so."""

from typing import Any

import pytest
from agents import Agent, ModelSettings, Runner, function_tool

import harness
from harness.report.summary.rollouts import anchor_is_greedy
from tests.fake_endpoint import FakeEndpoint, Reaction, Refuse, Say, Seen
from tests.rollouts.test_capture import roll_out

pytestmark = pytest.mark.anyio


def refusing(*names: str, with_param: bool = True, status: int = 400) -> Any:
    def script(seen: Seen) -> Reaction:
        for name in names:
            if name in seen.body:
                return Refuse(
                    status,
                    f"Unsupported parameter: '{name}'",
                    "unsupported_parameter" if with_param else None,
                    name if with_param else None,
                )
        return Say("Fine.")

    return script


@pytest.mark.parametrize(("with_param", "status"), [(True, 400), (False, 400), (False, 422)])
async def test_a_refused_temperature_costs_one_call_and_the_group_says_that_its_anchor_is_not_greedy(
    with_param: bool, status: int
):
    agent = Agent(name="a")
    with FakeEndpoint(agent=refusing("temperature", with_param=with_param, status=status)).serving() as endpoint:
        group = await harness.rollout(agent, "Do it.", n=6, model="m", base_url=endpoint.base_url)
    assert [r.status for r in group.rollouts] == ["ok"] * 6
    assert len(endpoint.requests) == 7
    assert sum("temperature" in r.body for r in endpoint.requests) == 1
    assert anchor_is_greedy(group) is False
    for rollout in group.rollouts:
        assert not rollout.effective.uniform
        assert rollout.effective.exceptions == ("call 1: sent no temperature",)


async def test_seed_and_top_p_are_left_out_alike():
    with FakeEndpoint(agent=refusing("seed", "top_p")).serving() as endpoint:
        group = await harness.rollout(Agent(name="a"), "Do it.", n=5, model="m", base_url=endpoint.base_url, top_p=0.9)
    assert [r.status for r in group.rollouts] == ["ok"] * 5
    assert sum("seed" in r.body for r in endpoint.requests) == 1
    assert sum("top_p" in r.body for r in endpoint.requests) == 1
    assert group.rollouts[0].effective.temperature == 0


async def test_a_sampled_anchor_is_asked_for_as_the_samples_are():
    with FakeEndpoint(agent=lambda _: Say("Fine.")).serving() as endpoint:
        sampled: dict[str, Any] = {"temperature": 1.0, "anchor_temperature": 1.0, "top_p": 0.9}
        group = await harness.rollout(Agent(name="a"), "Do it.", n=3, model="m", base_url=endpoint.base_url, **sampled)
    assert {(r.body["temperature"], r.body["top_p"]) for r in endpoint.requests} == {(1.0, 0.9)}
    assert anchor_is_greedy(group) is None


async def test_strict_temperature_stops_and_names_model_and_setting():
    with (
        FakeEndpoint(agent=refusing("temperature")).serving() as endpoint,
        pytest.raises(harness.UsageError, match="'m' refuses the setting temperature"),
    ):
        await harness.rollout(
            Agent(name="a"), "Do it.", n=4, model="m", base_url=endpoint.base_url, strict_temperature=True
        )
    assert len(endpoint.requests) == 1


async def test_every_model_is_asked_once_also_in_handoffs():
    other = Agent(name="other", model="second")
    first = Agent(name="first", model="first", handoffs=[other])

    def script(seen: Seen) -> Reaction:
        if "temperature" in seen.body:
            return Refuse(400, "no temperature here", None, "temperature")
        return Say(calls=(("transfer_to_other", {}),)) if seen.body["model"] == "first" else Say("Done.")

    rollouts, seen = await roll_out(first, script, n=5, model=None)
    assert [r.trajectory.answer for r in rollouts] == ["Done."] * 5
    assert sorted(r.body["model"] for r in seen if "temperature" in r.body) == ["first", "second"]


async def test_each_rollout_has_a_seed_of_its_own_that_its_calls_carry_and_that_comes_again():
    script = lambda _: Say("x")  # noqa: E731
    rollouts, seen = await roll_out(Agent(name="a"), script, n=4)
    again, _ = await roll_out(Agent(name="a"), script, n=4)
    other, _ = await roll_out(Agent(name="a"), script, n=4, seed=1)
    seeds = [r.requested.seed for r in rollouts]
    assert len(set(seeds)) == 4
    assert sorted(r.body["seed"] for r in seen) == sorted(s for s in seeds if s is not None)
    assert [r.requested.seed for r in again] == seeds
    assert [r.requested.seed for r in other] != seeds
    assert [c.seed for r in rollouts for c in r.calls] == seeds


async def test_the_agents_own_extra_body_is_kept_beside_the_seed():
    agent = Agent(name="a", model_settings=ModelSettings(extra_body={"top_k": 20}))
    _, seen = await roll_out(agent, lambda _: Say("x"), n=2)
    assert all(r.body["top_k"] == 20 and "seed" in r.body for r in seen)


async def test_no_seed_is_sent_on_the_responses_api():
    _, seen = await roll_out(Agent(name="a"), lambda _: Say("x"), "responses", n=2)
    assert not any("seed" in r.body for r in seen)


async def test_top_p_is_the_samples_alone():
    _, seen = await roll_out(Agent(name="a"), lambda _: Say("x"), n=3, top_p=0.9)
    assert sorted((r.body["temperature"], r.body.get("top_p")) for r in seen) == [(0.0, None), (0.8, 0.9), (0.8, 0.9)]


async def test_a_tool_that_starts_a_run_on_a_model_of_its_own_takes_the_temperature_and_is_named():
    inner = Agent(name="inner", model_settings=ModelSettings(temperature=0.3))

    with FakeEndpoint(agent=_nesting).serving() as endpoint:
        import openai  # noqa: PLC0415
        from agents import OpenAIChatCompletionsModel  # noqa: PLC0415

        async with openai.AsyncOpenAI(base_url=endpoint.base_url, api_key="x") as client:
            inner.model = OpenAIChatCompletionsModel("inner-model", client)

            @function_tool
            async def run_inner() -> str:
                """Run another agent."""
                return str((await Runner.run(inner, "Inside.")).final_output)

            group = await harness.rollout(
                Agent(name="outer", tools=[run_inner]), "Do it.", n=2, model="m", base_url=endpoint.base_url
            )
    for rollout in group.rollouts:
        assert rollout.status == "ok"
        assert rollout.effective.uniform
        assert [c.own_model for c in rollout.calls] == [None, "OpenAIChatCompletionsModel", None]
        (step,) = rollout.trajectory.path
        assert step.tool_output == "From inside."


def _nesting(seen: Seen) -> Say:
    if seen.body["model"] == "inner-model":
        return Say("From inside.")
    return Say("Done.") if seen.tool_outputs else Say(calls=(("run_inner", {}),))
