"""Replies that do not fit the API's schema: what the client took stands in the archive, and is read as it was taken."""

import copy
import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, ModelResponse, function_tool
from pydantic import TypeAdapter

import harness
from harness.archive.reader import RunReader
from harness.archive.store import RunStore
from harness.cli.app import app
from harness.core.errors import ArchiveDamaged
from harness.core.progress import now
from harness.core.settings import Api
from harness.formats.turns import NoMessages, recorded_turns
from harness.pipeline.exporting.export import turns_from
from harness.rollouts.raw import RawCall, unpack
from tests.fake_endpoint import FakeEndpoint, Raw, Reaction, Say, Seen
from tests.rollouts.test_bad_bodies import key

__all__ = ["key"]
MARK = "zz-unknown"
CALL = {"type": "function_call", "id": "fc", "call_id": "c1", "name": "look", "arguments": "{}", "status": "completed"}
TEXT: dict[str, Any] = {"type": "output_text", "text": "Seen.", "annotations": []}
ITEMS: dict[str, dict[str, Any]] = {
    "message": {
        "type": "message",
        "id": "m",
        "role": "assistant",
        "status": "completed",
        "content": [
            TEXT
            | {
                "annotations": [{"type": "url_citation", "url": "u", "title": "t", "start_index": 0, "end_index": 1}],
                "logprobs": [{"token": "S", "logprob": -0.5, "bytes": [83], "top_logprobs": []}],
            },
            {"type": "refusal", "refusal": "No."},
        ],
    },
    "reasoning": {
        "type": "reasoning",
        "id": "r",
        "summary": [{"type": "summary_text", "text": "Short."}],
        "content": [{"type": "reasoning_text", "text": "Long."}],
        "encrypted_content": "xyz",
        "status": "completed",
    },
    "function_call": CALL,
    "web_search_call": {
        "type": "web_search_call",
        "id": "w",
        "status": "completed",
        "action": {"type": "search", "query": "q", "queries": ["q"], "sources": [{"type": "url", "url": "http://e"}]},
    },
    "file_search_call": {
        "type": "file_search_call",
        "id": "f",
        "status": "completed",
        "queries": ["q"],
        "results": [{"file_id": "f", "filename": "n", "score": 0.5, "text": "t", "attributes": {"a": 1}}],
    },
    "code_interpreter_call": {
        "type": "code_interpreter_call",
        "id": "i",
        "status": "completed",
        "code": "1",
        "container_id": "c",
        "outputs": [{"type": "logs", "logs": "1"}, {"type": "image", "url": "u"}],
    },
    "mcp_call": {
        "type": "mcp_call",
        "id": "p",
        "name": "n",
        "arguments": "{}",
        "server_label": "s",
        "output": "o",
        "error": {"type": "http_error", "code": 500, "message": "m"},
        "status": "completed",
    },
    "mcp_list_tools": {
        "type": "mcp_list_tools",
        "id": "l",
        "server_label": "s",
        "tools": [{"name": "n", "input_schema": {"type": "object"}, "annotations": {"a": 1}, "description": "d"}],
    },
    "image_generation_call": {"type": "image_generation_call", "id": "g", "status": "completed", "result": "aGk="},
    "compaction": {"type": "compaction", "id": "k", "encrypted_content": "x", "created_by": "y"},
    "a new kind of call": {
        "type": "weather_call",
        "id": "n",
        "status": "done",
        "action": {"place": "x"},
        "output": [1],
    },
    "a new kind": {"type": "weather", "id": "n", "content": [{"type": "rain", "text": 7}], "summary": None},
}
RESPONSE: dict[str, Any] = {
    "id": "resp",
    "object": "response",
    "created_at": 0,
    "model": "m",
    "status": "completed",
    "tools": [],
    "usage": {
        "input_tokens": 1,
        "output_tokens": 2,
        "total_tokens": 3,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    },
    "service_tier": "default",
}
CHAT: dict[str, Any] = {
    "id": "c",
    "object": "chat.completion",
    "created": 0,
    "model": "m",
    "service_tier": "default",
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "message": {
                "role": "assistant",
                "content": "Look.",
                "refusal": None,
                "reasoning_content": "Hm.",
                "annotations": [
                    {
                        "type": "url_citation",
                        "url_citation": {"url": "u", "title": "t", "start_index": 0, "end_index": 1},
                    }
                ],
                "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
            },
            "logprobs": {"content": [{"token": "L", "logprob": -0.5, "bytes": [76], "top_logprobs": []}]},
        }
    ],
    "usage": {
        "prompt_tokens": 1,
        "completion_tokens": 2,
        "total_tokens": 3,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0},
    },
}
MESSAGE: dict[str, Any] = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [TEXT]}
STRANGE: Mapping[str, Any] = {"null": None, "number": 7, "text": "x", "list": ["x"], "object": {"x": 1}}


