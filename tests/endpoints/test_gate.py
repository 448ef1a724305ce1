"""An endpoint's gate: rate limits are waits, hung calls end, an endpoint that is down is asked rarely and given up."""

import random
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import anyio
import httpx2
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from harness.core.progress import Silent
from harness.endpoints.address import Endpoint
from harness.endpoints.breaker import FAILURES, Breaker, EndpointDown
from harness.endpoints.gate import Gate, Gates, Patience
from harness.endpoints.pace import duration_s, room_left
from harness.endpoints.retries import TimeLimit
from tests.virtual_time import run_virtually

REQUEST = httpx2.Request("POST", "http://host/v1")
UNREACHABLE = openai.APIConnectionError(request=REQUEST)


@dataclass
class Bucket:
    """A server that lets `rate` calls a second in, `burst` at once, and answers the others with 429."""

    rate: float
    burst: float
    retry_after: str | None = None
    latency_s: float = 0.2
    replies: int = 0
    _tokens: float = field(init=False)
    _at: float = 0.0

    def __post_init__(self) -> None:
        self._tokens = self.burst

    async def __call__(self) -> str:
        now = anyio.current_time()
        self._tokens, self._at = min(self.burst, self._tokens + (now - self._at) * self.rate), now
        if self._tokens < 1:
            await anyio.sleep(0.005)
            headers = {"retry-after": self.retry_after} if self.retry_after else {}
            raise openai.RateLimitError(
                "slow", response=httpx2.Response(429, headers=headers, request=REQUEST), body={}
            )
        self._tokens -= 1
        await anyio.sleep(self.latency_s)
        self.replies += 1
        return "reply"


