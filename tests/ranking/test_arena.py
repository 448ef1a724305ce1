"""`arena`: anchor seeding, then seeded single elimination."""

import random
from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from harness.ranking.estimators import tiers
from harness.ranking.knockout import Arena, match_bounds, seeded_order
from harness.ranking.topology import Pairing
from tests.ranking.playing import Field, arenas, bracket, play, played_key

ONE, ZERO = Fraction(1), Fraction(0)


@given(arenas())
def test_an_arena_of_any_size_ends_within_its_bounds_of_judged_matches(field: Field) -> None:
    n, arena = len(field.entrants), field.arena()
    judged = play(arena, field.table, field.replies)
    fewest, most = match_bounds(n)
    assert fewest <= len(judged) <= most
    assert len(arena.matches) == 2 * (n - 1)


@given(st.integers(2, 33))
def test_an_arena_is_dearest_where_the_anchor_loses_at_once_and_cheaper_by_every_round_that_it_gets_through(
    n: int,
) -> None:
    """The anchor's bracket matches repeat its seeding matches; as the best seed it has a bye where there is any."""
    loses = play(Arena(range(n), 0), lambda a, b: (Fraction(a), Fraction(b)))
    wins = play(Arena(range(n), 0), lambda a, b: (Fraction(a == 0), Fraction(b == 0)))
    rounds, byes = (n - 1).bit_length(), n & (n - 1) != 0
    assert len(loses) == match_bounds(n)[1] == 2 * (n - 1) - 1
    assert len(wins) == 2 * (n - 1) - (rounds - byes)


@given(arenas())
def test_no_pair_is_ever_judged_twice(field: Field) -> None:
    judged = Counter(frozenset((p.a, p.b)) for p in play(field.arena(), field.table, field.replies))
    assert set(judged.values()) <= {1}


@given(arenas())
def test_a_bracket_match_that_repeats_a_seeding_match_has_its_scores(field: Field) -> None:
    arena = field.arena()
    play(arena, field.table, field.replies)
    seeding = {played_key(p)[1] for p in arena.matches if p.pairing.round == 0}
    for played in bracket(arena):
        assert played.repeated == (field.anchor in (played.pairing.a, played.pairing.b))
        assert not played.repeated or played_key(played)[1] in seeding


@given(arenas())
def test_the_champion_is_beaten_by_no_one_in_the_bracket_and_every_other_by_one(field: Field) -> None:
    arena = field.arena()
    play(arena, field.table, field.replies)
    reached = {s.entrant: s.round_reached for s in arena.standings()}
    champion = max(reached, key=lambda e: reached[e])
    losses: Counter[int] = Counter()
    for played in bracket(arena):
        a, b = played.pairing.a, played.pairing.b
        through = a if reached[a] > reached[b] else b
        losses[b if through == a else a] += 1
        scores = {a: played.score_a, b: played.score_b}
        assert scores[through] >= scores[b if through == a else a]
    assert losses == Counter({e: 1 for e in field.entrants if e != champion})


@given(arenas())
def test_a_tied_match_goes_to_the_better_seed_and_equal_seeds_to_the_lower_index(field: Field) -> None:
    arena = field.arena()
    play(arena, field.table, field.replies)
    standing = {s.entrant: s for s in arena.standings()}
    for played in bracket(arena):
        a, b = standing[played.pairing.a], standing[played.pairing.b]
        if played.score_a == played.score_b:
            better = min((a, b), key=lambda s: (-(s.seed_score or 0), s.entrant))
            assert better.round_reached == max(a.round_reached, b.round_reached) > min(a.round_reached, b.round_reached)


@given(arenas())
def test_the_byes_fall_to_the_best_seeds(field: Field) -> None:
    arena = field.arena()
    play(arena, field.table, field.replies)
    n = len(field.entrants)
    byes = (1 << (n - 1).bit_length()) - n
    best_first = sorted(arena.standings(), key=lambda s: (-(s.seed_score or 0), s.entrant))
    in_round_one = {e for p in bracket(arena) if p.pairing.round == 1 for e in (p.pairing.a, p.pairing.b)}
    assert set(field.entrants) - in_round_one == {s.entrant for s in best_first[:byes]} or n == 1


@given(arenas())
def test_the_two_best_seeds_meet_in_the_final_or_never(field: Field) -> None:
    arena = field.arena()
    play(arena, field.table, field.replies)
    best_first = sorted(arena.standings(), key=lambda s: (-(s.seed_score or 0), s.entrant))
    top = {s.entrant for s in best_first[:2]}
    met = [p.pairing.round for p in bracket(arena) if {p.pairing.a, p.pairing.b} == top]
    final = (len(field.entrants) - 1).bit_length()
    assert set(met) <= {final}


