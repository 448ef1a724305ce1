"""One policy says which calls are made again and after how long, for agent calls and judge calls alike."""

import random
from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx2
import openai
import pytest
import stamina
from agents import ModelRetryNormalizedError, RetryDecision, RetryPolicyContext

from harness.endpoints.retries import agent_retries, judge_retries, may_succeed_later, retry_after_s

RETRIES = 4
REQUEST = httpx2.Request("POST", "http://host/v1/chat/completions")


def refusal(status: int, code: str | None = None, **headers: str) -> openai.APIStatusError:
    response = httpx2.Response(status, headers={k.replace("_", "-"): v for k, v in headers.items()}, request=REQUEST)
    kind = openai.RateLimitError if status == 429 else openai.APIStatusError
    return kind("no", response=response, body={"code": code} if code else None)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry_after": "2.5"}, 2.5),
        ({"retry_after": "0"}, 0.0),
        ({"retry_after": "-1"}, None),
        ({"retry_after": "nan"}, None),
        ({"retry_after": "soon"}, None),
        ({"retry_after_ms": "1500", "retry_after": "9"}, 1.5),
        ({"retry_after": "Fri, 01 Jan 2027 00:00:30 GMT", "date": "Fri, 01 Jan 2027 00:00:00 GMT"}, 30.0),
        ({"retry_after": "Fri, 01 Jan 2027 00:00:00 GMT", "date": "Fri, 01 Jan 2027 00:00:30 GMT"}, 0.0),
        ({"retry_after": "Fri, 01 Jan 2027 00:00:30 GMT"}, None),
    ],
)
def test_retry_after_is_read_in_every_form_that_servers_send(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_s(refusal(429, **headers)) == seconds


def test_an_error_without_a_reply_asks_for_no_wait() -> None:
    assert retry_after_s(openai.APIConnectionError(request=REQUEST)) is None


@pytest.mark.parametrize(
    ("status", "no_reply", "again"),
    [
        *[(status, False, True) for status in (408, 409, 500, 503, 599)],
        *[(status, False, False) for status in (None, 400, 401, 403, 404, 422, 429)],
        (None, True, True),
    ],
)
def test_what_may_succeed_later_is_tried_again(status: int | None, no_reply: bool, again: bool):
    assert may_succeed_later(status, no_reply=no_reply) is again


def decided(error: openai.APIError, attempt: int = 1, *, answered: bool = True, seed: int = 1) -> Any:
    settings = agent_retries(RETRIES, random.Random(seed), lambda: answered, lambda: None)
    assert settings.policy
    normalized = ModelRetryNormalizedError(
        status_code=getattr(error, "status_code", None),
        error_code=error.code,
        is_network_error=isinstance(error, openai.APIConnectionError),
        is_timeout=isinstance(error, openai.APITimeoutError),
    )
    return settings.policy(
        RetryPolicyContext(error=error, attempt=attempt, max_retries=RETRIES, stream=False, normalized=normalized)
    )


def test_an_agents_call_waits_as_long_as_the_server_asks_and_a_minute_at_most() -> None:
    assert decided(refusal(502, retry_after="7")) == RetryDecision(retry=True, delay=7.0)
    assert decided(refusal(503, retry_after="3600")) == RetryDecision(retry=True, delay=60.0)


def test_without_a_wish_of_the_server_the_wait_doubles_and_is_spread() -> None:
    for attempt, middle in ((1, 0.5), (2, 1.0), (5, 8.0)):
        waits = {decided(refusal(500), attempt, seed=seed).delay for seed in range(20)}
        assert len(waits) == 20
        assert all(middle / 2 <= wait <= middle * 1.5 for wait in waits)


def test_an_empty_account_a_rate_limit_and_a_bad_request_are_not_asked_again() -> None:
    assert decided(refusal(429, "insufficient_quota", retry_after="1")) is False
    assert decided(refusal(429, retry_after="1")) is False  # the endpoint's gate has waited already
    assert decided(refusal(400)) is False


def test_an_address_that_never_answered_is_tried_once_more_only() -> None:
    lost, late = openai.APIConnectionError(request=REQUEST), openai.APITimeoutError(REQUEST)
    assert decided(lost, answered=False)
    assert decided(lost, 2, answered=False) is False
    assert decided(lost, 2)
    assert decided(late, 2, answered=False)


def attempts_made(error: Exception, *, answered: bool) -> list[int]:
    """Return the numbers of a judge call's attempts, each of which ends in `error`, which is raised at last.

    `answered` says whether the judge's endpoint has given a reply before.
    """
    made: list[int] = []

    async def ask() -> None:
        async for attempt in judge_retries(RETRIES, lambda: answered):
            with attempt:
                made.append(attempt.num)
                raise error

    with stamina.set_testing(testing=True, attempts=RETRIES + 1), pytest.raises(type(error)):
        anyio.run(ask)
    return made


@pytest.mark.parametrize(
    ("error", "attempts"),
    [
        (refusal(503), RETRIES + 1),
        (refusal(429), 1),
        (openai.APIConnectionError(request=REQUEST), RETRIES + 1),
        (refusal(429, "insufficient_quota"), 1),
        (refusal(400), 1),
        (ValueError("no error of an endpoint"), 1),
    ],
)
def test_a_judges_call_is_tried_again_for_the_same_causes(error: Exception, attempts: int) -> None:
    assert attempts_made(error, answered=True) == list(range(1, attempts + 1))


@pytest.mark.parametrize(
    ("error", "attempts"),
    [(openai.APIConnectionError(request=REQUEST), 2), (openai.APITimeoutError(REQUEST), RETRIES + 1)],
)
def test_a_judges_address_that_never_answered_is_tried_once_more_only(error: Exception, attempts: int) -> None:
    assert attempts_made(error, answered=False) == list(range(1, attempts + 1))


def test_a_judges_call_waits_as_long_as_the_server_asks() -> None:
    async def ask() -> float:
        started = anyio.current_time()
        async for attempt in judge_retries(RETRIES, lambda: True):
            with attempt:
                if attempt.num == 1:
                    raise refusal(503, retry_after_ms="80")
        return anyio.current_time() - started

    assert 0.08 <= anyio.run(ask) < 1.0


def test_a_judges_retries_go_to_our_log_and_the_users_own_stay_where_they_were(caplog: pytest.LogCaptureFixture):
    for name in ("stamina", "arena-harness"):  # a command may have silenced them
        caplog.set_level("INFO", name)

    async def twice(attempts: AsyncIterator[stamina.Attempt]) -> None:
        async for attempt in attempts:
            with attempt:
                if attempt.num == 1:
                    raise refusal(503, retry_after_ms="1")

    def users_own() -> AsyncIterator[stamina.Attempt]:
        return stamina.retry_context(on=openai.APIStatusError, attempts=2, wait_initial=0, wait_jitter=0).__aiter__()

    for attempts in (
        lambda: judge_retries(RETRIES, lambda: True),
        users_own,
        lambda: judge_retries(RETRIES, lambda: True),
    ):
        anyio.run(twice, attempts())
    assert [(record.name, record.levelname) for record in caplog.records] == [
        ("arena-harness", "INFO"),
        ("stamina", "WARNING"),
        ("arena-harness", "INFO"),
    ]
