"""What varying bought: distances of answers, the gain of each recipe, and which one is shown to be useless."""

import random
from collections.abc import Sequence
from itertools import combinations
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.rankings import GroupRanking, Ranked
from harness.core.recipes import Recipe
from harness.core.records import Group
from harness.core.settings_sources import load
from harness.report.summary.diversity import diversity, diversity_words, mean_distance
from harness.rollouts.variation import dealt
from tests.builders import a_group, a_rollout

SETTINGS = load({"vary": "effort=minimal,low,medium,high"})
NAMES = [f"effort={level}" for level in ("high", "low", "medium", "minimal")]


def ranked_by(scores: Sequence[float], recipes: Sequence[Recipe | None]) -> tuple[Group, GroupRanking]:
    rollouts = [a_rollout(i, f"Answer {i}", recipe=recipe) for i, recipe in enumerate(recipes)]
    ranks = [float(sum(other > score for other in scores)) for score in scores]
    places = [
        Ranked(index=i, rank=rank, score=score) for i, (rank, score) in enumerate(zip(ranks, scores, strict=True))
    ]
    plain = GroupRanking(query="q", topology="arena", estimator="pooled", status="complete", signal="ok")
    return a_group(rollouts), plain.model_copy(update={"rollouts": tuple(places)})


def simulated(seed: int, queries: int, better: dict[str, float]) -> list[tuple[Group, GroupRanking]]:
    rng, groups = random.Random(seed), list[tuple[Group, GroupRanking]]()
    for query in range(queries):
        recipes = [dealt(SETTINGS, f"{seed}/{query}", i) for i in range(8)]
        groups.append(ranked_by([rng.gauss(better.get(r.name if r else "", 0)) for r in recipes], recipes))
    return groups


@given(st.lists(st.text(), min_size=2, max_size=5))
def test_a_distance_lies_between_0_and_1_and_is_0_for_equal_words(answers: list[str]):
    assert 0 <= mean_distance(answers) <= 1
    assert mean_distance([answers[0]] * 3) == 0


def test_a_distance_is_the_share_of_words_that_only_one_answer_has():
    assert mean_distance(["The sky is blue.", "the sky, blue"]) == pytest.approx(1 / 4)
    assert mean_distance(["a", "b", "a"]) == pytest.approx(2 / 3)


def test_a_useless_recipe_is_found_in_nine_of_ten_runs_of_100_queries_and_no_other_is_named():
    useless = {"effort=minimal": -1.5}
    found = [[r.name for r in diversity(simulated(seed, 100, useless)).recipes if r.drop] for seed in range(10)]
    assert sum(names == ["effort=minimal"] for names in found) >= 9
    assert all(set(names) <= {"effort=minimal"} for names in found)


def test_a_useless_recipe_of_thousands_of_queries_is_found():
    kinds = [Recipe(effort=level) for level in ("low", "high")]
    won = ranked_by([0.0, 1.0, 2.0], [None, *kinds]), ranked_by([0.0, 2.0, 1.0], [None, *kinds])
    groups = [won[at % 5 == 0] for at in range(3000)]
    assert [(r.name, r.first, r.drop) for r in diversity(groups).recipes] == [
        ("effort=high", 2400.0, False),
        ("effort=low", 600.0, True),
    ]


@pytest.mark.parametrize("queries", [3, 100])
def test_recipes_that_do_not_differ_are_named_in_at_most_one_run_of_twenty(queries: int):
    named = [any(r.drop for r in diversity(simulated(seed, queries, {})).recipes) for seed in range(20)]
    assert sum(named) <= 1


def test_the_gain_over_the_anchor_has_an_interval_that_holds_the_true_one():
    figures = diversity(simulated(1, 100, {"effort=high": 1.0}))
    assert [r.name for r in figures.recipes] == NAMES
    gains = {r.name: r.gain for r in figures.recipes}
    high, low = gains["effort=high"], gains["effort=low"]
    assert high
    assert low
    assert high.low is not None
    assert low.high is not None
    assert high.low > low.high
    assert figures.answers
    assert figures.answers.value == 8
    words = {each.label: each.value for each in diversity_words(figures)}
    assert list(words) == ["Distance of answers", *(f"Gain of {name}" for name in NAMES), "Rollouts that are enough"]


