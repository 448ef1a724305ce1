"""`pooled` in a ranking, and beside one: provisional until all groups are in, then what `rank_many` says of them."""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core.rankings import GroupRanking, Ranked
from harness.core.records import Rollout
from harness.ranking.fixed_pairs import Cyclic
from harness.ranking.score_table import rank_many
from harness.tournament.group import Rules
from harness.tournament.group_ranking import finalize
from harness.tournament.pairwise import rank_group
from tests.builders import ScriptedJudge, a_group, a_rollout
from tests.judging.scripted import a_jury
from tests.tournament.test_pairwise import by_chance

ESTIMATORS = ["tiers", "wins"]
POOLED = Rules(estimator="pooled", one_of_many=True, topology="round_robin")


def ranked(query: str, rollouts: Sequence[Rollout], rules: Rules, seed: int, fails: float = 0.0) -> GroupRanking:
    jury = a_jury(ScriptedJudge(by_chance(seed, fails)))
    ranking = anyio.run(lambda: rank_group(a_group(rollouts), jury, rules, random.Random(seed)))
    return ranking.model_copy(update={"query": query})


def told(rankings: Sequence[GroupRanking], rules: Rules = POOLED) -> list[GroupRanking]:
    by_query = {ranking.query: ranking for ranking in rankings}
    return list(finalize(list(by_query), by_query.__getitem__, rules))


def place(ranked: Ranked) -> tuple[Any, ...]:
    return ranked.index, ranked.rank, ranked.reward, ranked.advantage, ranked.score, ranked.verified


def table(ranking: GroupRanking) -> dict[tuple[int, int], tuple[float, float]]:
    orders = ((m.a, m.b, first, scores) for m in ranking.matches for first, scores in zip(m.shown_first, m.scores))  # noqa: B905
    return {(first, b if first == a else a): scores for a, b, first, scores in orders}


@pytest.mark.nightly
@given(
    st.integers(0, 999), st.sampled_from(["arena", "round_robin", "cyclic", "swiss"]), st.sampled_from(["both", None])
)
@settings(max_examples=6, deadline=None)
def test_groups_of_any_size_and_topology_get_what_rank_many_makes_of_their_calls(seed: int, topology: Any, order: Any):
    rules, rng = replace(POOLED, topology=topology, order=order), random.Random(seed)
    groups = [[a_rollout(i) for i in range(rng.randint(2, 6))] for _ in range(70)]
    before = [ranked(f"q{at:03}", rollouts, rules, seed + at) for at, rollouts in enumerate(groups)]
    assert all(ranking.provisional for ranking in before)
    after = told(before)
    assert not any(ranking.provisional for ranking in after)
    for ranking, expected in zip(after, rank_many([table(r) for r in before]), strict=True):
        assert [r.rank for r in ranking.rollouts] == list(expected.ranks)
        assert [r.score for r in ranking.rollouts] == pytest.approx(list(expected.scores), abs=1e-6)
        assert [r.uncertainty for r in ranking.rollouts] == pytest.approx(list(expected.uncertainty), abs=1e-5)
        assert [r.p_best for r in ranking.rollouts] == pytest.approx(list(expected.p_best), abs=1e-3)
    backwards = told(before[::-1])[::-1]
    assert [r.model_copy(update={"estimator": ""}) for r in backwards] == [
        r.model_copy(update={"estimator": ""}) for r in after
    ]


