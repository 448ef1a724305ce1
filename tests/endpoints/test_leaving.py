"""A call for which another endpoint would do: it leaves one that is down."""

import random

import anyio
import httpx2
import openai
import pytest

from harness.core.progress import Silent
from harness.endpoints.breaker import FAILURES, EndpointDown
from harness.endpoints.gate import Gate, Patience
from tests.virtual_time import run_virtually

UNREACHABLE = openai.APIConnectionError(request=httpx2.Request("POST", "http://host/v1"))


def test_a_call_that_may_go_elsewhere_leaves_an_endpoint_that_is_down_at_once_but_may_be_the_one_that_tries() -> None:
    at = Gate("host", Patience(give_up_s=300.0), random.Random(1), Silent())

    async def dead() -> None:
        raise UNREACHABLE

    async def fails(kind: type[Exception], leaves: bool = False) -> float:
        with pytest.raises(kind):
            await at.send(dead, leaves=lambda: leaves)
        return anyio.current_time()

    async def steps() -> None:
        for _ in range(FAILURES):
            assert await fails(openai.APIConnectionError, leaves=True) == 0
        assert [await fails(EndpointDown, leaves=True) for _ in range(3)] == [0, 0, 0]
        assert await fails(openai.APIConnectionError) == 1, "it waits for its turn"
        await anyio.sleep(2)
        assert await fails(openai.APIConnectionError, leaves=True) == 3, "it is time to try"
        assert at.is_down
        assert not at.given_up

    run_virtually(steps)


def test_a_server_that_hangs_is_left_by_calls_that_may_and_given_up_in_plain_words() -> None:
    at = Gate("host", Patience(give_up_s=3.0), random.Random(0), Silent())

    async def leaving() -> None:
        with pytest.raises(EndpointDown, match="host gave no reply in time") as left:
            await at.send(anyio.sleep_forever, leaves=lambda: True)
        assert left.value.__context__ is None, "the SDK would retry what has a timeout behind it"

    run_virtually(leaving)
    assert at.hangs
    assert at.given_up
    assert "host gave no reply for 3 s (--give-up); the last error: no reply in time (since " in at.given_up
