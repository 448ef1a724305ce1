"""Average ranks against scipy's."""

from fractions import Fraction

import pytest
import scipy.stats  # pyright: ignore[reportMissingTypeStubs]
from hypothesis import given
from hypothesis import strategies as st

from harness.ranking.rewards import average_ranks


@given(st.lists(st.integers(0, 5)))
def test_they_are_scipys(values: list[int]) -> None:
    expected = [rank - 1 for rank in scipy.stats.rankdata([-v for v in values]).tolist()] if values else []  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    ranks = average_ranks(dict(enumerate(values)))
    assert [float(ranks[i]) for i in range(len(values))] == expected


def test_the_best_stands_first_and_equals_keep_their_order() -> None:
    ranks = average_ranks({"a": (1, 0), "b": (2, 0), "c": (1, 0)})
    assert list(ranks.items()) == [("b", Fraction()), ("a", Fraction(3, 2)), ("c", Fraction(3, 2))]


@pytest.mark.parametrize("values", [{}, {"only": 3}])
def test_few(values: dict[str, int]) -> None:
    assert average_ranks(values) == dict.fromkeys(values, Fraction())
