"""`single`: single elimination with given seeds."""

from fractions import Fraction

import pytest
from hypothesis import given

from harness.ranking.knockout import Single
from tests.ranking.playing import Field, bracket, play, singles


@given(singles())
def test_n_entrants_take_n_minus_1_matches_and_meet_at_most_once(field: Field) -> None:
    judged = play(field.single(), field.table, field.replies)
    assert len(judged) == len(field.entrants) - 1
    assert len({frozenset((p.a, p.b)) for p in judged}) == len(judged)


@given(singles())
def test_the_winner_of_a_match_gets_further_than_its_loser_and_a_tie_goes_to_the_better_seed(field: Field) -> None:
    single = field.single()
    play(single, field.table, field.replies)
    reached = {s.entrant: s.round_reached for s in single.standings()}
    seed = {e: s for s, e in enumerate(field.entrants)}
    for played in bracket(single):
        a, b = played.pairing.a, played.pairing.b
        a_wins = (played.score_a, -seed[a]) > (played.score_b, -seed[b])
        assert (reached[a] > reached[b]) == a_wins


@given(singles())
def test_the_first_seeds_have_the_byes_and_the_first_two_meet_in_the_final_or_never(field: Field) -> None:
    single, n = field.single(), len(field.entrants)
    play(single, field.table, field.replies)
    rounds = (n - 1).bit_length()
    first_round = {e for p in bracket(single) if p.pairing.round == 1 for e in (p.pairing.a, p.pairing.b)}
    met = {p.pairing.round for p in bracket(single) if {p.pairing.a, p.pairing.b} == set(field.entrants[:2])}
    assert n == 1 or set(field.entrants) - first_round == set(field.entrants[: (1 << rounds) - n])
    assert met <= {rounds}


@given(singles())
def test_v_is_the_mean_over_the_matches_and_there_is_no_seed_score(field: Field) -> None:
    single = field.single()
    play(single, field.table, field.replies)
    for standing in single.standings():
        own = [
            p.score_a if p.pairing.a == standing.entrant else p.score_b
            for p in single.matches
            if standing.entrant in (p.pairing.a, p.pairing.b)
        ]
        assert standing.seed_score is None
        assert standing.mean == (sum(own) / Fraction(len(own)) if own else 0)


@given(singles())
def test_the_outcome_of_single_does_not_depend_on_the_order_of_the_replies(field: Field) -> None:
    one, other = field.single(), field.single()
    play(one, field.table, field.replies)
    play(other, field.table)
    assert (one.matches, one.standings()) == (other.matches, other.standings())


@given(singles(9))
def test_a_pairing_that_is_not_open_is_refused_by_single(field: Field) -> None:
    single = field.single()
    for pairing in play(single, field.table):
        with pytest.raises(ValueError, match="no open match"):
            single.record(pairing, Fraction(1), Fraction(0))


@pytest.mark.parametrize("seeds", [(), (1, 1), (2, 1, 2)])
def test_seeds_must_be_distinct_and_at_least_one(seeds: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="distinct"):
        Single(seeds)
