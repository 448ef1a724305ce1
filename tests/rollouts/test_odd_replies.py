"""Replies with success whose members are of a strange kind: what can be read is, and else the server is to blame."""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.core.settings import Api
from tests.fake_endpoint import FakeEndpoint, Raw, Reaction, Say, Seen, verdict
from tests.rollouts.test_bad_bodies import SEARCH, by_query, key, run

__all__ = ["key"]
WAYS = pytest.mark.parametrize(("api", "tokens"), [("chat", "off"), ("chat", "auto"), ("responses", "off")])
COUNTS: dict[Api, tuple[str, str]] = {
    "chat": ("prompt_tokens", "completion_tokens"),
    "responses": ("input_tokens", "output_tokens"),
}
USAGE: dict[str, tuple[Any, tuple[int | None, int | None]]] = {
    "words": ({"into": "many", "out": None, "total_tokens": [1]}, (None, None)),
    "halves": ({"into": 1.5, "out": 2, "total_tokens": 3.5}, (None, 2)),
    "infinite": ({"into": float("inf"), "out": 2, "total_tokens": 2}, (None, 2)),
    "no number": ({"into": float("nan"), "out": 2, "total_tokens": 2}, (None, 2)),
    "a list": ([1, 2], (None, None)),
    "a text": ("x", (None, None)),
    "nothing": ({}, (None, None)),
    "gateways": ({"into": 5.0, "out": "2"}, (5, 2)),
    "odd details": ({"into": 5, "out": 2, "total_tokens": 7, "into_details": "x", "out_details": [3]}, (5, 2)),
    "odd counts": ({"into": 5, "out": 2, "into_details": {"cached_tokens": "x"}, "out_details": {}}, (5, 2)),
}
CALL = {"id": "c", "type": "function", "function": {"name": "search", "arguments": "{}"}}
BAD_MESSAGES: dict[str, Any] = {
    "no message": None,
    "a list for a message": [],
    "a number for text": {"content": 7},
    "a number among parts": {"content": [7]},
    "a number for a part's text": {"content": [{"type": "text", "text": 7}]},
    "a word for calls": {"tool_calls": "zz"},
    "a number for a call": {"tool_calls": [3]},
    "a call without arguments": {"tool_calls": [CALL | {"function": {"name": "search"}}]},
    "a call without id": {"tool_calls": [CALL | {"id": None}]},
    "a number for a refusal": {"refusal": 7},
}
BAD_OUTPUT: dict[str, Any] = {
    "a number for an item": [3],
    "text for content": [{"type": "message", "role": "assistant", "content": "x"}],
    "a number for text": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": 7}]}],
    "a call without arguments": [{"type": "function_call", "name": "search", "call_id": "c"}],
    "a call with an empty id": [{"type": "function_call", "name": "search", "call_id": "", "arguments": "{}"}],
    "a call of another kind without id": [{"type": "custom_tool_call", "name": "search", "input": ""}],
    "text for a summary": [{"type": "reasoning", "summary": "x"}],
    "null in a summary": [{"type": "reasoning", "summary": [None]}],
    "text for an action": [{"type": "web_search_call", "action": "x"}],
}
LOGPROB: dict[str, Any] = {"token": "Seen.", "logprob": -0.5}
CITATION = {"type": "url_citation", "url_citation": {"url": 7, "title": [], "start_index": "a"}}
GOOD_BESIDE: dict[str, tuple[Any, Any]] = {
    "nothing": (None, None),
    "empty": ([], []),
    "no alternatives": ([CITATION], [LOGPROB]),
    "alternatives": ([{"type": "file_citation"}], [LOGPROB | {"bytes": [83], "top_logprobs": [LOGPROB]}]),
}
BAD_BESIDE: dict[str, tuple[Any, Any]] = {
    "a text for annotations": ("x", None),
    "a number for annotations": (7, None),
    "null for an annotation": ([None], None),
    "an annotation without a type": ([{"type": 7}], None),
    "a text for logprobs": (None, "x"),
    "a number for logprobs": (None, 7),
    "null for a logprob": (None, [None]),
    "a logprob without a number": (None, [{"token": "a", "logprob": "x"}]),
    "a logprob without a token": (None, [{"logprob": -0.5}]),
    "a number for alternatives": (None, [LOGPROB | {"top_logprobs": 5}]),
    "a text for bytes": (None, [LOGPROB | {"bytes": "z"}]),
}
EVENTS = {"empty": "", "one event": 'data: {"id": "x", "choices": [{"delta": {"content": "Hi"}}]}\n\ndata: [DONE]\n\n'}


