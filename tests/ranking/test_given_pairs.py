"""Given pairs: each once, in both orders."""

from fractions import Fraction

import pytest

from harness.ranking.fixed_pairs import GivenPairs
from harness.ranking.topology import Pairing


def test_each_pair_is_open_once_in_both_orders_and_nothing_follows() -> None:
    design = GivenPairs([(3, 7), (4, 7)])
    first, second = design.pairings()
    assert (first, second) == (Pairing(3, 7, 0, ((3, 7), (7, 3))), Pairing(4, 7, 0, ((4, 7), (7, 4))))
    for pairing in (second, first):
        design.record(pairing, Fraction(1), Fraction(2))
    assert not design.pairings()
    assert [played.pairing for played in design.matches] == [first, second], "in the order in which they were given"


def test_nobody_meets_itself() -> None:
    with pytest.raises(ValueError, match="itself"):
        GivenPairs([(3, 3)])
