"""Honesty figures: each against an independent count, or against a judge whose faults are known."""

import itertools
import math
import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from harness.core.rankings import GroupRanking, Judged, Match
from harness.ranking.judge_stats.agreement import Share, kappa
from harness.ranking.judge_stats.orders import order_sums
from harness.ranking.judge_stats.tally import JudgeCall, Tally, judge_calls, tally
from tests.builders import a_judged

Judge = Callable[[int, int], tuple[float, float]]
"""From the entrants in the order shown to their scores."""


def judged(n: int, judge: Judge, *, both: bool = True, lengths: dict[int, int] | None = None) -> list[JudgeCall]:
    """Every pair among `n`, in both orders or with the lower index first."""
    pairs = itertools.permutations(range(n), 2) if both else itertools.combinations(range(n), 2)
    told = lengths or {}
    return [
        JudgeCall(f"t{i:03}", f"t{j:03}", *judge(i, j), length_first=told.get(i), length_second=told.get(j))
        for i, j in pairs
    ]


def by_quality(bias: float = 0.0) -> Judge:
    return lambda i, j: (5 - 0.3 * i + bias / 2, 5 - 0.3 * j - bias / 2)


def always_first(i: int, j: int) -> tuple[float, float]:
    marks = random.Random(31 * i + j)
    return 7 + marks.randrange(4), 1 + marks.randrange(5)


tables = st.integers(2, 7).flatmap(
    lambda n: st.lists(
        st.tuples(st.integers(0, 10), st.integers(0, 10)), min_size=n * (n - 1), max_size=n * (n - 1)
    ).map(lambda scores: (n, dict(zip(itertools.permutations(range(n), 2), scores, strict=True))))
)


@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_interval_is_wilsons_as_scipy_has_it(share: tuple[int, int]):
    expected = stats.binomtest(*share).proportion_ci(0.95, method="wilson")
    assert Share(*share).interval == pytest.approx((expected.low, expected.high), abs=1e-12)
    assert Share(*share).holds(share[0] / share[1])


def test_a_share_of_nothing_has_no_value_and_excludes_nothing():
    assert Share().value is None
    assert Share().interval == (0.0, 1.0)


def test_kappa_of_a_textbook_table_and_of_its_limits():
    table = {("yes", "yes"): 20, ("yes", "no"): 5, ("no", "yes"): 10, ("no", "no"): 15}
    assert kappa([pair for pair, n in table.items() for _ in range(n)]) == pytest.approx(0.4)
    assert kappa([("a", "a"), ("b", "b"), ("tie", "tie")]) == 1
    assert kappa([("a", "b"), ("b", "a")]) == -1
    assert kappa([("a", "a")]) is None
    assert kappa([]) is None


def test_a_judge_that_names_whoever_is_first_flips_every_pair():
    found = tally(judged(6, always_first))
    assert found.flips == Share(15, 15)
    assert found.first_wins == Share(30, 30)
    assert found.first_side_is_real


@pytest.mark.parametrize(("bias", "sees"), [(0.0, True), (2.0, True), (9.0, True)])
def test_what_standing_first_is_worth_takes_no_information_from_a_judge(bias: float, sees: bool):
    seen = tally(judged(8, by_quality(bias=bias))).orders
    assert (seen.information.interval[0] > 0.9, seen.position_decides) == (sees, False)


def test_a_judge_that_names_whoever_is_first_has_no_information_and_the_position_decides():
    for n in (3, 6):
        seen = tally(judged(n, always_first)).orders
        assert (seen.information.value or 0) <= 0
        assert seen.position_decides


@given(tables)
def test_information_is_the_correlation_of_the_leads_each_pair_entered_both_ways(table):
    n, scores = table
    lead = {pair: a - b for pair, (a, b) in scores.items()}
    pairs = list(itertools.combinations(range(n), 2))
    forth, back = (np.array([sign * lead[pair[::sign]] for pair in pairs]) for sign in (1, -1))
    gain = (forth - back).mean() / 2
    forth, back = forth - gain, back + gain
    seen = tally(judged(n, lambda i, j: scores[i, j])).orders.information
    assert seen.pairs == len(pairs)
    assert seen.interval[0] <= (seen.value or 0) <= seen.interval[1]
    if len(pairs) > 5 and (spread := (forth @ forth + back @ back) / 2) > 9:
        assert seen.value == pytest.approx(forth @ back / spread, abs=1.2 / len(pairs))


def test_a_constant_bias_is_found_to_its_size_and_makes_no_cycle():
    found = tally(judged(8, by_quality(bias=2.0)))
    assert found.first_side is not None
    assert found.first_side[0] == pytest.approx(2.0, abs=0.05)
    assert found.first_side_is_real
    assert found.cycles == Share(0, 56)


def test_a_judge_without_bias_shows_none():
    found = tally(judged(8, by_quality()))
    assert found.first_side == pytest.approx((0, 0), abs=0.1)
    assert not found.first_side_is_real
    assert found.flips == Share(0, 28)
    assert found.first_wins == Share(28, 56)