def chat(message: Any, **more: Any) -> Raw:
    return Raw({"model": "m", "choices": [{"message": message}], **more})


def response(output: Any, **more: Any) -> Raw:
    return Raw({"model": "m", "status": "completed", "output": output, **more})


def answering(api: Api, text: str, **more: Any) -> Raw:
    if api == "chat":
        return chat({"content": text}, **more)
    part = {"type": "output_text", "text": text, "annotations": []}
    return response([{"type": "message", "role": "assistant", "content": [part]}], **more)


def beside(api: Api, annotations: Any, logprobs: Any) -> Raw:
    """Return a good answer with annotations and logprobs where the API has them."""
    if api == "chat":
        told: Any = {"content": logprobs} if isinstance(logprobs, list) else logprobs
        choice: Any = {"message": {"content": "Seen.", "annotations": annotations}, "logprobs": told}
        return Raw({"model": "m", "choices": [choice]})
    part = {"type": "output_text", "text": "Seen.", "annotations": annotations, "logprobs": logprobs}
    return response([{"type": "message", "role": "assistant", "content": [part]}])


def renamed(usage: Any, api: Api) -> Any:
    if not isinstance(usage, dict):
        return usage
    into, out = COUNTS[api]
    return {k.replace("into", into).replace("out", out): v for k, v in usage.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]


def failures(folder: Path, reactions: Mapping[str, Reaction], **settings: Any) -> dict[str, tuple[Any, ...]]:
    """Return how rollouts fail that search first, and then get what the question names."""

    def script(seen: Seen) -> Reaction:
        return reactions[seen.user] if seen.tool_outputs else Say(calls=SEARCH)

    with FakeEndpoint(script).serving() as server:
        made = run(folder, server.base_url, queries=reactions, retries=0, concurrency=1, **settings)
    of = {what: rollout.failure for what, rollout in by_query(made).items()}
    return {what: (failure.kind, failure.type) if failure else ("ok",) for what, failure in of.items()}


@WAYS
def test_usage_that_counts_nothing_is_left_out_and_the_reply_is_good(api: Api, tokens: str, tmp_path: Path) -> None:
    server = FakeEndpoint(lambda seen: answering(api, "Seen.", usage=renamed(USAGE[seen.user][0], api)))
    with server.serving():
        made = run(tmp_path, server.base_url, queries=USAGE, api=api, tokens=tokens, retries=0)
    rollouts = by_query(made)
    assert {what: (r.status, r.trajectory.answer) for what, r in rollouts.items()} == dict.fromkeys(
        USAGE, ("ok", "Seen.")
    )
    assert {what: (r.usage.input, r.usage.output) for what, r in rollouts.items()} == {
        what: counts for what, (_, counts) in USAGE.items()
    }


@pytest.mark.parametrize("tokens", ["off", "auto"])
def test_a_chat_message_of_strange_members_is_the_servers_failure(tokens: str, tmp_path: Path) -> None:
    reactions = {what: chat(message) for what, message in BAD_MESSAGES.items()}
    assert failures(tmp_path, reactions, tokens=tokens) == dict.fromkeys(reactions, ("api", "NoReply"))


def test_a_response_of_strange_items_is_the_servers_failure(tmp_path: Path) -> None:
    reactions = {what: response(output) for what, output in BAD_OUTPUT.items()}
    assert failures(tmp_path, reactions, api="responses") == dict.fromkeys(reactions, ("api", "NoReply"))


