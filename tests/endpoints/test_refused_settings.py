"""A setting that a model refuses is learnt from one call, by its name in `param` or in the message."""

from typing import Any

import anyio
import httpx2
import openai
import pytest
from agents import ModelSettings
from openai.types.shared import Reasoning

from harness.core.errors import Refused
from harness.endpoints.refused_settings import (
    REFUSABLE,
    FirstAlone,
    RefusedSettings,
    SettingLesson,
    limits_in,
    refused_setting,
    seed_in,
    values_set,
    with_seed,
    without,
)
from harness.endpoints.retries import TimeLimit
from tests.virtual_time import run_virtually

SENT = {"temperature": 0.8, "seed": 7}


def bad_request(
    message: str = "no", param: str | None = None, status: int = 400, body: Any = None
) -> openai.APIStatusError:
    response = httpx2.Response(status, request=httpx2.Request("POST", "http://host/v1"))
    kind: type[openai.APIStatusError] = {400: openai.BadRequestError, 422: openai.UnprocessableEntityError}.get(
        status, openai.APIStatusError
    )
    return kind(message, response=response, body=body or {"message": message, "param": param})


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (bad_request(param="seed"), "seed"),
        (bad_request("Temperature is not supported"), "temperature"),
        (bad_request("no seed here", status=422), "seed"),
        (bad_request("temperature", param="messages"), None),
        (bad_request("something else"), None),
        (bad_request(body="seed: no such setting"), "seed"),
        (bad_request(status=422, body={"detail": [{"loc": ["body", "seed"], "msg": "Extra", "input": 7}]}), "seed"),
        (bad_request(status=422, body={"detail": [{"loc": ["user"], "msg": "Missing", "input": SENT}]}), None),
        (bad_request("temperature", status=500), None),
        (ValueError("temperature"), None),
        (None, None),
    ],
)
def test_the_setting_is_the_one_in_param_else_one_that_the_message_names(error: Any, name: str | None) -> None:
    assert refused_setting(error, SENT) == name


def test_each_refusal_is_told_once_and_counts_for_its_model_only() -> None:
    notes: list[str] = []
    refused = RefusedSettings(notes.append)
    for _ in range(2):
        assert refused.learn("m", bad_request(param="temperature"), SENT)
    assert not refused.learn("m", bad_request(), SENT)
    (note,) = notes
    assert note == (
        "model 'm' refuses the setting temperature: going on without it; its anchor is not greedy, and --vary names "
        "other ways in which samples may differ"
    )
    assert (set(refused.of("m")), set(refused.of("other"))) == ({"temperature"}, set())


def test_a_strict_temperature_is_an_error_and_another_setting_is_not() -> None:
    refused = RefusedSettings(strict=True)
    assert refused.learn("m", bad_request(param="seed"), SENT)
    with pytest.raises(Refused, match="'m' refuses the setting temperature"):
        refused.learn("m", bad_request(param="temperature"), SENT)


RANGES = (
    ("temperature must be between 0 and 1", (0.0, 1.0)),
    ("temperature: range: 0..1", (0.0, 1.0)),
    ("Temperature should be in [0.01, 1.5]", (0.01, 1.5)),
    ("Invalid 'temperature': decimal above maximum value. Expected a value <= 1, but got 1.4 instead.", (0.0, 1.0)),
)


@pytest.mark.parametrize(("message", "limits"), RANGES)
def test_a_range_is_no_refusal_and_values_beyond_go_out_at_its_end(message: str, limits: tuple[float, float]) -> None:
    assert limits_in(message) == limits
    notes: list[str] = []
    shared: list[SettingLesson] = []
    refused, other = RefusedSettings(notes.append), RefusedSettings()
    refused.share = shared.append
    sent = {"temperature": 1.6, "seed": 7}
    for _ in range(2):  # also of a call that was under way when the first one was answered
        assert refused.learn("m", bad_request(message, "temperature"), sent)
    least, most = limits
    takes = f"model 'm' takes temperature from {least:g} to {most:g}"
    assert notes == [f"{takes}: calls that ask for 1.6 go out with {most:g}"]
    other.note(*shared)
    for known in (refused, other):
        asked = [known.allowed("m", ModelSettings(temperature=t)).temperature for t in (1.6, 0.5, 0.0)]
        assert asked == [most, 0.5, least]
        assert known.of("m") == {}
    assert refused.learn("m", bad_request(message, "temperature"), {"temperature": most})
    assert refused.allowed("m", ModelSettings(temperature=1.6)).temperature is None, "its own limits do not help"


def test_a_strict_temperature_beyond_a_range_is_an_error_that_names_the_range() -> None:
    with pytest.raises(Refused, match=r"takes temperature from 0 to 1, not 1\.6, .*name --temperature within"):
        RefusedSettings(strict=True).learn("m", bad_request(RANGES[0][0]), {"temperature": 1.6})


LEFT = ModelSettings(temperature=0.8, reasoning=Reasoning())


def sent_of(refused: RefusedSettings) -> tuple[float | None, str | None]:
    """What goes out of LEFT: the temperature and the effort."""
    allowed = refused.allowed("m", LEFT)
    return allowed.temperature, allowed.reasoning and allowed.reasoning.effort


