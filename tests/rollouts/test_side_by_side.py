"""Runs made side by side share places: a free one goes to the run that has begun the fewest rollouts."""

from functools import partial

import anyio
import pytest

from harness.endpoints.costs import Ceiling
from harness.rollouts.maker import Alongside, SideBySide
from tests.virtual_time import run_virtually


async def make(side: Alongside, name: str, count: int, took_s: float, begun: list[str], after_s: float = 0) -> None:
    """Make the rollouts of a run, all of which ask for a place at once."""

    async def one() -> None:
        async with side:
            begun.append(name)
            await anyio.sleep(took_s)

    await anyio.sleep(after_s)
    async with anyio.create_task_group() as tasks:
        for _ in range(count):
            tasks.start_soon(one)
    side.leave()


@pytest.mark.parametrize(
    ("places", "counts", "took_s", "order"),
    [
        (1, (3, 3), (1, 1), "ababab"),
        (2, (4, 4), (1, 5), "abababab"),
        (1, (1, 4), (1, 1), "abbbb"),
        (2, (0, 3), (1, 1), "bbb"),
    ],
)
def test_a_place_goes_to_the_run_that_has_begun_the_fewest(
    places: int, counts: tuple[int, int], took_s: tuple[float, float], order: str
) -> None:
    begun: list[str] = []

    async def main() -> None:
        sides = SideBySide(2, places, Ceiling()).sides
        async with anyio.create_task_group() as tasks:
            for side, name, count, each_s in zip(sides, "ab", counts, took_s, strict=True):
                tasks.start_soon(make, side, name, count, each_s, begun)

    run_virtually(main)
    assert "".join(begun) == order


def test_nothing_begins_before_every_run_has_asked_for_a_place_and_what_is_cancelled_gives_its_place_back() -> None:
    begun: list[str] = []
    at_s: list[float] = []

    async def main() -> None:
        first, second = SideBySide(2, 1, Ceiling()).sides
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(make, second, "b", 1, 1.0, begun, after_s=5))
            with anyio.move_on_after(7):  # at work, with another waiting
                await make(first, "a", 3, 3.0, begun)
            at_s.append(anyio.current_time())
            first.leave()
        at_s.append(anyio.current_time())

    run_virtually(main)
    assert begun == ["a", "b"]
    assert at_s == [7.0, 8.0]


def test_the_first_call_of_each_run_goes_alone_and_one_run_after_the_other() -> None:
    went: list[tuple[float, str]] = []

    async def main() -> None:
        sides = SideBySide(2, 8, Ceiling()).sides

        async def one(side: Alongside, name: str) -> None:
            leads = await side.first_call.lead_or_wait()
            went.append((anyio.current_time(), f"{name}!" if leads else name))
            if leads:
                await anyio.sleep(1)
                side.first_call.reply()

        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                for side, name in zip(sides, "ab", strict=True):
                    tasks.start_soon(one, side, name)

    run_virtually(main)
    assert sorted(went) == [(0.0, "a!"), (1.0, "b!"), (2.0, "a"), (2.0, "b")]