APIS = pytest.mark.parametrize("api", ["chat", "responses"])


@APIS
def test_annotations_and_logprobs_of_a_strange_kind_are_the_servers_failure(api: Api, tmp_path: Path) -> None:
    reactions = {what: beside(api, *of) for what, of in BAD_BESIDE.items()}
    assert failures(tmp_path, reactions, api=api) == dict.fromkeys(reactions, ("api", "NoReply"))


@APIS
def test_annotations_and_logprobs_that_tell_little_do_not_harm_an_answer(api: Api, tmp_path: Path) -> None:
    reactions = {what: beside(api, *of) for what, of in GOOD_BESIDE.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert failures(tmp_path, reactions, api=api) == dict.fromkeys(reactions, ("ok",))


def test_logprobs_of_a_strange_kind_that_the_harness_asked_for_do_no_harm(tmp_path: Path) -> None:
    with FakeEndpoint(lambda _: beside("chat", None, [None])).serving() as server:
        made = run(tmp_path, server.base_url, tokens="auto", retries=0)
    assert by_query(made)["Why?"].trajectory.answer == "Seen."


def test_a_response_that_is_not_done_is_the_servers_failure_and_no_empty_answer(tmp_path: Path) -> None:
    reactions = {
        status: Raw({"model": "m", "status": status, "output": []})
        for status in ("queued", "in_progress", "cancelled", "incomplete")
    }
    assert failures(tmp_path, reactions, api="responses") == dict.fromkeys(reactions, ("api", "NoReply"))


def test_a_reply_of_the_other_api_is_the_servers_failure(tmp_path: Path) -> None:
    reactions: dict[str, Reaction] = {"Why?": chat({"content": "Seen."})}
    assert failures(tmp_path / "responses", reactions, api="responses") == {"Why?": ("api", "NoReply")}
    reactions = {"Why?": response([])}
    assert failures(tmp_path / "chat", reactions, api="chat") == {"Why?": ("api", "NoReply")}


@APIS
@pytest.mark.few(2)
@pytest.mark.parametrize("name", [7, [1], {"a": 1}])
def test_what_is_no_name_of_a_reply_or_of_its_model_is_left_out(api: Api, name: Any, tmp_path: Path) -> None:
    with FakeEndpoint(lambda _: answering(api, "Seen.", id=name, model=name)).serving() as server:
        made = run(tmp_path, server.base_url, api=api, retries=0)
    assert by_query(made)["Why?"].trajectory.answer == "Seen."


@WAYS
def test_a_stream_that_was_not_asked_for_is_the_servers_failure(api: Api, tokens: str, tmp_path: Path) -> None:
    reactions = {what: Raw(text) for what, text in EVENTS.items()}
    assert failures(tmp_path, reactions, api=api, tokens=tokens) == dict.fromkeys(EVENTS, ("api", "NoReply"))


@pytest.mark.parametrize("tokens", ["off", "auto"])
def test_a_chat_answer_in_parts_is_read_without_a_warning(tokens: str, tmp_path: Path) -> None:
    parts = [{"type": "text", "text": "In "}, {"type": "thinking"}, {"type": "text", "text": "parts."}]
    with FakeEndpoint(lambda _: chat({"content": parts})).serving() as server, warnings.catch_warnings():
        warnings.simplefilter("error")
        made = run(tmp_path, server.base_url, tokens=tokens)
    assert by_query(made)["Why?"].trajectory.answer == "In parts."


def test_a_judges_reply_of_strange_members_is_asked_for_again(tmp_path: Path) -> None:
    bad = iter([chat(None), chat({"content": 7})])
    server = FakeEndpoint(judge=lambda _: next(bad, Say(verdict(7, 5))))
    with server.serving():
        made = run(tmp_path, server.base_url, n=2, topology="anchor", judge_model="j", retries=2, judge_concurrency=1)
    (ranked,) = made.ranking().groups
    assert ranked.status == "complete"
