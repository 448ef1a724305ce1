"""Recipes are dealt evenly, by the seed, and reach each sample's calls; the anchor is the agent as it stands."""

from collections import Counter
from typing import Any

import pytest
from agents import Agent, ModelSettings
from hypothesis import given
from hypothesis import strategies as st
from openai.types.shared import Reasoning

import harness
from harness.core.errors import UsageError
from harness.core.recipes import Recipe
from harness.core.records import Group, Query
from harness.core.settings import Settings
from harness.core.settings_sources import load
from harness.report.summary.rollouts import anchor_is_greedy
from harness.rollouts.variation import dealt, recipes, vary_in, without_recipes
from harness.tournament.group import briefed_rollout
from tests.fake_endpoint import Reaction, Refuse, Say, Seen
from tests.rollouts.test_capture import roll_out


def names(settings: Settings, count: int, query: str = "q") -> list[str]:
    return [recipe.name for i in range(1, count + 1) if (recipe := dealt(settings, query, i))]


@given(st.integers(0, 99), st.text(max_size=5), st.integers(1, 40))
def test_recipes_are_dealt_evenly_whatever_the_seed_and_the_query(seed: int, query: str, samples: int):
    times = Counter(names(load({"vary": "effort=low,high,max", "seed": seed}), samples, query))
    assert max(times.values()) - min(times[f"effort={level}"] for level in ("low", "high", "max")) <= 1


def test_weights_say_how_often_a_model_has_its_turn():
    times = Counter(names(load({"vary": "models=a:2,b:1"}), 30))
    assert times == {"model=a": 20, "model=b": 10}


def test_the_anchor_has_no_recipe_and_a_sample_s_does_not_depend_on_how_many_there_are():
    settings = load({"vary": "effort=low,high", "n": 4})
    assert dealt(settings, "q", 0) is None
    assert names(settings, 3) == names(load({"vary": "effort=low,high", "n": 40}), 40)[:3]


def test_another_seed_or_query_deals_otherwise():
    by_seed = {tuple(names(load({"vary": "effort=low,high,max", "seed": seed}), 6)) for seed in range(20)}
    by_query = {tuple(names(load({"vary": "effort=low,high,max"}), 6, f"q{i}")) for i in range(20)}
    assert len(by_seed) > 5
    assert len(by_query) > 5


def test_ways_joined_by_x_make_a_recipe_of_each_combination():
    every = recipes(vary_in(load({"vary": 'effort=low,highxinstructions=["A","B"]xmodels=m'})))
    assert [recipe.name for recipe in every] == [
        "effort=low, instructions=1, model=m",
        "effort=low, instructions=2, model=m",
        "effort=high, instructions=1, model=m",
        "effort=high, instructions=2, model=m",
    ]


@pytest.mark.parametrize(
    ("vary", "names", "left"),
    [
        ("effort=low,high,max", {"effort=high"}, "effort=low,max"),
        ("temperaturexmodels=a:2,b:1", {"model=b"}, "temperaturexmodels=a:2"),
        ("effort=low,highxmodels=a,b", {"effort=low, model=a", "effort=low, model=b"}, "effort=highxmodels=a:1,b:1"),
        ('instructions=["A","B","C"]', {"instructions=1", "instructions=3"}, 'instructions=["B"]'),
        ("effort=low,highxmodels=a,b", {"effort=low, model=a"}, None),
        ("effort=low", {"effort=low"}, None),
        ("temperature", set[str](), "temperature"),
    ],
)
def test_without_some_recipes_the_ways_make_just_the_others_or_there_are_none(
    vary: str, names: set[str], left: str | None
):
    ways = without_recipes(vary_in(load({"vary": vary})), names)
    assert (ways and str(ways)) == left


def test_by_temperature_alone_no_sample_has_a_recipe():
    assert dealt(load({}), "q", 1) is dealt(load({"vary": "temperature"}), "q", 1) is None
    assert Recipe().name == ""


@pytest.mark.anyio
@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_each_sample_asks_for_its_effort_and_nobody_for_a_temperature(api: str):
    agent = Agent(name="a", model_settings=ModelSettings(reasoning=Reasoning(effort="medium"), temperature=0.3))
    rollouts, seen = await roll_out(agent, lambda _: Say("x"), api, n=5, vary="effort=low,high")
    efforts = Counter(r.body["reasoning_effort"] if api == "chat" else r.body["reasoning"]["effort"] for r in seen)
    assert efforts == {"medium": 1, "low": 2, "high": 2}
    assert {r.body["temperature"] for r in seen} == {0.3}, "the agent's own stands"
    assert rollouts[0].recipe is None
    assert Counter(r.recipe.name for r in rollouts if r.recipe) == {"effort=low": 2, "effort=high": 2}
    assert all(r.requested.temperature is None and r.effective.uniform for r in rollouts)
    assert anchor_is_greedy(Group(query=Query(id="q", text=""), rollouts=tuple(rollouts))) is None