class Notes(Silent):
    """Keeps what a gate tells."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.most_waiting = self.now_waiting = 0

    def note(self, text: str) -> None:
        self.notes.append(text)

    def waiting(self, place: str, calls: int) -> None:
        assert place == "host"
        self.now_waiting, self.most_waiting = calls, max(calls, self.most_waiting)


def gate(progress: Notes | None = None, **patience: float) -> Gate:
    return Gate("host", Patience(**patience), random.Random(1), progress or Notes())


async def all_at_once(calls: int, call: Callable[[], Coroutine[Any, Any, object]]) -> float:
    """Make so many calls side by side, and return the seconds that they took."""
    async with anyio.create_task_group() as tasks:
        for _ in range(calls):
            tasks.start_soon(call)
    return anyio.current_time()


@pytest.mark.parametrize("retry_after", [None, "1"])
@pytest.mark.parametrize(("calls", "turns"), [(24, 1), (24, 3), (16, 12)])
def test_a_rate_limit_fails_nobody_and_costs_half_of_the_limits_own_time_at_most(
    retry_after: str | None, calls: int, turns: int
) -> None:
    server, at = Bucket(6, 6, retry_after), gate()

    async def rollout() -> None:
        for _ in range(turns):
            await at.send(server)

    seconds = run_virtually(all_at_once, calls, rollout)
    assert server.replies == calls * turns
    assert seconds <= 1.5 * ((calls * turns - 6) / 6 + server.latency_s)


@pytest.mark.few(5)
@pytest.mark.parametrize("retry_after", [None, "0.2"])
@pytest.mark.parametrize("in_flight", [4, 16, 64])
@pytest.mark.parametrize("seed", [1, 2])
def test_429s_at_random_slow_the_whole_by_a_fifth_at_most(in_flight: int, retry_after: str | None, seed: int) -> None:
    rng, at, calls = random.Random(seed), gate(), iter(range(20 * in_flight))
    sound, full = Bucket(1e6, 1e6), Bucket(0, 0, retry_after)

    async def server() -> str:
        return await (full if rng.random() < 0.06 else sound)()

    async def caller() -> None:
        for _ in calls:
            await at.send(server)

    assert run_virtually(all_at_once, in_flight, caller) <= 1.2 * 20 * sound.latency_s


def test_after_an_outage_of_429s_the_calls_are_soon_as_fast_as_before_though_some_are_refused() -> None:
    rng, at, ends = random.Random(1), gate(), list[float]()
    sound, full = Bucket(1e6, 1e6), Bucket(0, 0)

    async def server() -> str:
        outage = 5 <= anyio.current_time() < 8
        return await (full if outage or rng.random() < 0.06 else sound)()

    async def caller() -> None:
        while anyio.current_time() < 30:
            await at.send(server)
            ends.append(anyio.current_time())

    run_virtually(all_at_once, 8, caller)
    before, after = (sum(begin <= end < begin + 5 for end in ends) for begin in (0, 25))
    assert after >= before / 1.2


@given(
    rate=st.floats(0.2, 100),
    burst=st.integers(1, 30),
    retry_after=st.sampled_from([None, "0", "0.3", "1", "7", "soon"]),
    calls=st.integers(1, 60),
    latency_s=st.floats(0, 3),
)
def test_whatever_the_limit_every_call_is_answered(
    rate: float, burst: int, retry_after: str | None, calls: int, latency_s: float
) -> None:
    server, at = Bucket(rate, burst, retry_after, latency_s), gate(give_up_s=3600.0)
    run_virtually(all_at_once, calls, lambda: at.send(server))
    assert server.replies == calls


def test_a_limit_that_lets_nothing_through_ends_after_the_time_to_give_up() -> None:
    at = gate(give_up_s=60.0)

    async def ask() -> float:
        with pytest.raises(openai.RateLimitError):
            await at.send(Bucket(0, 0))
        return anyio.current_time()

    assert 60 <= run_virtually(ask) <= 125


def test_waiting_for_a_rate_limit_stops_the_rollouts_clock() -> None:
    server, at, limits = Bucket(0.5, 1), gate(), [TimeLimit(5.0) for _ in range(6)]

    async def rollout(limit: TimeLimit) -> None:
        with limit.within():
            await at.send(server, limit)
            await anyio.sleep(4)

    async def rollouts() -> float:
        async with anyio.create_task_group() as tasks:
            for limit in limits:
                tasks.start_soon(rollout, limit)
        return anyio.current_time()

    assert run_virtually(rollouts) > 10
    assert not any(limit.passed for limit in limits)


def test_the_clock_goes_on_after_a_wait() -> None:
    limit = TimeLimit(5.0)

    async def rollout() -> float:
        with limit.within():
            await anyio.sleep(3)
            with limit.stopped(), limit.stopped():
                await anyio.sleep(100)
            await anyio.sleep(3)
        return anyio.current_time()

    assert run_virtually(rollout) == pytest.approx(105)  # pyright: ignore[reportUnknownMemberType]
    assert limit.passed


def test_a_hung_call_ends_as_a_timeout_of_the_network_and_others_go_on() -> None:
    at = gate(request_s=2.0)
    ends: list[tuple[str, float]] = []

    async def hung() -> None:
        with pytest.raises(openai.APITimeoutError):
            await at.send(anyio.sleep_forever)
        ends.append(("hung", anyio.current_time()))

    async def sound() -> None:
        await at.send(Bucket(100, 100, latency_s=0.1))
        ends.append(("sound", anyio.current_time()))

    async def both() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hung)
            tasks.start_soon(sound)

    run_virtually(both)
    assert ends == [("sound", 0.1), ("hung", 2.0)]


async def down() -> str:
    raise UNREACHABLE


@pytest.mark.parametrize("in_flight", [1, 32])
def test_a_dead_endpoint_is_asked_a_few_times_and_then_given_up(in_flight: int) -> None:
    told = Notes()
    at, asked = gate(told, give_up_s=300.0), 0

    async def dead() -> None:
        nonlocal asked
        asked += 1
        await down()

    async def verdict() -> None:
        try:
            while True:
                with pytest.raises(openai.APIConnectionError):
                    await at.send(dead)
        except EndpointDown:
            pass

    seconds = run_virtually(all_at_once, in_flight, verdict)
    assert asked <= 20 + in_flight
    assert 300 <= seconds <= 301
    assert at.given_up
    assert at.given_up.startswith("the agent's endpoint host gave no reply for 300 s (--give-up); the last error: API")
    assert len(told.notes) == 2
    assert (told.most_waiting, told.now_waiting) == (in_flight, 0)


def test_a_server_in_whose_place_another_is_asked_is_no_reason_to_stop() -> None:
    gates = Gates(Silent())
    servers = [Endpoint(base_url=f"http://{name}/v1", api="chat", key=SecretStr("none")) for name in "ab"]
    one, two = (gates.of(server, Patience(give_up_s=5.0), random.Random(0)) for server in servers)
    gates.together.append([one, two])

    async def given_up(at: Gate) -> None:
        while not at.given_up:
            with suppress(openai.APIConnectionError, EndpointDown):
                await at.send(down)

    run_virtually(given_up, one)
    assert one.given_up
    assert gates.given_up is None
    run_virtually(given_up, two)
    assert gates.given_up == f"{one.given_up}; {two.given_up}"


@pytest.mark.parametrize("give_up_s", [5.0, 100.0, 300.0])
@pytest.mark.parametrize("limit_s", [2.0, 60.0, 1000.0])
def test_an_endpoint_that_never_answers_is_given_up_after_the_time_to_give_up(give_up_s: float, limit_s: float) -> None:
    at = gate(give_up_s=give_up_s, request_s=120.0)

    async def verdicts() -> None:
        while not at.given_up:
            limit = TimeLimit(limit_s)
            with limit.within(), suppress(openai.APITimeoutError, EndpointDown):
                await at.send(anyio.sleep_forever, limit)

    assert give_up_s <= run_virtually(all_at_once, 4, verdicts) <= give_up_s + 1.0


def test_one_slow_reply_after_a_good_one_may_take_as_long_as_a_request_may() -> None:
    at = gate(give_up_s=5.0, request_s=120.0)

    async def work() -> float:
        await at.send(Bucket(100, 100, latency_s=0.1))
        await at.send(Bucket(100, 100, latency_s=60.0))
        return anyio.current_time()

    assert run_virtually(work) > 60


def test_an_endpoint_that_comes_back_lets_all_who_wait_in() -> None:
    told = Notes()
    at, replies = gate(told), 0

    async def back_after_100_s() -> None:
        if anyio.current_time() < 100:
            await down()
        await anyio.sleep(0.1)

    async def verdict() -> None:
        nonlocal replies
        while True:
            try:
                await at.send(back_after_100_s)
            except openai.APIConnectionError:
                continue
            replies += 1
            return

    seconds = run_virtually(all_at_once, 20, verdict)
    assert replies == 20
    assert seconds < 165  # tries are a minute apart at most
    assert told.notes[-1] == "host answers again"


def test_of_the_calls_that_wait_for_an_endpoint_that_is_down_the_one_that_has_waited_longest_tries() -> None:
    breaker, tries = Breaker("host", 300.0, lambda _: None, lambda _why, _kind: None), list[int]()

    async def caller(number: int) -> None:
        await anyio.sleep(number / 10)
        if await breaker.wait():
            tries.append(number)
            breaker.failed("down", anyio.current_time()) if number < 3 else breaker.replied()
            breaker.tried()

    async def callers() -> None:
        for _ in range(FAILURES):
            breaker.failed("down", anyio.current_time())
        async with anyio.create_task_group() as tasks:
            for number in (3, 1, 0, 5, 2, 4):
                tasks.start_soon(caller, number)

    run_virtually(callers)
    assert tries == [0, 1, 2, 3]


def test_the_others_may_try_where_the_call_that_tried_was_cancelled() -> None:
    at = gate()

    async def cancelled_while_it_tries() -> None:
        with anyio.move_on_after(30):
            await at.send(anyio.sleep_forever)

    async def work() -> str | None:
        for _ in range(5):
            with pytest.raises(openai.APIConnectionError):
                await at.send(down)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cancelled_while_it_tries)
            return await at.send(Bucket(1, 1))

    assert run_virtually(work) == "reply"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1s", 1), ("20ms", 0.02), ("6m0s", 360), ("1h2m3s", 3723), ("1.5", 1.5), ("", None), ("soon", None), ("5", 5)],
)
def test_a_duration_is_read_as_openai_writes_it(text: str, seconds: float | None) -> None:
    assert duration_s(text) == (None if seconds is None else pytest.approx(seconds))  # pyright: ignore[reportUnknownMemberType]


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"x-ratelimit-remaining-requests": "3"}, 0.0),
        ({"x-ratelimit-remaining-requests": "0"}, None),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "10s"}, 10.0),
        (
            {
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-requests": "60s",
                "x-ratelimit-limit-requests": "60",
            },
            1.0,
        ),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "2s"}, 2.0),
        ({"x-ratelimit-remaining-requests": "many"}, None),
    ],
)
def test_the_room_that_is_left_is_read_from_a_replys_headers(headers: dict[str, str], seconds: float | None) -> None:
    assert room_left(headers) == seconds


def test_with_no_room_left_the_next_call_waits_without_a_429() -> None:
    at = gate()

    async def work() -> float:
        await at.send(Bucket(1, 1, latency_s=0))
        at.note_headers({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "4s"})
        await at.send(Bucket(1, 1, latency_s=0))
        return anyio.current_time()

    assert 4 <= run_virtually(work) <= 4.5
