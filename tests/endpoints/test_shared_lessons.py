"""What the gates of one process learn of an endpoint reaches those of another."""

import random
from contextlib import suppress

import anyio
import anyio.lowlevel
import httpx2
import openai
import pytest
from pydantic import SecretStr

from harness.core.progress import Silent
from harness.endpoints.address import Endpoint
from harness.endpoints.breaker import EndpointDown
from harness.endpoints.gate import GateLesson, Gates, Patience
from tests.virtual_time import run_virtually

REQUEST = httpx2.Request("POST", "http://host/v1")


def test_what_one_process_learns_of_an_endpoint_holds_for_the_gates_of_another_and_is_passed_on_once() -> None:
    endpoint = Endpoint(base_url="http://host/v1", api="chat", key=SecretStr("k"))
    here, there = Gates(Silent()), Gates(Silent())
    told: list[GateLesson] = []
    here.share = told.append
    there.share = lambda lesson: pytest.fail(f"{lesson} came from elsewhere")
    ours, theirs = (gates.of(endpoint, Patience(give_up_s=5.0), random.Random(0)) for gates in (here, there))
    other = there.of(endpoint.model_copy(update={"base_url": "http://other/v1"}), Patience(), random.Random(0))

    async def refused() -> str:
        raise openai.RateLimitError("slow", response=httpx2.Response(429, request=REQUEST), body=None)

    async def scenario() -> None:
        with suppress(openai.RateLimitError):
            await ours.send(refused)
        for lesson in told:
            before = anyio.current_time()
            there.learn(lesson)
            assert not theirs.open
            assert other.open
            if lesson.pause_s:
                await theirs.send(anyio.lowlevel.checkpoint)
                assert anyio.current_time() - before >= lesson.pause_s
        with pytest.raises(EndpointDown, match="nothing but rate limits"):
            await theirs.send(anyio.lowlevel.checkpoint)

    run_virtually(scenario)
    assert there.given_up == here.given_up
    assert any(lesson.pause_s for lesson in told)
    assert [bool(lesson.given_up) for lesson in told].count(True) == 1
