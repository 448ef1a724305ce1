"""Turns: work that is ready all at once is spread over rounds of the loop."""

import asyncio
from typing import cast

import anyio

from harness.core.turns import BEGINNING, CUTS_WITHIN_S, JUDGED, JUDGING, SENDING, SLICE_S, UNDER_WAY, my_turn, until
from tests.virtual_time import VirtualTimeLoop, run_virtually

PIECE_S = 0.4 * SLICE_S


def computing(seconds: float) -> None:
    """Take the loop's time without letting anything else run."""
    cast("VirtualTimeLoop", asyncio.get_running_loop()).now += seconds


async def longest_block(pieces: int) -> float:
    """Return for how long a task that comes in every round of the loop had to wait, while so many tasks computed."""
    waits = list[float]()

    async def piece() -> None:
        await my_turn()
        computing(PIECE_S)

    async def watch() -> None:
        while True:
            began = anyio.current_time()
            await asyncio.sleep(0)
            waits.append(anyio.current_time() - began)

    watching = asyncio.create_task(watch())
    async with anyio.create_task_group() as tasks:
        for _ in range(pieces):
            tasks.start_soon(piece)
    watching.cancel()
    return max(waits)


def test_a_hundred_tasks_that_are_ready_at_once_block_the_loop_for_a_slice_and_a_piece_at_most():
    assert run_virtually(longest_block, 100) <= SLICE_S + PIECE_S + 1e-9


def test_after_a_piece_longer_than_a_slice_a_timer_that_is_due_goes_before_the_next_piece():
    long_s, late = 3 * SLICE_S, list[float]()

    async def piece() -> None:
        await my_turn()
        computing(long_s)

    async def tick() -> None:
        while True:
            due = anyio.current_time() + SLICE_S
            await asyncio.sleep(SLICE_S)
            late.append(anyio.current_time() - due)

    async def work() -> None:
        ticking = asyncio.create_task(tick())
        async with anyio.create_task_group() as tasks:
            for _ in range(9):
                tasks.start_soon(piece)
        ticking.cancel()

    run_virtually(work)
    assert len(late) >= 8
    assert max(late) <= long_s + 1e-9


def test_what_a_deadline_ends_is_left_bit_by_bit_and_soon():
    async def left_late() -> None:
        with until(1.0):
            try:
                await anyio.sleep(9)
            finally:
                computing(0.05 * SLICE_S)

    async def work() -> tuple[float, float]:
        blocked_s, ended, watching = 0.0, 0.0, True

        async def watch() -> None:
            nonlocal blocked_s
            while watching:
                due = anyio.current_time() + SLICE_S
                await asyncio.sleep(SLICE_S)
                blocked_s = max(blocked_s, anyio.current_time() - due)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            async with anyio.create_task_group() as pieces:
                for _ in range(300):
                    pieces.start_soon(left_late)
            watching, ended = False, anyio.current_time()
        return blocked_s, ended

    blocked_s, ended = run_virtually(work)
    assert blocked_s < SLICE_S
    assert 1.0 < ended < 1.0 + CUTS_WITHIN_S


def test_work_alone_goes_on_at_once():
    async def work() -> int:
        rounds = 0

        def count() -> None:
            nonlocal rounds
            rounds += 1

        asyncio.get_running_loop().call_soon(count)
        await my_turn()
        return rounds

    assert run_virtually(work) == 0


def test_whoever_is_cancelled_while_waiting_keeps_nobody_waiting():
    async def work() -> list[int]:
        done = list[int]()

        async def piece(number: int, scope: anyio.CancelScope) -> None:
            with scope:
                await my_turn()
                computing(SLICE_S)
                done.append(number)

        scopes = [anyio.CancelScope() for _ in range(5)]
        async with anyio.create_task_group() as tasks:
            for number, scope in enumerate(scopes):
                tasks.start_soon(piece, number, scope)
            await asyncio.sleep(0)
            scopes[1].cancel()
            scopes[3].cancel()
        return done

    assert run_virtually(work) == [0, 2, 4]


def in_turn(*ranks: int) -> list[int]:
    """Return in which order work of these ranks is done that is ready all at once, after a first piece."""

    async def work() -> list[int]:
        done = list[int]()

        async def piece(rank: int) -> None:
            await my_turn(rank)
            computing(SLICE_S)
            done.append(rank)

        async with anyio.create_task_group() as tasks:
            for rank in (9, *ranks):
                tasks.start_soon(piece, rank)
        return done[1:]

    return run_virtually(work)


def test_what_is_under_way_goes_on_before_more_is_begun():
    assert in_turn(2, 3, 1, 2, 0) == [0, 1, 2, 2, 3]


def test_requests_go_out_first_and_a_free_place_is_filled_before_replies_of_the_judge_are_read():
    order = [SENDING, BEGINNING, UNDER_WAY, JUDGED, JUDGING]
    assert in_turn(*reversed(order)) == order
