"""`harness.best_of` in a Starlette server that gets eight requests at the same time. On virtual time.

benchmarks/best_of_server.py measures the same by the clock.
"""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any, cast

import anyio
import httpx2
import pytest
from agents import Agent, function_tool
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

import harness
from tests.api.test_best import Judging, dead, fair, hanging, nonsense
from tests.fake_endpoint import Reaction, Say, Seen
from tests.virtual_endpoint import VirtualEndpoint
from tests.virtual_time import VirtualTimeLoop, run_virtually

AT_A_TIME, ROLLOUTS, TICK_S = 8, 2, 0.005
PIECE_S = 0.01


@function_tool
async def compute() -> str:
    """Keep the loop busy."""
    cast("VirtualTimeLoop", asyncio.get_running_loop()).now += PIECE_S
    return "computed"


AGENT = Agent(name="busy", model="m", tools=[compute])


def server(judge: Judging) -> VirtualEndpoint:
    numbers = count()

    async def script(seen: Seen) -> Reaction:
        if seen.is_judge:
            return await judge(seen)
        await anyio.sleep(1)
        return Say(f"answer {next(numbers)}") if seen.tool_outputs else Say(calls=(("compute", {}),))

    return VirtualEndpoint(script)


def app_at(base_url: str, **options: Any) -> Starlette:
    async def best(request: Request) -> JSONResponse:
        query = request.query_params["q"]
        best = await harness.best_of(AGENT, query, ROLLOUTS, "j", base_url=base_url, **options)
        return JSONResponse({"answer": str(best), "judged": best.judged, "why": best.why})

    return Starlette(routes=[Route("/best", best)])


async def longest_block(work: Callable[[], Awaitable[None]]) -> float:
    """Return by how much the tick of a task in the loop came late at most, while `work` was done."""
    late = [0.0]

    async def tick() -> None:
        while True:
            due = anyio.current_time() + TICK_S
            await anyio.sleep(TICK_S)
            late.append(anyio.current_time() - due)

    ticking = asyncio.create_task(tick())
    await work()
    ticking.cancel()
    return max(late)


def eight_at_a_time(judge: Judging, **options: Any) -> tuple[list[dict[str, Any]], float, float]:
    """Return the replies, the seconds that the slowest took, and for how long the loop was blocked at most."""

    async def asking() -> tuple[list[dict[str, Any]], float, float]:
        replies, seconds = list[dict[str, Any]](), list[float]()
        async with server(judge).serving() as endpoint:
            transport = httpx2.ASGITransport(app=app_at(endpoint.base_url, **options))
            async with httpx2.AsyncClient(transport=transport, base_url="http://server", timeout=None) as client:

                async def ask(number: int) -> None:
                    began = anyio.current_time()
                    reply = await client.get("/best", params={"q": f"Which, case {number}?"})
                    seconds.append(anyio.current_time() - began)
                    replies.append(reply.json())

                async def ask_all() -> None:
                    async with anyio.create_task_group() as tasks:
                        for number in range(AT_A_TIME):
                            tasks.start_soon(ask, number)

                block_s = await longest_block(ask_all)
        return replies, max(seconds), block_s

    return run_virtually(asking)


@pytest.mark.few(1)
@pytest.mark.parametrize("judge", [dead, hanging, nonsense])
def test_no_answer_is_lost_and_the_deadline_holds_whatever_becomes_of_the_judge(judge: Judging):
    replies, seconds, _ = eight_at_a_time(judge, deadline=5.0)
    assert len({reply["answer"] for reply in replies}) == AT_A_TIME
    assert all("not judged: " in reply["why"] for reply in replies)
    assert seconds < 5.5


def test_what_is_ready_at_once_is_spread_so_that_the_loop_is_not_blocked():
    replies, _, block_s = eight_at_a_time(fair, deadline=20.0)
    assert [reply["judged"] for reply in replies] == [True] * AT_A_TIME
    assert AT_A_TIME * ROLLOUTS * PIECE_S > 0.15
    assert block_s < 0.05
