"""From sort keys to ranks, rewards and advantages; and scores as exact decimals."""

import math
import statistics
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.ranking.estimators import tiers
from harness.ranking.rewards import advantages, place, rewards
from harness.ranking.topology import Standing, exact

KEYS = st.lists(st.integers(0, 6), max_size=33).map(lambda values: dict(enumerate(values)))
FAILED = st.sets(st.integers(100, 120), max_size=6).map(sorted)


@given(KEYS)
def test_ties_share_the_average_of_the_ranks_that_they_take_up(keys: dict[int, int]) -> None:
    for entrant, placed in place(keys).items():
        better = sum(key > keys[entrant] for key in keys.values())
        tied = sum(key == keys[entrant] for key in keys.values())
        taken = range(better, better + tied)
        assert placed.rank == sum(taken) / len(taken)


@given(KEYS, FAILED, st.booleans())
def test_the_reward_falls_from_one_to_nought_with_the_rank_over_all_who_are_ranked(
    keys: dict[int, int], failed: list[int], tied: bool
) -> None:
    placed = place(keys, failed, tied=tied)
    m = len(keys) + len(failed)
    assert len(placed) == m
    assert math.isclose(sum(p.rank for p in placed.values()), m * (m - 1) / 2)
    for p in placed.values():
        assert p.reward == (float(1 - Fraction(p.rank) / (m - 1)) if m > 1 else 0.0)


@given(KEYS, FAILED, st.booleans())
def test_advantages_have_mean_0_and_std_1_or_are_all_exactly_0(
    keys: dict[int, int], failed: list[int], tied: bool
) -> None:
    found = [p.advantage for p in place(keys, failed, tied=tied).values()]
    if len({p.reward for p in place(keys, failed, tied=tied).values()}) <= 1:
        assert found == [0.0] * len(found)
    else:
        assert math.isclose(statistics.fmean(found), 0, abs_tol=1e-12)
        assert math.isclose(statistics.pstdev(found), 1, abs_tol=1e-6)


@given(KEYS, FAILED.filter(bool))
def test_the_failed_rank_last_together_and_count_among_the_ranked(keys: dict[int, int], failed: list[int]) -> None:
    placed = place(keys, failed)
    last = len(keys) + (len(failed) - 1) / 2
    assert {placed[f].rank for f in failed} == {last}
    assert all(placed[k].rank < last for k in keys)


@given(KEYS, FAILED)
def test_tied_puts_all_who_ended_well_on_one_rank_above_the_failed(keys: dict[int, int], failed: list[int]) -> None:
    placed = place(keys, failed, tied=True)
    assert {placed[k].rank for k in keys} <= {(len(keys) - 1) / 2}
    assert all(placed[f].rank > placed[k].rank for f in failed for k in keys)


def test_one_ranked_alone_has_reward_0_and_advantage_0_and_no_one_is_no_place() -> None:
    (alone,) = place({3: 1}).values()
    assert (alone.rank, alone.reward, alone.advantage) == (0, 0, 0)
    assert place({}) == {}
    assert rewards([]) == advantages([]) == []


@given(st.lists(st.integers(-(10**9), 10**9), min_size=2, unique=True))
def test_a_better_key_has_the_better_rank_the_greater_reward_and_the_greater_advantage(values: list[int]) -> None:
    placed = place(dict(enumerate(values)))
    by_key = [placed[i] for i in sorted(placed, key=lambda i: values[i])]
    for worse, better in pairwise(by_key):
        assert worse.rank > better.rank
        assert worse.reward < better.reward
        assert worse.advantage < better.advantage


@given(st.integers(0, 200), st.integers(0, 200))
def test_exact_scores_add_up_as_the_decimals_they_print_as(a: int, b: int) -> None:
    assert exact(a / 10) + exact(b / 10) == Fraction(a + b, 10)


def test_exact_knows_apart_what_floats_confuse_and_as_one_what_floats_tell_apart() -> None:
    assert 0.1 + 0.2 != 0.3
    assert exact(0.1) + exact(0.2) == exact(0.3)
    assert exact(6.6) + exact(4.8) == exact(7.9) + exact(3.5)
    assert exact(0.1 + 0.2) > exact(0.3)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_exact_gives_the_float_back(score: float) -> None:
    assert float(exact(score)) == score


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf])
def test_exact_refuses_what_is_no_number(score: float) -> None:
    with pytest.raises(ValueError, match=r"nan|inf"):
        exact(score)


POINTS = st.lists(st.integers(0, 20).map(lambda half: Fraction(half, 2)), min_size=1, max_size=4).map(tuple)
STANDINGS = st.lists(
    st.tuples(st.integers(0, 3), POINTS, st.none() | st.integers(0, 10).map(Fraction)), min_size=2, max_size=9
).map(lambda rows: [Standing(i, *row) for i, row in enumerate(rows)])


@given(STANDINGS)
def test_tiers_look_at_the_round_first_then_v_then_the_seed_score(standings: list[Standing]) -> None:
    keys = tiers(standings)
    for s in standings:
        for t in standings:
            if s.round_reached != t.round_reached:
                assert (keys[s.entrant] > keys[t.entrant]) == (s.round_reached > t.round_reached)
            elif s.mean != t.mean:
                assert (keys[s.entrant] > keys[t.entrant]) == (s.mean > t.mean)
            else:
                assert (keys[s.entrant] > keys[t.entrant]) == ((s.seed_score or 0) > (t.seed_score or 0))