@given(tables)
def test_flips_ties_first_wins_and_cycles_are_what_counting_one_by_one_gives(table):
    n, scores = table
    found = tally(judged(n, lambda i, j: scores[i, j]))
    lead = {(i, j): a - b for (i, j), (a, b) in scores.items()}
    pairs = list(itertools.combinations(range(n), 2))
    assert found.flips == Share(sum(lead[i, j] * lead[j, i] > 0 for i, j in pairs), len(pairs))
    assert found.ties == Share(sum(m == 0 for m in lead.values()), len(lead))
    assert found.first_wins == Share(sum(m > 0 for m in lead.values()), sum(m != 0 for m in lead.values()))
    net = {(i, j): lead[i, j] - lead[j, i] for i, j in lead}
    triples = list(itertools.combinations(range(n), 3))
    cyclic = sum(all(s * net[p] > 0 for p in ((i, j), (j, k), (k, i))) for i, j, k in triples for s in (1, -1))
    assert found.cycles == Share(cyclic, len(triples))


@given(tables)
def test_swapping_the_sides_of_every_call_turns_the_position_figures_round(table):
    n, scores = table
    one = tally(judged(n, lambda i, j: scores[i, j]))
    other = tally(judged(n, lambda i, j: scores[j, i][::-1]))
    assert other.flips == one.flips
    assert other.first_wins.part == one.first_wins.whole - one.first_wins.part
    assert one.first_side
    assert other.first_side
    assert other.first_side[0] == pytest.approx(-one.first_side[0], abs=1e-9)
    assert other.cycles == one.cycles


@given(st.lists(st.tuples(st.integers(0, 10), st.integers(1, 30)), min_size=3, max_size=9))
def test_the_correlation_with_length_is_spearmans(answers):
    score, length = dict(enumerate(a for a, _ in answers)), dict(enumerate(b for _, b in answers))
    found = tally(judged(len(answers), lambda i, j: (score[i], score[j]), lengths=length)).length_correlation
    if len(set(score.values())) == 1 or len(set(length.values())) == 1:
        assert found is None
    else:
        assert found == pytest.approx(stats.spearmanr(list(score.values()), list(length.values()))[0])


def test_length_is_compared_within_a_group_and_never_between_groups():
    short = tally(judged(3, lambda i, j: (i, j), lengths={0: 1, 1: 2, 2: 3}))
    long = tally(judged(3, lambda i, j: (9 - i, 9 - j), lengths={0: 100, 1: 101, 2: 102}))
    assert short.length_correlation == pytest.approx(1)
    assert (short + long).length_correlation == pytest.approx(0)


def test_a_judge_that_gives_8_to_everything_is_named():
    assert tally(judged(4, lambda _i, _j: (8, 8.4))).flat_mark == (8, 1.0)
    assert tally(judged(4, by_quality())).flat_mark is None
    assert tally(judged(2, lambda _i, _j: (8, 8))).flat_mark is None  # four sides say nothing


def test_marks_are_rounded_half_up():
    assert tally([JudgeCall("a", "b", 7.5, 6.5)]).marks == {7: 1, 8: 1}


def test_what_was_asked_again_measures_the_judges_own_noise():
    calls = [JudgeCall("a", "b", 5 + lead, 5, repeat=k) for k, lead in enumerate((1.0, -1.0, 3.0))]
    found = tally(calls)
    assert found.self_noise == pytest.approx(np.std([1, -1, 3], ddof=1))
    assert found.disagreements == Share(1, 2)
    assert tally(calls[:1]).self_noise is None


def test_repeats_of_a_pair_count_as_one_pair_by_their_mean():
    calls = [JudgeCall("a", "b", 9, 5), JudgeCall("a", "b", 4, 5, repeat=1), JudgeCall("b", "a", 3, 5)]
    assert tally(calls).flips == Share(0, 1)


@given(tables, tables)
def test_groups_add_up_in_any_order(one, other):
    first, second = (tally(judged(n, lambda i, j, s=scores: s[i, j])) for n, scores in (one, other))
    assert (first + second).flips.whole == first.flips.whole + second.flips.whole
    there, back = first + second, second + first
    assert (there.verdicts, there.marks, there.flips) == (back.verdicts, back.marks, back.flips)
    assert there.first_side == pytest.approx(back.first_side)
    assert first + Tally() == first


@pytest.mark.parametrize("bias", [0.0, 3.0])
def test_one_order_would_do_where_all_pairs_share_the_bias_however_large(bias):
    noise = np.random.default_rng(4)

    def judge(i: int, j: int) -> tuple[float, float]:
        return 5 - 0.4 * i + bias / 2 + noise.normal(0, 0.5), 5 - 0.4 * j - bias / 2 + noise.normal(0, 0.5)

    advice = tally(judged(16, judge)).orders.advice
    assert advice.verdict == "one order"
    assert (advice.saves, advice.of, advice.rough) == (120, 240, False)
    assert advice.ratio == pytest.approx(1, abs=0.3)


