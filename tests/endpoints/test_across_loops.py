"""One gate for the calls of all event loops: a run of the SDK in a tool's thread has a loop of its own."""

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import openai
import pytest

from harness.endpoints.breaker import EndpointDown
from harness.endpoints.retries import TimeLimit
from tests.endpoints.test_gate import Bucket, all_at_once, down, gate

pytestmark = pytest.mark.anyio
Work = Callable[[], Coroutine[Any, Any, object]]


async def in_three_loops(work: Work) -> None:
    """Run `work` here, and twice as a tool does that runs an agent in its thread."""

    async def elsewhere() -> None:
        await anyio.to_thread.run_sync(anyio.run, work)

    async with anyio.create_task_group() as loops:
        for each in (work, elsewhere, elsewhere):
            loops.start_soon(each)


async def test_calls_of_all_loops_keep_one_pace() -> None:
    server, at = Bucket(40, 4, latency_s=0.01), gate()
    await in_three_loops(partial(all_at_once, 20, partial(at.send, server)))
    assert server.replies == 60
    assert at.given_up is None


async def test_an_endpoint_given_up_in_one_loop_is_given_up_in_all() -> None:
    at, asked, ended = gate(give_up_s=0.2), list[float](), list[str]()

    async def failing() -> None:
        while True:
            try:
                asked.append(anyio.current_time())
                await at.send(down)
            except openai.APIConnectionError:
                pass
            except EndpointDown as exc:
                ended.append(str(exc))
                return

    await in_three_loops(failing)
    assert ended == [at.given_up] * 3
    assert len(asked) <= 20


async def test_a_call_that_tries_in_one_loop_lets_those_of_the_others_in() -> None:
    at, replies = gate(), list[str]()
    for _ in range(5):
        with pytest.raises(openai.APIConnectionError):
            await at.send(down)

    async def slow() -> None:
        await anyio.sleep(0.1)
        replies.append("reply")

    await in_three_loops(partial(all_at_once, 4, partial(at.send, slow)))
    assert len(replies) == 12
    assert at.open


async def test_a_wait_in_another_loop_stops_the_rollouts_clock() -> None:
    limit = TimeLimit(1.0)

    async def waiting() -> None:
        with limit.stopped(), limit.stopped():
            await anyio.sleep(1.5)

    with limit.within():
        await anyio.to_thread.run_sync(anyio.run, waiting)
        await anyio.sleep(0.01)
    assert not limit.passed
    assert limit.spent_s < 1
    with limit.within():
        await anyio.sleep(5)
    assert limit.passed
