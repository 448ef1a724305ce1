"""Slots at a judge: who follows whom."""

import anyio
import anyio.lowlevel

from harness.core.errors import PLACE_IN_LINE
from harness.judging.slots import Beginning, Slots


async def served(asked: list[Beginning], limit: int) -> list[Beginning]:
    """Return the calls in the order in which they had a place; each takes one round of the loop."""
    places, order = Slots(limit), list[Beginning]()

    async def call(beginning: Beginning) -> None:
        await places.take(beginning)
        order.append(beginning)
        await anyio.lowlevel.checkpoint()
        places.leave(beginning)

    async with anyio.create_task_group() as tasks:
        for beginning in asked:
            tasks.start_soon(call, beginning)
    return order


def test_calls_of_one_query_and_first_transcript_follow_each_other() -> None:
    asked = [(query, first) for _ in range(3) for query in "pq" for first in "ab"]
    order = anyio.run(served, asked, 1)
    assert order == [(query, first) for query in "pq" for first in "ab" for _ in range(3)]


def test_one_call_leads_and_those_that_begin_alike_follow_while_others_lead() -> None:
    asked = [("q", first) for first in "abc" for _ in range(2)]
    assert anyio.run(served, asked, 2)[:4] == [("q", "a"), ("q", "a"), ("q", "b"), ("q", "c")]


def test_the_group_that_came_first_leads_first_also_with_what_it_asks_later() -> None:
    order = list[Beginning]()

    async def work() -> None:
        places = Slots(1)

        async def ask(beginning: Beginning) -> None:
            await places.take(beginning)
            order.append(beginning)
            await anyio.lowlevel.checkpoint()
            places.leave(beginning)

        async def group(number: int) -> None:
            PLACE_IN_LINE.set(number)
            for round_ in "123":
                await ask((f"q{number}", round_))

        async with anyio.create_task_group() as tasks:
            for number in range(4):
                tasks.start_soon(group, number)

    anyio.run(work)
    assert {query for query, _ in order[:6]} == {"q0", "q1"}, "while one of them is away, the next one is served"
    assert sorted(order) == [(f"q{number}", round_) for number in range(4) for round_ in "123"]


def test_at_most_so_many_are_under_way_and_all_places_come_back() -> None:
    async def work() -> None:
        places, under_way, most = Slots(3), 0, 0

        async def call(number: int) -> None:
            nonlocal under_way, most
            beginning = ("q", str(number % 4))
            await places.take(beginning)
            under_way += 1
            most = max(most, under_way)
            await anyio.lowlevel.checkpoint()
            under_way -= 1
            places.leave(beginning)

        for _ in range(2):
            async with anyio.create_task_group() as tasks:
                for number in range(20):
                    tasks.start_soon(call, number)
        assert most == 3

    anyio.run(work)


def test_who_is_cancelled_while_waiting_or_just_called_keeps_no_place() -> None:
    async def work() -> None:
        places, order = Slots(1), list[str]()
        await places.take(("q", "a"))

        async def call(name: str) -> None:
            await places.take(("q", name))
            order.append(name)
            places.leave(("q", name))

        async with anyio.create_task_group() as tasks:
            scopes = [anyio.CancelScope(), anyio.CancelScope()]

            async def doomed(scope: anyio.CancelScope, name: str) -> None:
                with scope:
                    await call(name)

            tasks.start_soon(doomed, scopes[0], "waits")
            tasks.start_soon(doomed, scopes[1], "is called")
            tasks.start_soon(call, "last")
            await anyio.wait_all_tasks_blocked()
            scopes[0].cancel()
            await anyio.wait_all_tasks_blocked()
            places.leave(("q", "a"))
            scopes[1].cancel()
        assert "last" in order
        assert "waits" not in order

    anyio.run(work)
