"""What comes back from an endpoint reaches the verdict whole, whatever is in it."""

import json
from collections.abc import Callable
from random import Random
from typing import Any

import anyio
import httpx2
import pytest
from pydantic import SecretStr

from harness.archive.store import MemoryStore
from harness.core.errors import Refused
from harness.core.progress import Silent, now
from harness.core.rankings import VERDICT, Judged, Unjudged
from harness.core.settings import Api
from harness.endpoints.address import Endpoint
from harness.endpoints.costs import Priced
from harness.endpoints.gate import Gate, Patience
from harness.endpoints.reply_body import model_reply
from harness.judging.endpoint import EndpointAsk
from harness.judging.judge_model import JudgeModel
from harness.judging.judges import PairwiseJudge
from tests.fake_endpoint import FakeEndpoint, Page, Raw, Refuse, Say, Torn, chat_reply, verdict
from tests.judging.replies import WRITING
from tests.judging.scripted import ONE, TASK, TWO


def ask(endpoint: FakeEndpoint, api: Api = "chat") -> tuple[Judged | Unjudged, MemoryStore]:
    store = MemoryStore()

    async def go() -> Judged | Unjudged:
        there = Endpoint(base_url=endpoint.base_url, key=SecretStr("sk-test"), api=api)
        door = EndpointAsk(there, "m", Gate("it", Patience(), Random(0), Silent()), retries=1, limit=1)
        pricing = Priced("m", None, free=True)
        model = JudgeModel(door, identity="m@host", pricing=pricing, keep=store.put_blob, clock=now)
        try:
            return await PairwiseJudge(model, WRITING)(TASK, ONE, TWO)
        finally:
            await door.aclose()

    return anyio.run(go), store


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_half_a_surrogate_pair_in_a_reply_costs_neither_the_verdict_nor_the_raw_reply(
    endpoint: FakeEndpoint, api: Api
) -> None:
    text = verdict(7, 5)[:-1] + ', "note": "half a pair: \ud83d"}'
    endpoint.judge = lambda _: Say(text)
    found, store = ask(endpoint, api)
    assert isinstance(found, Judged)
    assert (found.winner, len(endpoint.of_judge)) == ("A", 1)
    assert "\\ud83d" in store.blobs[found.raw_replies[0]]
    VERDICT.dump_json(found)


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_calls_carry_a_key_under_which_the_provider_finds_its_prompt_cache(endpoint: FakeEndpoint, api: Api) -> None:
    ask(endpoint, api)
    ask(endpoint, api)
    keys = {seen.body["prompt_cache_key"] for seen in endpoint.of_judge}
    assert len(keys) == 1
    assert all(len(key) <= 64 for key in keys)


@pytest.mark.parametrize("words", ["extra fields are not permitted", "Unsupported parameter: prompt_cache_key"])
def test_an_endpoint_that_refuses_the_key_is_asked_without_it(endpoint: FakeEndpoint, words: str) -> None:
    endpoint.judge = lambda seen: Refuse(422, words) if "prompt_cache_key" in seen.body else Say(verdict(7, 5))
    found, _ = ask(endpoint)
    assert isinstance(found, Judged)
    assert len(endpoint.of_judge) == 2
    assert endpoint.of_judge[-1].body["response_format"]["type"] == "json_schema"


@pytest.mark.few(4)
@pytest.mark.parametrize(
    "body",
    [
        "Bad gateway",
        '{"choices": ',
        "[1]",
        "null",
        {"choices": []},
        {"choices": [7]},
        {"choices": [{"message": None, "finish_reason": 3}], "usage": "much"},
        {"output": [None, {"type": "message", "content": [{"type": "output_text", "text": 5}]}]},
    ],
)
def test_a_reply_of_any_shape_is_kept_and_fails_the_verdict_alone(endpoint: FakeEndpoint, body: Any) -> None:
    endpoint.judge = lambda _: Page(body) if isinstance(body, str) else Raw(body)
    unjudged, store = ask(endpoint)
    assert isinstance(unjudged, Unjudged)
    assert unjudged.failure.kind in {"api", "output"}
    assert set(unjudged.raw_replies) == set(store.blobs) != set()


def test_a_page_at_the_first_call_is_a_wrong_address_and_later_it_is_kept(endpoint: FakeEndpoint) -> None:
    endpoint.judge = lambda _: Page()
    with pytest.raises(Refused, match=r"gives no model's replies .*web page: '<html>Bad gateway</html>'.* end in /v1"):
        ask(endpoint)
    endpoint.judge = lambda seen: Page() if seen.items[1:] else Say("no verdict")
    unjudged, store = ask(endpoint)
    assert isinstance(unjudged, Unjudged)
    assert (unjudged.failure.kind, unjudged.failure.type) == ("api", "NoReply")
    assert store.blobs[unjudged.raw_replies[-1]] == "<html>Bad gateway</html>"


@pytest.mark.parametrize("api", ["chat", "responses"])
@pytest.mark.parametrize("framed", [True, False])
def test_a_reply_that_is_cut_short_is_asked_for_again(endpoint: FakeEndpoint, api: Api, framed: bool) -> None:
    whole = Say(verdict(7, 5))
    endpoint.judge = lambda _: Torn(whole, framed) if len(endpoint.of_judge) == 1 else whole
    judged, _ = ask(endpoint, api)
    assert isinstance(judged, Judged)
    assert len(endpoint.of_judge) == 2


REFUSED = {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"status": "completed", "output": [REFUSED]}, "refusal"),
        ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}, "output": []}, "content_filter"),
        ({"choices": [{"message": {"content": None, "refusal": "No."}}]}, "refusal"),
        ({"choices": [{"message": None, "finish_reason": "content_filter"}]}, "content_filter"),
    ],
)
def test_a_judge_that_refuses_or_is_filtered_says_so_by_either_api(
    endpoint: FakeEndpoint, body: dict[str, Any], kind: str
) -> None:
    endpoint.judge = lambda _: Raw(body)
    unjudged, _ = ask(endpoint, "chat" if "choices" in body else "responses")
    assert isinstance(unjudged, Unjudged)
    assert unjudged.failure.kind == kind


def test_a_reply_that_is_not_called_json_is_read_all_the_same(endpoint: FakeEndpoint) -> None:
    endpoint.judge = lambda seen: Page(json.dumps(chat_reply(Say(verdict(7, 5)), seen.body, 1)))
    judged, _ = ask(endpoint)
    assert isinstance(judged, Judged)


def in_parts(reply: dict[str, Any]) -> dict[str, Any]:
    """Return a reply whose text is a list of parts."""
    (choice,) = reply["choices"]
    parts = [{"type": "text", "text": text} for text in choice["message"]["content"].partition(",")]
    return reply | {"choices": [choice | {"message": choice["message"] | {"content": parts}}]}


@pytest.mark.parametrize(
    "change", [lambda reply: reply | {"output": None}, lambda reply: reply | {"output": []}, in_parts]
)
def test_a_chat_reply_is_read_with_members_of_another_api_and_with_its_text_in_parts(
    endpoint: FakeEndpoint, change: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    endpoint.judge = lambda seen: Raw(change(chat_reply(Say(verdict(7, 5)), seen.body, 1)))
    judged, _ = ask(endpoint)
    assert isinstance(judged, Judged)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_body_in_any_encoding_of_unicode_is_read(encoding: str) -> None:
    request = httpx2.Request("POST", "http://host/v1")
    body = {"choices": [{"message": {"content": "é"}}]}
    assert model_reply(json.dumps(body, ensure_ascii=False).encode(encoding), request) == body
