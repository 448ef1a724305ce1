"""What a run is taken to cost, before anything is spent."""

from itertools import pairwise

import pytest

from harness.endpoints.costs import CostBounds, Priced, agent_tokens, cost_bounds, judge_tokens, total_bounds

MINI = Priced("gpt-4o-mini", None)


def test_the_bounds_are_the_fewest_at_the_least_and_the_most_at_the_most() -> None:
    found = cost_bounds((2, 3), judge_tokens(10_000), MINI)
    assert found
    assert found.low == pytest.approx(2 * (2_000 * 0.15 + 500 * 0.6) / 1e6)
    assert found.high == pytest.approx(3 * (12_000 * 0.15 + 1_500 * 0.6) / 1e6)


def test_a_larger_budget_or_more_turns_never_make_it_cheaper() -> None:
    for smaller, larger in pairwise(judge_tokens(n)[1] for n in (1, 8_000, 32_000, 100_000)):
        assert smaller.input < larger.input
    assert judge_tokens(0) == judge_tokens(32_000)
    assert agent_tokens(1)[1].calls < agent_tokens(5)[1].calls


@pytest.mark.parametrize(
    "unknown", [Priced(None, None), Priced("no-such-model", None), Priced("gpt-4o-mini", "http://127.0.0.1:8000/v1")]
)
def test_an_unknown_price_is_unknown_and_makes_the_whole_bill_unknown(unknown: Priced) -> None:
    found = cost_bounds((1, 2), judge_tokens(0), unknown)
    assert found is None
    assert total_bounds(found, CostBounds(0, 1)) is None
    assert total_bounds(CostBounds(0, 1), CostBounds(1, 2)) == CostBounds(1, 3)


def test_embedded_parts_cost_nothing() -> None:
    assert cost_bounds((5, 9), agent_tokens(20), Priced("offline-extractive", None, free=True)) == CostBounds(0, 0)