@pytest.mark.parametrize(
    ("then", "sent", "said"),
    [
        (None, (0.8, "none"), ""),
        (bad_request(param="temperature"), (None, None), "going on without it"),
        (bad_request("Unsupported value: 'none'", "reasoning.effort"), (None, None), "going on without it"),
        (bad_request("reasoning_effort: unknown field"), (None, None), "going on without it"),
        (bad_request("an item of type 'reasoning' is missing"), (0.8, "none"), ""),
    ],
)
def test_where_an_agent_leaves_its_reasoning_open_a_refused_temperature_is_tried_without(
    then: openai.APIStatusError | None, sent: tuple[float | None, str | None], said: str
) -> None:
    notes: list[str] = []
    shared: list[SettingLesson] = []
    refused, other = RefusedSettings(notes.append), RefusedSettings()
    refused.share = shared.append
    assert sent_of(refused) == (0.8, None)
    for _ in range(2):  # also of a call that was under way when the first one was answered
        assert refused.learn("m", bad_request(param="temperature"), {"temperature": 0.8}, reasons=True)
    assert notes == ["model 'm' takes no temperature beside reasoning: trying it without reasoning"]
    if then:
        assert refused.learn("m", then, {"temperature": 0.8}, reasons=False) is bool(said)
    assert said in notes[-1]
    for lesson in shared:
        other.note(lesson)
    assert sent_of(refused) == sent_of(other) == sent
    own = ModelSettings(temperature=0.8, reasoning=Reasoning(effort="high"))
    assert refused.allowed("m", own).reasoning == own.reasoning, "the agent's own word counts"


@pytest.mark.parametrize("message", ["temperature is not supported", "only temperature 1 is supported", "range 1 to 0"])
def test_a_message_without_a_range_has_none(message: str) -> None:
    assert limits_in(message) is None


def test_settings_lose_what_is_refused_and_keep_the_rest() -> None:
    settings = with_seed(
        ModelSettings(temperature=0.5, top_p=0.9, max_tokens=5, include_usage=True, extra_body={"top_k": 2}), 7
    )
    assert (tuple(values_set(settings)), seed_in(settings)) == (REFUSABLE, 7)
    assert without(settings, ()) is settings
    bare = without(settings, REFUSABLE)
    assert (values_set(bare), bare.max_tokens, bare.extra_body) == ({}, 5, {"top_k": 2})
    assert without(with_seed(ModelSettings(), 7), ["seed"]).extra_body is None
    assert with_seed(settings, None) is settings


def test_the_first_call_of_a_kind_goes_alone_and_after_a_failure_the_next_one_does() -> None:
    together: list[int] = []
    under_way = 0

    async def call(number: int) -> None:
        nonlocal under_way
        under_way += 1
        together.append(under_way)
        await anyio.sleep(0.01)
        under_way -= 1
        if number == 0:
            raise ValueError

    async def go(first: FirstAlone, number: int) -> None:
        try:
            await first.send("kind", lambda: call(number))
        except ValueError:
            assert number == 0

    async def main() -> None:
        first = FirstAlone()
        async with anyio.create_task_group() as tasks:
            for number in range(5):
                tasks.start_soon(go, first, number)
        assert first.answered == {"kind"}

    anyio.run(main)
    assert together[:2] == [1, 1]
    assert max(together) == 3


@pytest.mark.parametrize(("limit_s", "wait_s"), [(1.0, 1.0), (2.0, 2.0), (30.0, 5.0)])
def test_a_first_call_that_hangs_holds_nobody_up_for_longer_than_its_own_time_and_on_nobodys_clock(
    limit_s: float, wait_s: float
) -> None:
    first, sent_at, ended_at, spent = FirstAlone(), list[float](), list[float](), list[float]()

    async def hang() -> None:
        sent_at.append(anyio.current_time())
        await anyio.sleep_forever()

    async def verdict() -> None:
        limit = TimeLimit(limit_s)
        with limit.within():
            await first.send("kind", hang, limit)
        ended_at.append(anyio.current_time())
        spent.append(limit.spent_s)

    async def verdicts() -> None:
        async with anyio.create_task_group() as tasks:
            for _ in range(28):
                tasks.start_soon(verdict)
        await verdict()  # a later one goes at once

    run_virtually(verdicts)
    assert sent_at == [0.0, *[wait_s] * 27, wait_s + limit_s]
    assert ended_at == [limit_s, *[wait_s + limit_s] * 27, wait_s + 2 * limit_s]
    assert spent == [limit_s] * 29


def eight_calls_that_fail(error: openai.OpenAIError, after_s: float) -> list[float]:
    """Return when each of eight calls of one kind was sent; all come at once, and each fails `after_s` it was sent."""
    first, sent_at = FirstAlone(), list[float]()

    async def fail() -> None:
        sent_at.append(anyio.current_time())
        await anyio.sleep(after_s)
        raise error

    async def verdict() -> None:
        with pytest.raises(type(error)):
            await first.send("kind", fail)

    async def verdicts() -> None:
        async with anyio.create_task_group() as tasks:
            for _ in range(8):
                tasks.start_soon(verdict)

    run_virtually(verdicts)
    return sent_at


def test_a_first_call_that_times_out_at_the_client_opens_the_gate_for_all_who_wait() -> None:
    timed_out = openai.APITimeoutError(httpx2.Request("POST", "http://host/v1"))
    assert eight_calls_that_fail(timed_out, after_s=1) == [0.0, *[1.0] * 7]


def test_first_calls_that_fail_one_after_another_go_alone_for_five_seconds_altogether() -> None:
    assert eight_calls_that_fail(bad_request(), after_s=2) == [0.0, 2.0, 4.0, *[5.0] * 5]