@given(st.integers(0, 999), st.sampled_from(["arena", "double", "cyclic"]), st.sampled_from(ESTIMATORS))
@settings(max_examples=3, deadline=None)
def test_beside_an_estimator_without_a_fit_places_count_at_once_and_probabilities_come_from_all_groups(
    seed: int, topology: Any, estimator: Any
):
    rules, rng = Rules(estimator=estimator, one_of_many=True, topology=topology), random.Random(seed)
    groups = [[a_rollout(i) for i in range(rng.choice((2, 5)))] for _ in range(12)]
    before = [ranked(f"q{at:03}", rollouts, rules, seed + at) for at, rollouts in enumerate(groups)]
    after = told(before, rules)
    assert {(r.provisional, r.secondary_fit) for r in before} == {(True, "margins")}
    assert {(r.provisional, r.secondary_fit) for r in after} == {(False, "pooled")}
    for first, ranking, pooled in zip(before, after, rank_many([table(r) for r in before]), strict=True):
        assert [place(r) for r in ranking.rollouts] == [place(r) for r in first.rollouts]
        level = ranking.signal == "none"  # rank_many says how far the prior alone draws them apart
        margins = [0.0] * len(ranking.rollouts) if level else list(pooled.scores)
        assert [r.margin for r in ranking.rollouts] == pytest.approx(margins, abs=1e-6)
        assert [r.uncertainty for r in ranking.rollouts] == pytest.approx(list(pooled.uncertainty), abs=1e-5)
        assert [r.p_best for r in ranking.rollouts] == pytest.approx(list(pooled.p_best), abs=1e-3)
        assert ranking.signal == pooled.signal
    assert told(after[::-1], rules)[::-1] == after, "told again, or in another order, they say the same"


def test_a_group_alone_goes_by_what_is_known_of_any_judge_and_waits_for_no_other():
    alone = replace(POOLED, estimator="tiers", one_of_many=False)
    for rules in (alone, replace(alone, estimator="wins")):
        ranking = ranked("q", [a_rollout(i) for i in range(5)], rules, 3)
        (pooled,) = rank_many([table(ranking)])
        assert (ranking.provisional, ranking.secondary_fit, ranking.signal) == (False, "pooled", pooled.signal)
        assert [r.p_best for r in ranking.rollouts] == pytest.approx(list(pooled.p_best), abs=1e-3)
        assert [r.margin for r in ranking.rollouts] == pytest.approx(list(pooled.scores), abs=1e-6)


def test_beside_a_fit_margins_stays_the_secondary_fit_and_nothing_waits():
    ranking = ranked("q", [a_rollout(i) for i in range(4)], replace(POOLED, estimator="bt"), 5)
    margins = rank_many([table(ranking)], "margins")[0]
    assert (ranking.provisional, ranking.secondary_fit, ranking.signal) == (False, "margins", margins.signal)
    assert [r.margin for r in ranking.rollouts] == pytest.approx(list(margins.scores), abs=1e-6)


def test_a_judge_who_gives_one_score_to_all_leaves_all_level_in_the_secondary_fit_too():
    rules, jury = replace(POOLED, estimator="tiers", topology="arena"), a_jury(ScriptedJudge(lambda a, b: (2.2, 2.2)))
    level = anyio.run(lambda: rank_group(a_group([a_rollout(i) for i in range(5)]), jury, rules, random.Random(1)))
    for ranking in (level, *told([level, ranked("other", [a_rollout(i) for i in range(4)], rules, 2)], rules)[:1]):
        assert {(r.rank, r.margin, r.p_best, r.p_above_mean) for r in ranking.rollouts} == {(2, 0, None, None)}
        assert ranking.signal == "none"


def test_classes_of_equal_reward_keep_their_places_and_only_the_best_class_can_be_best():
    rules = replace(POOLED, estimator="tiers", judge_when="tied")
    rollouts = [a_rollout(i).model_copy(update={"verified": float(i % 2)}) for i in range(4)]
    before = [
        ranked(name, [*rollouts, a_rollout(4, failed="max_turns")], rules, seed) for seed, name in enumerate("ab")
    ]
    for first, ranking in zip(before, told(before, rules), strict=True):
        assert [place(r) for r in ranking.rollouts] == [place(r) for r in first.rollouts]
        assert [(r.p_best or 0) > 0 for r in ranking.rollouts] == [False, True, False, True, False]
        assert ranking.signal == "ok"


