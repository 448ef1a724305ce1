"""What a bill with an unknown part comes to."""

import pytest

from harness.core.cost import UNKNOWN, Cost, cost, total_cost
from harness.report.text import dollars, money

PART = Cost(1.5, exact=False)


@pytest.mark.parametrize(
    ("costs", "expected"),
    [
        ([], Cost()),
        ([Cost(0.1)] * 10, Cost(1.0)),
        ([Cost(1.5), UNKNOWN], PART),
        ([UNKNOWN], UNKNOWN),
        ([PART, Cost(0.25)], Cost(1.75, exact=False)),
    ],
)
def test_a_sum_with_an_unknown_part_is_at_least_the_rest(costs: list[Cost], expected: Cost) -> None:
    assert total_cost(costs) == total_cost(iter(costs)) == expected
    assert sum(costs, Cost()).exact == expected.exact
    assert cost(*(expected.named("usd").get(name) for name in ("usd", "usd_at_least"))) == expected


@pytest.mark.parametrize(
    ("spent", "beside_label", "in_sentence"),
    [
        (Cost(), "$0.00", "$0.00"),
        (Cost(0.01234), "$0.0123", "$0.0123"),
        (UNKNOWN, "unknown", "cost unknown"),
        (PART, "≥ $1.50", "at least $1.50"),
        (Cost(0.00001, exact=False), "unknown", "cost unknown"),
    ],
)
def test_what_is_not_known_is_never_shown_as_nothing(spent: Cost, beside_label: str, in_sentence: str) -> None:
    assert (dollars(spent), money(spent)) == (beside_label, in_sentence)
