"""A rollout that is cancelled while a tool of it streams a run leaves no coroutine of the SDK's unawaited."""

import asyncio
import gc
import warnings

import pytest
from agents import Agent, Runner, function_tool

import harness
from tests.fake_endpoint import Hang, Reaction, Say, Seen
from tests.virtual_endpoint import VirtualEndpoint
from tests.virtual_time import run_virtually

INNER = Agent(name="inner", model="m")


@function_tool
async def stream(word: str) -> str:
    result = Runner.run_streamed(INNER, f"inner {word}")
    async for _ in result.stream_events():
        pass
    return str(result.final_output)


OUTER = Agent(name="outer", model="m", tools=[stream])


@pytest.mark.nightly
def test_wherever_a_cancellation_strikes_a_streamed_run_no_coroutine_is_left_unawaited() -> None:
    begun: list[Seen] = []

    async def script(seen: Seen) -> Reaction:
        if "inner word" in str(seen.items):
            begun.append(seen)
            return Hang(1e6)
        return Say(calls=(("stream", {"word": "word"}),))

    async def cancelled_after(url: str, turns: int) -> None:
        group = asyncio.ensure_future(harness.rollout(OUTER, "Which?", n=2, base_url=url))
        for _ in range(turns):
            await asyncio.sleep(0)
        group.cancel()
        await asyncio.wait([group])
        assert group.cancelled()

    async def strike() -> None:
        async with VirtualEndpoint(script).serving() as endpoint:
            for turns in range(300, 540, 9):
                await cancelled_after(endpoint.base_url, turns)
        gc.collect()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run_virtually(strike)
    assert begun
    assert [str(w.message) for w in caught if "never awaited" in str(w.message)] == []
