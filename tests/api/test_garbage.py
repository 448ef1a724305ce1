"""What a call of `harness.best_of` leaves to the garbage collector, whose full collections block a server's loop."""

import gc
from itertools import count

import anyio
import pytest
from agents import Agent

import harness
from tests.fake_endpoint import Cut, Hang, Reaction, Say, Seen, fair_judge
from tests.virtual_endpoint import VirtualEndpoint
from tests.virtual_time import run_virtually

N = 6
NEVER = 1e6
CASES = ("all is well", "the judge hangs", "the judge is dead", "an agent's call hangs")
AGENT = Agent(name="plain", model="gpt-5.2")


@pytest.mark.nightly
@pytest.mark.parametrize("case", CASES)
def test_a_call_leaves_few_objects_whatever_was_cut_off(case: str):
    numbers = count()

    async def script(seen: Seen) -> Reaction:
        await anyio.sleep(1)
        if not seen.is_judge:
            number = next(numbers)
            return Hang(NEVER) if case == CASES[3] and number % 3 == 2 else Say(f"answer {number}")
        return Hang(NEVER) if case == CASES[1] else Cut() if case == CASES[2] else fair_judge(len)(seen)

    async def objects_in_cycles() -> int:
        async with VirtualEndpoint(script).serving() as endpoint:

            async def call() -> None:
                await harness.best_of(
                    AGENT, "Which?", n=N, judge="j", base_url=endpoint.base_url, deadline=10, retries=0, give_up=5.0
                )

            await call()
            gc.collect()
            gc.disable()
            try:
                await call()
                return gc.collect()
            finally:
                gc.enable()

    assert run_virtually(objects_in_cycles) < 330 * N  # a connection leaves ten, and requests go out all at once
