"""Queries whose lines hold chat messages are asked as the conversations that they are."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

from harness.core.errors import UsageError
from harness.core.records import Query
from harness.formats.queries import items_of_messages, read_queries


def read(tmp_path: Path, *rows: Any) -> list[Query]:
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return list(read_queries(str(tmp_path / "q.jsonl")))


def test_a_conversation_becomes_the_sdks_input_items(tmp_path: Path):
    image = {"type": "image_url", "image_url": {"url": "https://x.example/1.png", "detail": "low"}}
    call = {"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": '{"word": "lisp"}'}}
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "What is this?"}, image]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "A language."},
        {"role": "assistant", "content": [{"type": "text", "text": "A language."}]},
        {"role": "user", "content": "And now?"},
    ]
    (query,) = read(tmp_path, {"messages": messages, "id": "talk", "level": 3})
    assert query.items == (
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "What is this?"},
                {"type": "input_image", "image_url": "https://x.example/1.png", "detail": "low"},
            ],
        },
        {"type": "function_call", "call_id": "c1", "name": "look_up", "arguments": '{"word": "lisp"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "A language."},
        {"role": "assistant", "content": "A language."},
        {"role": "user", "content": "And now?"},
    )
    assert (query.id, query.metadata, query.reference) == ("talk", {"level": 3}, None)
    assert query.text.endswith("user: And now?")


def test_one_user_message_reads_as_its_text(tmp_path: Path):
    (query,) = read(tmp_path, {"messages": [{"role": "user", "content": "Why?"}]})
    assert (query.text, query.items) == ("Why?", ({"role": "user", "content": "Why?"},))


def test_a_last_answer_is_the_reference_where_none_is_named(tmp_path: Path):
    messages = [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4"}]
    made, named = read(tmp_path, {"messages": messages}, {"messages": messages, "reference": "four", "id": "n"})
    assert (made.reference, named.reference) == ("4", "four")
    assert made.items == named.items == ({"role": "user", "content": "2+2?"},)


def test_messages_beside_a_query_are_metadata(tmp_path: Path):
    (query,) = read(tmp_path, {"query": "Why?", "messages": [{"role": "user", "content": "Else?"}]})
    assert (query.text, query.items) == ("Why?", None)
    assert query.metadata == {"messages": [{"role": "user", "content": "Else?"}]}


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ([], "no message is a user's"),
        ([{"role": "system", "content": "x"}], "no message is a user's"),
        ([{"role": "narrator", "content": "x"}], "message 1 has the role"),
        (["x"], "message 1 has the role"),
        ([{"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": [{}]}], "a tool call without a name"),
    ],
)
def test_what_is_no_conversation_is_refused_with_its_place(messages: Any, why: str, tmp_path: Path):
    with pytest.raises(UsageError, match=f"q.jsonl:1: {why}"):
        read(tmp_path, {"messages": messages})


def test_a_part_of_a_message_without_text_is_no_text_to_the_model():
    empty: list[JsonValue] = [{"type": "text", "text": ""}]
    call: JsonValue = {"id": "c", "function": {"name": "look", "arguments": "{}"}}
    said = items_of_messages([{"role": "assistant", "tool_calls": [call]}, {"role": "tool", "content": empty}])
    assert said[-1]["output"] == ""
