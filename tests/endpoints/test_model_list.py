"""The list of models that an endpoint gives: read with distrust, and never a reason to fail."""

import json
from datetime import date
from typing import Any

import pytest
from pydantic import SecretStr

from harness.endpoints.address import Endpoint
from harness.endpoints.client import openai_client
from harness.endpoints.model_list import ModelList, list_models
from tests.fake_endpoint import FakeEndpoint, Page, Refuse

pytestmark = pytest.mark.anyio
TODAY = date(2026, 11, 26)


async def listed(endpoint: FakeEndpoint, given: Any) -> ModelList | None:
    endpoint.models = given
    there = Endpoint(base_url=endpoint.base_url, api="chat", key=SecretStr("sk-own"))
    async with openai_client(there) as client:
        return await list_models(client)


async def test_names_and_shutdown_dates_are_read_with_the_endpoints_own_key(endpoint: FakeEndpoint):
    read = await listed(endpoint, ["a", {"id": "b", "shutdown_date": "2026-12-11"}])
    assert read == ModelList({"a": None, "b": date(2026, 12, 11)})
    assert endpoint.lists_read == ["sk-own"]


@pytest.mark.parametrize(
    "entry",
    [5, None, [], {}, {"id": 5}, {"id": ""}, {"id": "a\x1b[2J"}, {"id": "a\nb"}, {"id": "a" * 201}, {"id": "a\u202eb"}],
    ids=repr,
)
async def test_an_entry_that_names_no_model_is_left_out(endpoint: FakeEndpoint, entry: Any):
    assert await listed(endpoint, [entry, {"id": "b"}]) == ModelList({"b": None})
    assert await listed(endpoint, [entry]) is None


@pytest.mark.parametrize(
    "day", [5, None, "", "soon", "2026-13-01", "20261211", "2026-12-11T00:00:00", "２０２６-12-11"]
)
async def test_a_shutdown_date_that_is_no_day_is_none(endpoint: FakeEndpoint, day: Any):
    assert await listed(endpoint, [{"id": "b", "shutdown_date": day}]) == ModelList({"b": None})


@pytest.mark.parametrize(
    "given",
    [
        Refuse(404),
        Refuse(401),
        Refuse(500),
        Refuse(302, headers={"location": "http://127.0.0.1:9/v1/models"}),
        Page(),
        "",
        "[]",
        "5",
        '{"data": {}}',
        '{"models": []}',
        "[" * 100_000,
        '{"data": "' + "a" * 4_000_000 + '"}',
    ],
    ids=lambda given: str(given)[:30],
)
async def test_what_is_no_list_is_none_and_no_error(endpoint: FakeEndpoint, given: Any):
    assert await listed(endpoint, given) is None


async def test_an_endpoint_that_is_down_has_no_list():
    there = Endpoint(base_url="http://127.0.0.1:9/v1", api="chat", key=SecretStr("none"))
    async with openai_client(there) as client:
        assert await list_models(client) is None


async def test_of_a_long_list_the_first_thousands_are_kept(endpoint: FakeEndpoint):
    read = await listed(endpoint, json.dumps({"data": [{"id": f"m{n}"} for n in range(6000)]}))
    assert read is not None
    assert len(read.names) == 5000


@pytest.mark.parametrize(
    ("day", "said"),
    [
        (None, None),
        (date(2027, 1, 26), None),
        (date(2027, 1, 25), "m shuts down on 2027-01-25"),
        (TODAY, "m shuts down on 2026-11-26"),
        (date(2026, 11, 25), "m shut down on 2026-11-25"),
    ],
)
def test_a_shutdown_is_said_from_sixty_days_before(day: date | None, said: str | None):
    assert ModelList({"m": day}).shutdown_soon("m", TODAY) == said
    assert ModelList({"m": day}).shutdown_soon("other", TODAY) is None


def test_a_model_of_ollama_is_listed_with_and_without_its_tag():
    assert ModelList({"qwen3:latest": None}).has("qwen3")
    assert ModelList({"qwen3": None}).has("qwen3:latest")
    assert not ModelList({"qwen3:8b": None}).has("qwen3")


def test_a_name_that_is_not_listed_gets_the_nearest_that_is():
    some = ModelList({"gpt-5.2": None, "gpt-6-luna": None})
    assert some.near("gpt-5.2-mini") == "; did you mean 'gpt-5.2'?"
    assert some.near("gpt-5.2") == some.near("zebra") == ""