def mutations(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Yield a JSON value with each field at each level left out, of another type, or joined by an unknown one."""
    inner: Any = value
    for name in path:
        inner = inner[name]
    if isinstance(inner, dict):
        yield f"{path}: an unknown field", _with(value, (*path, "zz"), {"deep": [MARK]})
        names: Any = list(inner)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    else:
        names = range(len(inner)) if isinstance(inner, list) else ()  # pyright: ignore[reportUnknownArgumentType]
    for name in names:
        at = (*path, name)
        yield f"{at}: left out", _with(value, at)
        yield from ((f"{at}: {what}", _with(value, at, other)) for what, other in STRANGE.items())
        yield from mutations(value, at)


_GONE = object()


def _with(value: Any, path: tuple[Any, ...], other: Any = _GONE) -> Any:
    whole = copy.deepcopy(value)
    inner = whole
    for name in path[:-1]:
        inner = inner[name]
    if other is _GONE:
        del inner[path[-1]]
    else:
        inner[path[-1]] = other
    return whole


@function_tool
def look() -> str:
    """Look."""
    return "seen"


AGENT = Agent(name="a", instructions="Answer.", tools=[look])


pytestmark = pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")  # the SDK's own dumps of odd members


def taken(replies: Mapping[str, dict[str, Any]], api: Api, folder: Path) -> harness.Run:
    """Run the agent on a query for each reply, which is the first that the query gets."""

    def script(seen: Seen) -> Reaction:
        return Raw(replies[seen.user]) if len(seen.items) == 1 else Say("Done.")

    with FakeEndpoint(script).serving() as server:
        settings: Any = {
            "n": 1,
            "model": "m",
            "topology": "none",
            "retries": 0,
            "api": api,
            "concurrency": 8,
            "report": False,
        }
        return harness.run_sync(AGENT, list(replies), base_url=server.base_url, runs_dir=folder, **settings)


def leaves(value: Any) -> Iterator[Any]:
    """Yield what a JSON value holds, but a call's usual type, and logprobs: those of a chat go with text."""
    if isinstance(value, dict):
        fields: Any = value.items()  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        yield from (leaf for name, inner in fields if name != "logprobs" for leaf in leaves(inner))
    elif isinstance(value, list):
        yield from (leaf for inner in value for leaf in leaves(inner))  # pyright: ignore[reportUnknownVariableType]
    elif value != "function":
        yield value


def held(call: RawCall) -> str:
    """Return all that is kept of a reply, as JSON."""
    return json.dumps(
        [TypeAdapter(ModelResponse).dump_python(call.reply, exclude_unset=True, warnings=False), call.beside]
    )


def check(run: harness.Run, replies: Mapping[str, dict[str, Any]]) -> None:
    """Check that what the run took is valid, shown, replayed as it was and exported, and the rest is the server's."""
    assert not harness.validate_sync(run).damaged
    texts = {query.id: query.text for query in run.queries}
    diverged = {texts[r.query]: r.divergence for r in harness.replay_sync(run, AGENT) if r.divergence}
    assert not diverged
    with RunReader(run.path) as reader:
        turns = turns_from(reader)
        for query in run.queries:
            (rollout,) = run.rollouts(query)
            ended = rollout.failure.type if rollout.failure else "well"
            known = {"well", "ModelBehaviorError"} if rollout.raw_calls else {"NoReply"}
            assert ended in known, (query.text, rollout.failure)
            with suppress(NoMessages):
                turns(rollout)
            if rollout.raw_calls:
                first = unpack(reader.blobs.get(rollout.raw_calls), reader.blobs.get)[0]
                kept = held(first)
                lost = [leaf for leaf in leaves(replies[query.text]) if json.dumps(leaf) not in kept]
                assert not lost, query.text
    rules = harness.ExportRules(format="atif", included=frozenset({"failed"}))
    exported = harness.export_run(run, run.path.parent / "atif", rules)
    assert exported.lines
    for query in ([], ["--query", run.queries[0].id]):
        assert not app.main(["show", str(run.path), *query, "--json"], standalone_mode=False, obj=dict(os.environ))


@pytest.mark.nightly
@pytest.mark.few(1)
@pytest.mark.parametrize("kind", ITEMS)
def test_an_item_of_a_response_with_any_field_gone_or_strange_or_new_is_read_as_the_client_took_it(
    kind: str, tmp_path: Path
) -> None:
    call = [] if kind == "function_call" else [CALL]
    replies = {what: RESPONSE | {"output": [item, *call, MESSAGE]} for what, item in mutations(ITEMS[kind])}
    check(taken(replies, "responses", tmp_path), replies)


@pytest.mark.nightly
def test_a_response_with_any_field_gone_or_strange_or_new_is_read_as_the_client_took_it(tmp_path: Path) -> None:
    replies = {what: reply | {"output": [CALL]} for what, reply in mutations(RESPONSE)}
    check(taken(replies, "responses", tmp_path), replies)


@pytest.mark.nightly
def test_a_chat_reply_with_any_field_gone_or_strange_or_new_is_read_as_the_client_took_it(tmp_path: Path) -> None:
    replies = dict(mutations(CHAT))
    check(taken(replies, "chat", tmp_path), replies)


def test_a_key_in_a_field_that_no_schema_knows_is_not_kept(tmp_path: Path) -> None:
    key = os.environ["OPENAI_API_KEY"]
    (choice,) = CHAT["choices"]
    message = choice["message"] | {"zz": [key]}
    reply = CHAT | {"zz": f"{MARK} {key}", "choices": [choice | {"zz": {key: 1}, "message": message}]}
    run = taken({"Why?": reply}, "chat", tmp_path)
    written = "".join(path.read_text("utf-8") for path in run.path.rglob("*.json*"))
    assert MARK in written
    assert key not in written


def test_validate_finds_raw_calls_that_replay_cannot_read(tmp_path: Path) -> None:
    run = taken({"Why?": RESPONSE | {"output": [MESSAGE]}}, "responses", tmp_path)
    (rollout,) = run.rollouts(run.queries[0])
    with RunStore(run.path, now()) as store:
        calls = json.loads(store.reader.blobs.get(rollout.raw_calls or ""))
        calls[0]["reply"]["output"] = [7]
        store.add_rollout(rollout.model_copy(update={"raw_calls": store.put_blob(json.dumps(calls))}))
    with pytest.raises(ArchiveDamaged, match=r"blobs.*: no valid record: 0: Input should be a valid dictionary"):
        harness.replay_sync(run, AGENT)
    (finding,) = (f for f in harness.validate_sync(run).findings if f.kind == "damage")
    assert finding.path.parent.name == "rollouts"
    assert "0: Input should be a valid dictionary" in finding.reason


@pytest.mark.parametrize("every", [6, pytest.param(1, marks=pytest.mark.nightly)])
def test_raw_calls_that_hold_anything_are_read_or_refused_with_the_place(every: int) -> None:
    reply = {"output": [*ITEMS.values(), MESSAGE], "usage": {"requests": 1}, "response_id": "r"}
    output = {"type": "function_call_output", "call_id": "c1", "output": "seen"}
    request = {"instructions": "i", "tools": [{"name": "look", "schema": {}}], "handoffs": [{"name": "h"}]}
    call = {"text": False, "kept": 0, "changed": request, "input": [CALL, output], "reply": reply}
    ends = Counter[str]()
    for _, packed in islice(mutations([call]), 0, None, every):
        try:
            calls = unpack(json.dumps(packed), str, "here:1")
            recorded_turns(calls, (), "responses")
            ends["read"] += 1
        except ArchiveDamaged as damage:
            ends[str(damage)[:23]] += 1
        except NoMessages:
            ends["no messages"] += 1
    assert ends.keys() == {"read", "here:1: no valid record", "no messages"}
