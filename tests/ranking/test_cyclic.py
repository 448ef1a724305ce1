"""`cyclic`: a budget spread evenly over the pairs, sides balanced, then second orders of the closest."""

from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.ranking.fixed_pairs import (
    Cyclic,
    RoundRobin,
    balanced_sides,
    circle_round,
    distances,
    pairs_by_distance,
    usual_budget,
)
from harness.ranking.topologies import describe_design
from tests.ranking.playing import Field, arenas, play

sizes = st.integers(1, 64)


@given(sizes)
def test_the_circle_names_every_pair_once_and_every_distance_once(n: int) -> None:
    pairs = [frozenset((i, j)) for i, j, _ in pairs_by_distance(n)]
    assert len(set(pairs)) == len(pairs) == n * (n - 1) // 2
    assert sorted(distances(n)) == list(range(1, n // 2 + 1))
    assert n < 2 or distances(n)[0] == 1


@given(sizes, st.data())
def test_any_beginning_of_the_design_gives_all_as_many_matches_within_two(n: int, data: st.DataObject) -> None:
    pairs = list(pairs_by_distance(n))
    begun = pairs[: data.draw(st.integers(0, len(pairs)))]
    counts = Counter(e for i, j, _ in begun for e in (i, j))
    assert max(counts.values(), default=0) - min((counts[e] for e in range(n)), default=0) <= 2


@given(st.integers(2, 64))
def test_n_minus_1_matches_connect_everyone(n: int) -> None:
    known = {0}
    edges = [(i, j) for i, j, _ in pairs_by_distance(n)][: n - 1]
    for _ in range(n):
        known |= {e for edge in edges if known & set(edge) for e in edge}
    assert known == set(range(n))


@given(sizes)
def test_over_all_pairs_no_one_stands_first_more_than_once_more_often_than_second(n: int) -> None:
    first, second = Counter[int](), Counter[int]()
    for topology in (Cyclic(range(n), budget=n * n), RoundRobin(range(n), "balanced")):
        first.clear()
        second.clear()
        for pairing in topology.pairings():
            ((one, other),) = pairing.orders
            first[one] += 1
            second[other] += 1
        assert all(abs(first[e] - second[e]) <= 1 for e in range(n))


@pytest.mark.parametrize(("n", "ahead"), [(7, 3), (8, 3), (9, 4)])
def test_each_stands_first_against_the_next_and_the_diameter_alternates(n: int, ahead: int) -> None:
    for i in range(n):
        assert all(balanced_sides(i, (i + d) % n, n) == (i, (i + d) % n) for d in range(1, ahead + 1))
    if n % 2 == 0:
        assert [balanced_sides(i, i + n // 2, n)[0] for i in range(4)] == [0, 5, 2, 7]


@given(st.integers(2, 64))
def test_in_a_round_of_the_round_robin_everyone_plays_once(n: int) -> None:
    rounds: dict[int, list[int]] = {}
    for j in range(n):
        for i in range(j):
            rounds.setdefault(circle_round(i, j, n), []).extend((i, j))
    assert sorted(rounds) == list(range(1, n + n % 2))
    assert all(len(set(who)) == len(who) == n - n % 2 for who in rounds.values())


@given(arenas(12), st.data())
def test_what_is_left_when_all_pairs_have_met_goes_to_the_other_order_of_the_closest(
    field: Field, data: st.DataObject
) -> None:
    n = len(field.entrants)
    pairs = n * (n - 1) // 2
    extra = data.draw(st.integers(0, pairs))
    cyclic = Cyclic(field.entrants, budget=max(1, pairs + extra))
    judged = play(cyclic, field.table, field.replies)
    first, second = judged[:pairs], judged[pairs:]
    assert len(second) == extra
    again = {(p.b, p.a) for p in second}
    assert again <= {(p.a, p.b) for p in first}
    assert all(p.orders == ((p.a, p.b),) for p in judged)
    leads = {(p.a, p.b): field.table(p.a, p.b)[0] - field.table(p.a, p.b)[1] for p in first}
    mean = sum(leads.values(), Fraction()) / max(1, len(leads))
    near = [abs(leads[o] - mean) for o in again]
    far = [abs(leads[o] - mean) for o in leads.keys() - again]
    assert not near or not far or max(near) <= min(far)


def test_a_second_order_waits_for_the_whole_first_pass() -> None:
    cyclic = Cyclic(range(4), budget=8)
    pairings = list(cyclic.pairings())
    assert len(pairings) == 6
    for pairing in pairings[:-1]:
        cyclic.record(pairing, Fraction(6), Fraction(5))
        assert all(p in pairings for p in cyclic.pairings())
    cyclic.record(pairings[-1], Fraction(6), Fraction(5))
    assert len(cyclic.pairings()) == 2


@pytest.mark.parametrize(("n", "calls"), [(1, 0), (2, 1), (4, 6), (8, 28), (9, 32), (16, 60), (256, 1020)])
def test_by_default_each_pair_meets_once_but_for_no_more_than_arenarl_s_calls(n: int, calls: int) -> None:
    assert usual_budget(n) == calls
    assert len(Cyclic(range(n)).pairings()) == calls


@pytest.mark.parametrize(
    ("order", "budget", "words"),
    [
        (None, None, "each of the 28 pairs in one order, sides balanced"),
        (None, 14, "14 of the 28 pairs, evenly spread, in one order, sides balanced"),
        (None, 40, "each of the 28 pairs in one order, sides balanced, then the 12 closest in the other order too"),
        (None, 99, "each of the 28 pairs in both orders"),
        ("both", 28, "14 of the 28 pairs, evenly spread, in both orders"),
        ("single", 28, "each of the 28 pairs in one order"),
    ],
)
def test_what_a_budget_is_spent_on_is_told_in_words(order: None, budget: int | None, words: str) -> None:
    assert describe_design(8, order, budget) == words


@pytest.mark.parametrize(
    ("n", "budget", "words"),
    [
        (2, 1, "the only pair in one order, sides balanced"),
        (2, 2, "the only pair in both orders"),
        (3, 4, "each of the 3 pairs in one order, sides balanced, then the closest in the other order too"),
        (80, 1500, "1,500 of the 3,160 pairs, evenly spread, in one order, sides balanced"),
    ],
)
def test_a_budget_is_told_with_the_singular_and_with_thousands_separators(n: int, budget: int, words: str) -> None:
    assert describe_design(n, None, budget) == words