@pytest.mark.anyio
async def test_an_effort_leaves_what_else_the_agent_asks_of_reasoning():
    agent = Agent(name="a", model_settings=ModelSettings(reasoning=Reasoning(summary="concise")))
    _, seen = await roll_out(
        agent, lambda _: Say("x"), "responses", n=2, vary={"effort": ["high"], "temperature": True}
    )
    asked = sorted((r.body["temperature"], r.body["reasoning"].get("effort")) for r in seen if r.body["reasoning"])
    assert asked == [(0.0, None), (0.8, "high")]
    assert {r.body["reasoning"]["summary"] for r in seen} == {"concise"}


def systems(seen: list[Seen]) -> Counter[str]:
    return Counter(m["content"] for r in seen for m in r.body["messages"] if m["role"] in ("system", "developer"))


async def _own(context: Any, agent: Agent[Any]) -> str:
    return f"Own of {agent.name}."


@pytest.mark.anyio
@pytest.mark.parametrize("own", ["Own of a.", _own, lambda _context, agent: f"Own of {agent.name}."])
async def test_variants_stand_before_the_starting_agent_s_instructions_or_in_their_place(own: Any):
    agent = Agent(name="a", instructions=own)
    vary = {"instructions": ["Sources first.", "replace:\nBe brief."]}
    rollouts, seen = await roll_out(agent, lambda _: Say("x"), n=5, vary=vary)
    assert systems(seen) == {"Own of a.": 1, "Sources first.\n\nOwn of a.": 2, "Be brief.": 2}
    assert agent.instructions is own
    for rollout in rollouts[1:]:
        assert rollout.recipe
        assert rollout.instructions == (
            "Be brief." if rollout.recipe.instructions == 2 else "Sources first.\n\nOwn of a."
        )


@pytest.mark.anyio
async def test_a_handoff_s_target_keeps_its_instructions_and_the_judge_is_shown_the_agent_s_own():
    other = Agent(name="other", instructions="Other.")
    first = Agent(name="first", handoffs=[other])

    def script(seen: Seen) -> Say:
        if "transfer_to_other" in str(seen.body.get("tools")):
            return Say(calls=(("transfer_to_other", {}),))
        return Say("Done.")

    rollouts, seen = await roll_out(first, script, n=3, vary={"instructions": ["Prefix."]})
    assert systems(seen) == {"Prefix.": 2, "Other.": 3}
    group = Group(query=Query(id="q", text=""), rollouts=tuple(rollouts))
    assert briefed_rollout(group) is None, "the agent itself has neither instructions nor tools"


@pytest.mark.anyio
async def test_models_are_asked_as_often_as_their_weights_say_and_the_anchor_asks_its_own():
    rollouts, seen = await roll_out(Agent(name="a"), lambda _: Say("x"), n=7, vary="models=x:2,y:1")
    assert Counter(r.body["model"] for r in seen) == {"m": 1, "x": 4, "y": 2}
    assert [r.requested.model for r in rollouts] == [r.effective.models[0] for r in rollouts]


@pytest.mark.anyio
async def test_an_effort_that_the_model_refuses_fails_its_samples_and_the_failure_names_the_recipe():
    def script(seen: Seen) -> Reaction:
        refused = seen.body.get("reasoning_effort") == "xhigh"
        return Refuse(400, "Unsupported value: 'xhigh'", None, "reasoning_effort") if refused else Say("x")

    rollouts, _ = await roll_out(Agent(name="a"), script, n=3, vary="effort=low,xhigh")
    (failure,) = [r.failure for r in rollouts if r.failure]
    assert "Unsupported value: 'xhigh'" in failure.message
    assert failure.message.endswith("; this sample had effort=xhigh: leave out of vary= what the model refuses")


@pytest.mark.anyio
async def test_the_embedded_model_is_given_no_effort_and_no_model():
    for vary in ("effort=low", "models=a"):
        with pytest.raises(UsageError, match=r"vary: .* changes nothing of the embedded model; vary instructions"):
            await harness.rollout(Agent(name="a"), "Do it.", n=2, offline=True, vary=vary)