def test_both_orders_stay_where_the_bias_differs_from_pair_to_pair():
    noise = np.random.default_rng(5)
    pull = {pair: noise.normal(0, 2) for pair in itertools.combinations(range(10), 2)}

    def judge(i: int, j: int) -> tuple[float, float]:
        bias = pull[min(i, j), max(i, j)]
        return 5 - 0.4 * i + bias / 2 + noise.normal(0, 0.3), 5 - 0.4 * j - bias / 2 + noise.normal(0, 0.3)

    advice = tally(judged(10, judge)).orders.advice
    assert (advice.verdict, advice.saves) == ("both orders", 0)


def test_preferences_that_fit_no_ranking_speak_for_one_order():
    odd = np.random.default_rng(6)
    taste = {pair: odd.normal(0, 2) for pair in itertools.combinations(range(10), 2)}

    def judge(i: int, j: int) -> tuple[float, float]:
        lead = taste[min(i, j), max(i, j)] * (1 if i < j else -1) + odd.normal(0, 0.3)
        return 5 + lead / 2, 5 - lead / 2

    assert tally(judged(10, judge)).orders.advice.verdict == "one order"


def test_few_pairs_give_no_advice():
    star = [c for c in judged(6, by_quality(1.0)) if "t000" in (c.first, c.second)]
    advice = tally(star).orders.advice  # each meets the anchor alone: no preference can misfit
    assert (advice.verdict, advice.saves, advice.of) == ("too few", 0, 10)
    assert tally(judged(6, by_quality(), both=False)).orders.pairs == 0


@given(tables)
def test_both_variances_are_those_of_the_textbook(table):
    n, scores = table
    margins = {(f"{i}", f"{j}"): float(a - b) for (i, j), (a, b) in scores.items()}
    sums = order_sums(margins)
    pairs = list(itertools.combinations(range(n), 2))
    half = [(margins[f"{i}", f"{j}"] + margins[f"{j}", f"{i}"]) / 2 for i, j in pairs]
    lead = {(i, j): (margins[f"{i}", f"{j}"] - margins[f"{j}", f"{i}"]) / 2 for i, j in pairs}
    worth = [sum(lead[p] * ((k == p[0]) - (k == p[1])) for p in pairs) / n for k in range(n)]  # of a round robin
    misfit = sum((lead[i, j] - (worth[i] - worth[j])) ** 2 for i, j in pairs)
    assert sums.position_ss == pytest.approx(np.var(half) * len(half), abs=1e-9)
    assert sums.residual_ss == pytest.approx(misfit, abs=1e-9)
    assert (sums.position_df, sums.residual_df) == (len(pairs) - 1, len(pairs) - (n - 1))


def test_the_first_side_effect_of_many_groups_is_their_mean_by_calls():
    small, large = tally(judged(3, by_quality(4.0))), tally(judged(6, by_quality(1.0)))
    both = small + large
    assert small.first_side
    assert large.first_side
    assert both.first_side
    assert both.first_side[0] == pytest.approx((6 * small.first_side[0] + 30 * large.first_side[0]) / 36)
    assert math.isfinite(both.first_side[1])


# ---- From records


def a_match(a: int, b: int, *verdicts: Judged, first: tuple[int, ...], repeated: bool = False) -> Match:
    return Match(
        round=0,
        a=a,
        b=b,
        verdicts=tuple(v.key for v in verdicts),
        shown_first=first,
        scores=((1, 0),) * len(verdicts),
        score_a=1,
        score_b=0,
        winner=a,
        flipped=False,
        inconsistent=False,
        repeated=repeated,
    )


def a_ranking(*matches: Match) -> GroupRanking:
    return GroupRanking(query="q", topology="arena", estimator="tiers", status="complete", signal="ok", matches=matches)


def test_each_verdict_counts_once_and_one_on_equal_texts_never():
    forth, back = a_judged("k1", 7, 5, first="x", second="y"), a_judged("k2", 4, 8, first="y", second="x")
    same = a_judged("k3", 6, 6, first="z", second="z")
    ranking = a_ranking(
        a_match(0, 1, forth, back, first=(0, 1)),
        a_match(0, 1, forth, back, first=(0, 1), repeated=True),
        a_match(2, 3, same, same, first=(2, 3)),
    )
    found = judge_calls(ranking, [forth, back, same], {0: 11, 1: 22})
    assert list(found) == ["scripted"]
    told = [(c.first, c.second, c.length_first, c.length_second) for c in found["scripted"]]
    assert told == [("x", "y", 11, 22), ("y", "x", 22, 11)]


def test_two_judges_are_told_apart_and_their_claims_and_repairs_counted():
    one = a_judged("k1", 7, 5, first="x", second="y", claims={"winner": "LLM_B", "combined_scores.LLM_A": 3})
    two = a_judged("k2", 7, 5, first="x", second="y", judge="other", claims={"path_scores.LLM_A": 1}, repaired=True)
    found = judge_calls(a_ranking(a_match(0, 1, one, two, first=(0, 0))), [one, two], {})
    first, second = tally(found["scripted"]), tally(found["other"])
    assert (first.claims, first.claimed_winners, first.repaired) == (Share(1, 1), 1, 0)
    assert (second.claims, second.claimed_winners, second.repaired) == (Share(1, 1), 0, 1)