@given(st.integers(0, 7))
def test_the_best_2_to_the_k_seeds_stand_in_different_parts_of_the_bracket_for_every_k(rounds: int) -> None:
    places = seeded_order(1 << rounds)
    assert sorted(places) == list(range(1 << rounds))
    for k in range(rounds + 1):
        part = 1 << (rounds - k)
        parts = [next(s for s in places[at : at + part] if s < 1 << k) for at in range(0, len(places), part)]
        assert sorted(parts) == list(range(1 << k))
    assert all(a + b == len(places) - 1 for a, b in zip(places[::2], places[1::2], strict=False))


@given(arenas())
def test_v_is_the_mean_of_the_seed_score_and_one_point_a_bracket_match(field: Field) -> None:
    arena = field.arena()
    play(arena, field.table, field.replies)
    for standing in arena.standings():
        seeding, points = [], []
        for played in arena.matches:
            own = {played.pairing.a: played.score_a, played.pairing.b: played.score_b}
            if standing.entrant in own:
                (points if played.pairing.round else seeding).append(own[standing.entrant])
        expected = [*([sum(seeding) / Fraction(len(seeding))] if seeding else []), *points]
        assert standing.mean == (sum(expected) / Fraction(len(expected)) if expected else 0)


@given(arenas())
def test_the_outcome_does_not_depend_on_the_order_of_the_replies(field: Field) -> None:
    one, other = field.arena(), field.arena()
    play(one, field.table, field.replies)
    play(other, field.table)
    assert (one.matches, one.standings()) == (other.matches, other.standings())


@given(arenas(12), st.randoms(use_true_random=False))
def test_relabelling_the_samples_relabels_the_result(field: Field, rng: random.Random) -> None:
    """Only where seed scores differ: equal seeds are ordered by index, and a label is an index."""
    entrants = list(field.entrants)
    other = dict(zip(entrants, rng.sample(entrants, len(entrants)), strict=True))
    back = {new: old for old, new in other.items()}
    one, relabelled = field.arena(), Arena(entrants, other[field.anchor], field.order)
    play(one, field.table)
    assume(len({s.seed_score for s in one.standings()}) == len(entrants))
    play(relabelled, lambda a, b: field.table(back[a], back[b]))
    assert {other[e]: key for e, key in tiers(one.standings()).items()} == tiers(relabelled.standings())


@given(arenas(9))
def test_every_seeding_match_is_open_at_once_and_no_bracket_match_before_all_are_in(field: Field) -> None:
    arena = field.arena()
    samples = {e for e in field.entrants if e != field.anchor}
    assert {p.a for p in arena.pairings()} == samples
    while len(open_now := arena.pairings()) > 1 and not bracket(arena):
        assert {p.round for p in open_now} == {0}
        arena.record(open_now[0], ONE, ZERO)


@given(arenas(9))
def test_a_pairing_that_is_not_open_is_refused(field: Field) -> None:
    arena = field.arena()
    strangers = [Pairing(98, 99, 0, ((98, 99),)), Pairing(field.anchor, field.anchor, 1, ())]
    closed: list[Pairing] = []
    while pairings := arena.pairings():
        for pairing in [*strangers, *closed]:
            with pytest.raises(ValueError, match="no open match"):
                arena.record(pairing, ONE, ZERO)
        arena.record(pairings[0], *field.table(pairings[0].a, pairings[0].b))
        closed.append(pairings[0])
    for pairing in [*strangers, *closed]:
        with pytest.raises(ValueError, match="no open match"):
            arena.record(pairing, ONE, ZERO)


@pytest.mark.parametrize(("entrants", "anchor"), [((), 0), ((1, 2), 0), ((0, 1, 1), 0)])
def test_an_arena_needs_distinct_entrants_and_its_anchor_among_them(entrants: tuple[int, ...], anchor: int) -> None:
    with pytest.raises(ValueError, match="anchor"):
        Arena(entrants, anchor)


@given(st.integers(2, 33))
def test_balanced_orders_put_the_anchor_first_in_half_of_its_seeding_matches(n: int) -> None:
    pairings = Arena(range(n), 0, "balanced").pairings()
    anchor_first = sum(p.orders[0][0] == 0 for p in pairings)
    assert all(len(p.orders) == 1 for p in pairings)
    assert abs(2 * anchor_first - len(pairings)) <= 1


@given(arenas(9))
def test_every_order_shows_the_two_of_its_match_and_both_means_each_of_them_first(field: Field) -> None:
    for pairing in play(field.arena(), field.table):
        pair = (pairing.a, pairing.b)
        assert all(sorted(order) == sorted(pair) for order in pairing.orders)
        assert (
            {order[0] for order in pairing.orders} == set(pair) if field.order == "both" else len(pairing.orders) == 1
        )


def test_one_entrant_needs_no_match_and_has_no_points() -> None:
    arena = Arena([4], 4)
    (standing,) = arena.standings()
    assert match_bounds(1) == (0, 0)
    assert list(arena.pairings()) == list(arena.matches) == []
    assert (standing.entrant, standing.points, standing.mean) == (4, (), 0)
