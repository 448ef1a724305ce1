"""`double`: double elimination with given seeds."""

from collections import Counter

from hypothesis import given

from harness.ranking.knockout import Double
from harness.ranking.topology import Played
from tests.ranking.playing import Field, play, singles


def _winner(played: Played, seeds: tuple[int, ...]) -> tuple[int, int]:
    """Winner and loser; a tie goes to the better seed."""
    a, b = played.pairing.a, played.pairing.b
    a_wins = (played.score_a, -seeds.index(a)) > (played.score_b, -seeds.index(b))
    return (a, b) if a_wins else (b, a)


def _played(field: Field) -> Double:
    double = Double(field.entrants)
    play(double, field.table, field.replies)
    return double


@given(singles())
def test_n_entrants_have_two_n_minus_1_matches_and_no_one_loses_more_than_twice(field: Field) -> None:
    double, n = _played(field), len(field.entrants)
    assert len(double.matches) == 2 * (n - 1)
    lost = Counter(_winner(p, field.entrants)[1] for p in double.matches)
    reached = {s.entrant: s.round_reached for s in double.standings()}
    champion = max(reached, key=lambda e: reached[e])
    assert lost[champion] <= 1
    assert all(lost[e] <= 2 for e in field.entrants)
    final = max(double.matches, key=lambda p: p.pairing.round, default=None)
    assert final is None or _winner(final, field.entrants)[0] == champion
    once = {e for e in field.entrants if lost[e] < 2} - {champion}
    assert final is None or once <= {final.pairing.a, final.pairing.b}


@given(singles())
def test_who_is_thrown_out_later_has_got_further(field: Field) -> None:
    double = _played(field)
    last = {e: p.pairing.round for p in double.matches for e in (p.pairing.a, p.pairing.b)}
    reached = {s.entrant: s.round_reached for s in double.standings()}
    champion = max(reached, key=lambda e: reached[e])
    assert {e: r for e, r in reached.items() if e != champion} == {e: r for e, r in last.items() if e != champion}
    assert len(field.entrants) == 1 or reached[champion] == last[champion] + 1


@given(singles())
def test_the_byes_of_the_upper_bracket_fall_to_the_best_seeds(field: Field) -> None:
    double, n = _played(field), len(field.entrants)
    in_round_one = {e for p in double.matches if p.pairing.round == 1 for e in (p.pairing.a, p.pairing.b)}
    assert n == 1 or set(field.entrants) - in_round_one == set(field.entrants[: (1 << (n - 1).bit_length()) - n])


@given(singles())
def test_two_meet_at_most_twice_and_from_5_entrants_on_not_again_in_the_first_two_lower_rounds(field: Field) -> None:
    double = _played(field)
    pairs = Counter(frozenset((p.pairing.a, p.pairing.b)) for p in double.matches)
    assert set(pairs.values()) <= {1, 2}
    assert len(field.entrants) <= 4 or not any(p.repeated for p in double.matches if p.pairing.round <= 4)
