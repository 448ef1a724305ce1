"""Recipes are dealt evenly, by the seed, and reach each sample's calls; the anchor is the agent as it stands."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from harness.core.records import Recipe
from harness.core.settings import Settings
from harness.core.settings_sources import load
from harness.rollouts.variation import dealt, recipes, vary_of


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
    every = recipes(vary_of(load({"vary": 'effort=low,highxinstructions=["A","B"]xmodels=m'})))
    assert [recipe.name for recipe in every] == [
        "effort=low, instructions=1, model=m",
        "effort=low, instructions=2, model=m",
        "effort=high, instructions=1, model=m",
        "effort=high, instructions=2, model=m",
    ]


def test_by_temperature_alone_no_sample_has_a_recipe():
    assert dealt(load({}), "q", 1) is dealt(load({"vary": "temperature"}), "q", 1) is None
    assert Recipe().name == ""
