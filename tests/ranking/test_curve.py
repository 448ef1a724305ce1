"""Designs played on stored verdicts: as a tournament plays them, and measured by verdicts that they did not use."""

from itertools import combinations, permutations
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core.rankings import Match
from harness.ranking.curve import (
    CurveDesign,
    VerdictTable,
    designs,
    frontier,
    held_out,
    holds_every_pair,
    play_design,
    verdict_curve,
    verdict_scores,
)
from harness.ranking.estimators import ESTIMATORS
from harness.ranking.judge_stats.agreement import preferences
from harness.ranking.pooled import fit_alone, fit_pooled
from harness.ranking.score_table import rank_scores
from harness.ranking.topologies import calls_bounds

SIZES = st.integers(2, 9)
SEEDS = st.integers(0, 10**6)


def a_table(n: int, seed: int, *, both: bool = True, noise: float = 2.0, anchored: bool = True) -> VerdictTable:
    """Entrants 10, 11, ... of which each is better than the one before, and a judge that errs."""
    rng = Random(seed)
    entrants = tuple(range(10, 10 + n))
    orders = permutations(entrants, 2) if both else (rng.choice([(a, b), (b, a)]) for a, b in combinations(entrants, 2))

    def score(entrant: int) -> float:
        return round(entrant - 10 + rng.gauss(0, noise), 1) if noise else float(entrant)

    scores = {(a, b): (score(a), score(b)) for a, b in orders}
    truth = preferences({entrant: float(entrant) for entrant in entrants})
    return VerdictTable(entrants, 10 if anchored else None, scores, 1, tuple(truth))


def all_designs(table: VerdictTable, *, held: bool = False) -> list[CurveDesign]:
    anchored = table.anchor is not None
    return list(designs([len(table.entrants)], both_orders=table.both_orders, held_out=held, anchored=anchored))


@settings(max_examples=3)
@given(SIZES, SEEDS, st.booleans(), st.booleans())
def test_every_design_plays_on_what_is_there_for_as_many_calls_as_it_is_said_to_take(
    n: int, seed: int, both: bool, anchored: bool
):
    table = a_table(n, seed, both=both, anchored=anchored)
    assert holds_every_pair(table.scores, table.entrants, both_orders=both)
    every = [(design, play_design(table, design, seed)) for design in all_designs(table)]
    for (design, played), fit in zip(every, fit_pooled([played.calls for _, played in every]), strict=True):
        low, high = calls_bounds(design.topology, n, design.order, design.budget(n))
        assert low <= len(played.orders) <= high
        assert played.orders <= table.scores.keys()
        ranks = played.ranks(fit)
        assert set(ranks) == set(ESTIMATORS)
        assert all(set(of_entrants) == set(table.entrants) for of_entrants in ranks.values())
        assert play_design(table, design, seed) == played


@settings(max_examples=5)
@given(SIZES, SEEDS, st.sampled_from(["wins", "margins", "bt", "pooled"]))
def test_a_round_robin_in_both_orders_ranks_as_rank_scores_does_whatever_the_seed(n: int, seed: int, estimator: str):
    table = a_table(n, seed)
    played = play_design(table, CurveDesign("round_robin", "both"), seed)
    plain = {(a - 10, b - 10): scores for (a, b), scores in table.scores.items()}
    ranks = rank_scores(plain, "round_robin", estimator).ranks
    by_estimator = played.ranks(fit_alone(played.calls))
    assert [by_estimator[estimator][entrant] for entrant in table.entrants] == list(ranks)  # pyright: ignore[reportArgumentType]


@settings(max_examples=5)
@given(SIZES, SEEDS)
def test_held_out_verdicts_are_one_a_pair_and_none_that_the_design_used(n: int, seed: int):
    table = a_table(n, seed)
    for design in all_designs(table, held=True):
        used = play_design(table, design, seed).orders
        kept = held_out(table, used, seed)
        assert len({frozenset(pair) for pair in kept}) == len(kept) <= table.pairs
        for better, worse in kept:
            left = [order for order in ((better, worse), (worse, better)) if order not in used]
            leads = {order: table.scores[order][0] - table.scores[order][1] - table.first_lead for order in left}
            assert any((lead > 0) == (order == (better, worse)) for order, lead in leads.items())