def test_what_a_point_of_gain_costs_is_the_price_of_all_samples_over_the_gain_of_the_best():
    low, high = Recipe(effort="low"), Recipe(effort="high")
    group, ranked = ranked_by([1, 3, 2, 0], [None, low, low, high])
    prices = {1: 0.01, 2: 0.03, 3: 0.05}
    priced = [r.model_copy(update={"price_usd": prices.get(r.index)}) for r in group.rollouts]
    of_high, of_low = diversity([(group.model_copy(update={"rollouts": tuple(priced)}), ranked)]).recipes
    assert of_low.usd_a_point
    assert of_low.usd_a_point.value == pytest.approx(0.02)
    assert of_high.usd_a_point is None, "it gains nothing"
    assert diversity([(group, ranked)]).recipes[1].usd_a_point is None, "no price is known"


@given(st.lists(st.integers(-9, 9), min_size=10, max_size=12), st.integers(1, 5))
def test_the_advice_is_the_fewest_rollouts_with_nine_tenths_of_the_gain(anchors: list[int], samples: int):
    rng = random.Random(sum(anchors))
    scores = [[float(anchor), *(rng.uniform(-9, 9) for _ in range(samples))] for anchor in anchors]
    groups = [ranked_by(row, [None] * len(row)) for row in scores]
    by_hand = [
        fmean(max(0.0, max(drawn) - row[0]) for row in scores for drawn in combinations(row[1:], k))
        for k in range(1, samples + 1)
    ]
    advice = diversity(groups).advice
    if by_hand[-1] == 0:
        assert advice is None
        return
    assert advice
    assert advice.most == samples + 1
    assert advice.gain_of_most == pytest.approx(by_hand[-1])
    assert advice.gain == pytest.approx(by_hand[advice.n - 2])
    assert advice.gain >= 0.9 * advice.gain_of_most - 1e-9
    assert advice.n == 2 or by_hand[advice.n - 3] < 0.9 * by_hand[-1] + 1e-9


def test_the_advice_leaves_out_the_recipe_to_drop_and_says_nothing_of_few_queries():
    figures = diversity(simulated(1, 100, {"effort=minimal": -1.5}))
    assert figures.advice
    assert 5 <= figures.advice.most <= 7, "one or two of seven samples are left out"
    (advice,) = [each for each in diversity_words(figures) if each.name == "advice"]
    assert "without effort=minimal, by the judge's scores" in advice.meaning
    assert diversity(simulated(1, 9, {})).advice is None


@pytest.mark.parametrize(("scores", "says"), [([0, 1, 1, 1], "2"), ([0, 1, 5, 9], "4 or more")])
def test_of_more_rollouts_than_there_were_the_advice_says_that_nothing_is_known(scores: list[float], says: str):
    (advice,) = [e for e in diversity_words(diversity([ranked_by(scores, [None] * 4)] * 10)) if e.name == "advice"]
    assert advice.value == says
    assert advice.meaning.endswith("; what more would gain is not known")


def test_shared_places_count_in_part_and_queries_that_tell_nothing_do_not_count():
    recipes = [None, Recipe(effort="low"), Recipe(effort="high"), Recipe(effort="high")]
    low_and_high_lead = ranked_by([0, 2, 2, 1], recipes)
    all_level = ranked_by([0, 1, 1, 1], recipes)
    high, low = diversity([low_and_high_lead, all_level]).recipes
    assert (high.first, high.queries, low.first) == (0.5, 1, 0.5)
    assert high.expected == pytest.approx(2 / 3)
    assert (high.drop, low.drop) == (False, False)
