"""--max-cost: nothing begins that may go beyond, and nothing that is under way is stopped."""

import random
from collections.abc import Mapping

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.cost import cost
from harness.endpoints.costs import Ceiling, Purchase


def spend(ceiling: Ceiling, prices: list[float | None], kind: Purchase = "judge", seed: int = 0) -> int:
    """Try to buy everything at once; return how many purchases were made."""
    rng, bought = random.Random(seed), 0

    async def one(price: float | None) -> None:
        nonlocal bought
        if await ceiling.begin(kind):
            bought += 1
            for _ in range(rng.randrange(5)):
                await anyio.lowlevel.checkpoint()
            ceiling.end(kind, cost(price))

    async def go() -> None:
        async with anyio.create_task_group() as tasks:
            for price in prices:
                tasks.start_soon(one, price)

    anyio.run(go)
    return bought


@given(st.integers(1, 40), st.integers(0, 60), st.integers(0, 9))
def test_equal_prices_fill_the_ceiling_exactly_and_never_go_beyond(wanted: int, room: int, seed: int) -> None:
    ceiling = Ceiling(float(room), {"judge": 1.0})
    assert spend(ceiling, [1.0] * wanted, seed=seed) == min(wanted, room)
    assert ceiling.spent == min(wanted, room)
    assert bool(ceiling.stopped) == (wanted > room)


def test_without_a_ceiling_everything_is_bought_and_counted() -> None:
    ceiling = Ceiling()
    assert spend(ceiling, [0.5, None, 2.0]) == 3
    assert (ceiling.spent, ceiling.stopped) == (2.5, None)


def test_what_costs_nothing_fits_under_a_ceiling_of_nothing() -> None:
    ceiling = Ceiling(0.0, {"judge": 0.0})
    assert spend(ceiling, [0.0] * 5) == 5
    assert ceiling.stopped is None


@pytest.mark.parametrize("expected", [{}, {"judge": 0.01}])
def test_nothing_is_bought_with_no_room_at_all(expected: Mapping[Purchase, float]) -> None:
    ceiling = Ceiling(0.0, expected)
    assert spend(ceiling, [0.01] * 3) == 0
    assert ceiling.stopped


def test_a_price_that_nobody_can_tell_ends_all_buying_under_a_ceiling() -> None:
    ceiling = Ceiling(10.0, {"judge": 0.1})
    spend(ceiling, [None])
    assert spend(ceiling, [0.1] * 3) == 0
    assert "unknown" in str(ceiling.stopped)


def test_the_dearest_so_far_is_what_the_next_one_is_taken_to_cost() -> None:
    ceiling = Ceiling(10.0, {"judge": 0.1})
    spend(ceiling, [4.0])
    assert spend(ceiling, [1.0] * 9) == 3
    assert ceiling.spent == 7.0
    assert "the next judge call could exceed --max-cost 10: $7.0000 spent" in str(ceiling.stopped)


def test_a_rollout_is_weighed_as_a_rollout_and_a_verdict_as_a_verdict() -> None:
    ceiling = Ceiling(10.0, {"judge": 0.1, "agent": 1.0})
    spend(ceiling, [5.0], "agent")
    assert spend(ceiling, [0.5] * 4, "judge") == 4
    assert spend(ceiling, [5.0], "agent") == 0