def test_a_judge_without_error_is_followed_by_every_full_design_and_a_design_of_less_keeps_less():
    tables = [a_table(8, seed, noise=0) for seed in range(3)]
    curve = verdict_curve(tables, all_designs(tables[0]), held=False, seed=0, plays=1)
    assert curve
    assert curve.reference.tau.value == curve.reference.calls / 56 == 1
    assert all(
        point.tau.value == 1
        for point in curve.points
        if point.design.order == "both" and point.design.topology == "round_robin"
    )
    assert curve.chosen
    assert curve.chosen.calls < 28
    assert curve.chosen.keeps
    assert curve.chosen.keeps.value >= 0.9


def test_more_calls_of_a_noisy_judge_agree_better_and_the_same_seed_gives_the_same_curve():
    tables = [a_table(8, seed, noise=4) for seed in range(5)]
    curve = verdict_curve(tables, all_designs(tables[0]), held=False, seed=7, plays=1)
    assert curve
    first, again = (verdict_curve(tables[:2], all_designs(tables[0]), held=False, seed=7, plays=1) for _ in range(2))
    assert first == again
    best = {point.calls: point.tau.value for point in frontier(curve.points)}
    assert best[7] < curve.reference.tau.value == best[56] < 1
    assert list(best) == sorted(best)
    held = verdict_curve(tables, all_designs(tables[0], held=True), held=True, seed=7, plays=1)
    assert held
    assert held.reference.calls == 28
    assert 0 < held.reference.tau.value < curve.reference.tau.value, "the truth itself errs"


def test_a_judge_of_the_first_side_only_gives_no_curve():
    table = a_table(6, 1)
    first_side = VerdictTable(table.entrants, 10, dict.fromkeys(table.scores, (8.0, 3.0)), 1, ())
    assert verdict_curve([first_side], all_designs(first_side, held=True), held=True, seed=0, plays=1) is None
    assert verdict_curve([first_side], all_designs(first_side), held=False, seed=0, plays=1) is None


@given(st.integers(3, 7), SEEDS, st.floats(-5, 5))
def test_what_standing_first_is_worth_does_not_change_what_is_held_out(n: int, seed: int, worth: float):
    table = a_table(n, seed)
    leaning = {order: (first + worth, second) for order, (first, second) in table.scores.items()}
    ties = {order for scores in (table.scores, leaning) for order, (a, b) in scores.items() if abs(a - b) < 1e-6}
    without_ties = [
        {pair for pair in held_out(each, frozenset(), seed) if not {pair, pair[::-1]} & ties}
        for each in (table, VerdictTable(table.entrants, 10, leaning, 1))
    ]
    assert without_ties[0] == without_ties[1]


def test_scores_of_an_order_are_the_mean_over_repeats_and_repeated_matches_do_not_count():
    match = Match(
        round=1,
        a=0,
        b=1,
        verdicts=("k", "l", "m"),
        shown_first=(0, 0, 1),
        scores=((6, 5), (8, 5), (4, 7)),
        score_a=7,
        score_b=4.5,
        winner=0,
        flipped=False,
        inconsistent=False,
    )
    assert verdict_scores([match, match.model_copy(update={"repeated": True})]) == ({(0, 1): (7, 5), (1, 0): (4, 7)}, 2)


@pytest.mark.parametrize("n", [2, 3, 4, 8])
def test_no_two_budgets_of_a_curve_are_the_same(n: int):
    budgets = [d.budget(n) for d in designs([n], both_orders=True, held_out=False, anchored=True) if d.share]
    assert len(set(budgets)) == len(budgets)
