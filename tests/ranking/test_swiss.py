"""`swiss`: log2 n rounds in which equals meet."""

import random
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import rankdata  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]

from harness.ranking.estimators import tiers
from harness.ranking.fixed_pairs import Swiss
from harness.ranking.rewards import place
from tests.ranking.playing import Field, play, singles


@given(singles())
def test_in_log2_n_rounds_everyone_plays_and_no_two_meet_again(field: Field) -> None:
    swiss, n = Swiss(field.entrants), len(field.entrants)
    play(swiss, field.table, field.replies)
    rounds = (n - 1).bit_length()
    assert Counter(p.pairing.round for p in swiss.matches) == dict.fromkeys(range(1, rounds + 1), n // 2)
    assert len({frozenset((p.pairing.a, p.pairing.b)) for p in swiss.matches}) == len(swiss.matches)
    plays = Counter(e for p in swiss.matches for e in (p.pairing.a, p.pairing.b))
    assert all(rounds - (n % 2) <= plays[e] <= rounds for e in field.entrants)


@given(singles())
def test_the_first_bye_falls_to_the_best_seed_and_none_has_two_before_all_have_one(field: Field) -> None:
    swiss, n = Swiss(field.entrants), len(field.entrants)
    play(swiss, field.table, field.replies)
    plays = dict.fromkeys(field.entrants, 0) | Counter(e for p in swiss.matches for e in (p.pairing.a, p.pairing.b))
    first_round = {e for p in swiss.matches if p.pairing.round == 1 for e in (p.pairing.a, p.pairing.b)}
    assert set(field.entrants) - first_round == (set(field.entrants[:1]) if n % 2 else set())
    assert max(plays.values()) - min(plays.values()) <= 1


@given(singles(8), st.integers(0, 12))
def test_more_rounds_than_opponents_repeat_matches_with_their_scores(field: Field, rounds: int) -> None:
    swiss, n = Swiss(field.entrants, rounds=rounds), len(field.entrants)
    judged = play(swiss, field.table, field.replies)
    assert len(swiss.matches) == rounds * (n // 2)
    assert len({frozenset((p.a, p.b)) for p in judged}) == len(judged)


@given(singles(16))
def test_a_round_waits_for_the_whole_one_before(field: Field) -> None:
    swiss = Swiss(field.entrants)
    while pairings := swiss.pairings():
        assert len({p.round for p in pairings}) == 1
        swiss.record(pairings[-1], *field.table(pairings[-1].a, pairings[-1].b))


Judge = Callable[[float, float], tuple[float, float]]
KNOWING: dict[str, Judge] = {
    "only who won": lambda own, other: (float(own > other), float(other > own)),
    "margin and level": lambda own, other: (round(own, 1), round(other, 1)),
    "margin, level shared with the opponent": lambda own, other: (
        round(6 + 1.125 * own - 0.375 * other, 1),
        round(6 + 1.125 * other - 0.375 * own, 1),
    ),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("judge", KNOWING)
@pytest.mark.parametrize("n", [8, 9])
def test_a_perfect_judge_s_ranking_by_tiers_correlates_at_least_0_9_with_the_truth(judge: str, n: int) -> None:
    rng, correlations = random.Random(11), list[float]()
    for _ in range(400):
        truth = [rng.gauss(0, 1) for _ in range(n)]
        swiss = Swiss(rng.sample(range(n), n))

        def table(a: int, b: int, truth: list[float] = truth) -> tuple[Fraction, Fraction]:
            own, other = KNOWING[judge](truth[a], truth[b])
            return Fraction(repr(own)), Fraction(repr(other))

        play(swiss, table)
        places = place(tiers(swiss.standings()))
        ranks = rankdata([places[i].rank for i in range(n)])  # spearmanr takes ten times as long
        correlations.append(float(np.corrcoef(rankdata([-q for q in truth]), ranks)[0, 1]))
    assert fmean(correlations) >= 0.9