def test_failed_rollouts_stay_last_and_those_of_another_reward_stay_in_their_class():
    rules = replace(POOLED, judge_when="tied")
    verified = [1.0, 0.0, 1.0, 0.0]
    rollouts = [a_rollout(i).model_copy(update={"verified": v}) for i, v in enumerate(verified)]
    rollouts += [a_rollout(4, failed="max_turns"), a_rollout(5, failed="api")]
    before = [ranked(name, rollouts, rules, seed) for seed, name in enumerate("abcd")]
    for ranking in told(before, rules):
        ranks = [r.rank for r in ranking.rollouts]
        assert sorted(r for r in (ranks[0], ranks[2]) if r is not None) in ([0, 1], [0.5, 0.5])
        assert (ranks[4], ranks[5]) == (4, None)
        assert [r.verified for r in ranking.rollouts] == [*verified, None, None]
        assert ranking.signal == "ok"
    plain = [ranked(name, [*rollouts[:3], rollouts[4]], POOLED, seed) for seed, name in enumerate("ab")]
    assert [ranking.rollouts[3].rank for ranking in told(plain)] == [3, 3]


def test_verdicts_that_are_missing_leave_out_what_they_do_not_connect_and_nothing_else():
    rules = replace(POOLED, topology="cyclic", order="balanced")
    before = [ranked(f"q{s}", [a_rollout(i) for i in range(4)], rules, s, fails=0.5) for s in range(30)]
    after = told(before, rules)
    unranked = [ranking for ranking in after if ranking.rollouts[0].rank is None]
    assert 0 < len(unranked) < 30
    assert [r.rollouts[0].rank is None for r in after] == [r.rollouts[0].rank is None for r in before]
    assert [r.status for r in after] == [r.status for r in before]
    assert [r.notes for r in after] == [r.notes for r in before]


def test_groups_of_one_rollout_or_of_none_pass_through():
    alone = ranked("one", [a_rollout(0)], POOLED, 0)
    nobody = ranked("none", [a_rollout(0, failed="api")], POOLED, 0)
    several = ranked("some", [a_rollout(i) for i in range(3)], POOLED, 0)
    one, none, some = told([alone, nobody, several])
    assert ([r.rank for r in one.rollouts], [r.rank for r in none.rollouts]) == ([0], [None])
    assert all(r.rank is not None for r in some.rollouts)
    assert told([nobody])[0].rollouts == nobody.rollouts


@pytest.mark.few(1)
@pytest.mark.parametrize("n", [4, 8])
def test_of_equally_good_rollouts_scattered_among_others_at_most_one_in_twenty_has_a_signal(n: int):
    rng = random.Random(n)
    pairs = [order for pairing in Cyclic(range(n)).pairings() for order in pairing.orders]

    def scores(spread: float) -> dict[tuple[int, int], tuple[float, float]]:
        level = [6 + spread * rng.gauss(0, 1) for _ in range(n)]
        return {(i, j): (level[i] + rng.gauss(0, 0.8), level[j] + rng.gauss(0, 0.8)) for i, j in pairs}

    rankings = rank_many([scores(1.0 if at % 8 else 0.0) for at in range(800)])
    equal, real = ([r.signal == "ok" for r in rankings[start::8]] for start in (0, 1))
    assert sum(equal) <= 0.05 * len(equal) + 2  # 100 groups: two more are chance
    assert sum(real) >= 0.6 * len(real)


def test_groups_whose_judge_sticks_to_the_ends_of_the_scale_say_so_alone_and_in_a_pool():
    def at_the_end(first: str, second: str) -> tuple[float, float]:
        return 10.0, 10.0 if first < second else 6.0

    rollouts = [a_rollout(i) for i in range(4)]
    for rules in (POOLED, replace(POOLED, one_of_many=False)):
        jury = a_jury(ScriptedJudge(at_the_end))
        first = anyio.run(lambda rules=rules, jury=jury: rank_group(a_group(rollouts), jury, rules, random.Random(1)))
        (ranking,) = told([first]) if first.provisional else [first]
        assert [note for note in ranking.notes if "ceiling: 75 % of the judge's scores" in note], ranking.notes
    assert not any("ceiling" in note for note in told([ranked("q", rollouts, POOLED, 3)])[0].notes)
