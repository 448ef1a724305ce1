"""What came in an imported file is kept: messages, tools, parallel calls, ids, tokens. What is not, is named."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.errors import ArchiveDamaged, UsageError
from harness.core.sampled_tokens import SampledTokens
from harness.formats.imported import pack_turns, unpack_turns
from harness.formats.training.origins import ImportedTrajectory
from harness.formats.trajectory_files import read_trajectories
from harness.formats.turns import Turn, join_turns

CALLS = [
    {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"q":  "sky"}'}},
    {"id": "c2", "type": "function", "function": {"name": "note", "arguments": {"a": 1.0, "é": None}}},
]
TOOL = {"type": "function", "function": {"name": "search", "parameters": {"type": "object"}, "strict": True}}
PICTURE = {"type": "image_url", "image_url": {"url": "x"}}
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}
CHAT: dict[str, Any] = {
    "model": "m",
    "tools": [TOOL, {"type": "function", "name": "note", "parameters": {}}, {"type": "web_search"}],
    "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}},
    "seed": 1,
    "messages": [
        {"role": "developer", "content": "Be brief.", "name": "boss"},
        {
            "role": "user",
            "content": [{"type": "text", "text": "Why?"}, {"type": "image_url", "image_url": {"url": "x"}}],
        },
        {"role": "assistant", "content": "Hello.", "weight": 0},
        {"role": "user", "content": "Well?"},
        {
            "role": "assistant",
            "reasoning": "I look.",
            "content": None,
            "tool_calls": CALLS,
            "prompt_token_ids": [1, 2, 3],
            "token_ids": [7, 8],
            "logprobs": [-0.5, -1.0],
        },
        {"role": "tool", "tool_call_id": "c2", "content": "noted"},
        {"role": "tool", "tool_call_id": "c1", "content": "Rayleigh."},
        {
            "role": "assistant",
            "content": '{"n": 1}',
            "prompt_token_ids": [1, 2, 3, 7, 8, 4],
            "token_ids": [9],
            "logprobs": {"content": [{"token": "x", "logprob": -2.0}]},
        },
    ],
}


def read(tmp_path: Path, *documents: Any) -> list[ImportedTrajectory]:
    path = tmp_path / "t.jsonl"
    path.write_text("\n".join(map(json.dumps, documents)))
    return list(read_trajectories([path]))


def test_a_chat_keeps_its_messages_tools_parallel_calls_ids_schema_and_tokens(tmp_path: Path):
    (chat,) = read(tmp_path, CHAT)
    first, last = chat.turns
    assert [m["role"] for m in first.context] == ["developer", "user", "assistant", "user"]
    assert first.context[:2] == tuple(CHAT["messages"][:2])
    assert first.context[2] == {"role": "assistant", "content": "Hello."}  # it was not said there
    (called,) = first.completion
    assert called["reasoning_content"] == "I look."
    assert [call["id"] for call in called["tool_calls"]] == ["c1", "c2"]
    arguments = [call["function"]["arguments"] for call in called["tool_calls"]]
    assert arguments == ['{"q":  "sky"}', '{"a": 1.0, "é": null}']
    assert last.context == (*first.messages, *CHAT["messages"][5:7])
    assert [tool["function"]["name"] for tool in last.tools] == ["search", "note"]
    assert (last.model, last.output_schema, last.lost_tools) == ("m", SCHEMA, ("hosted tool web_search",))
    assert first.tokens == SampledTokens((1, 2, 3), (7, 8), (-0.5, -1.0))
    assert last.tokens == SampledTokens((1, 2, 3, 7, 8, 4), (9,), (-2.0,))
    assert chat.unplaced == ("the key 'seed'",)
    assert len(join_turns(chat.turns)) == 1


def test_the_archive_gives_back_the_turns_that_it_was_given(tmp_path: Path):
    (chat,) = read(tmp_path, CHAT)
    kept = pack_turns(chat.turns)
    assert unpack_turns(kept, "here") == chat.turns
    assert kept.count("Be brief.") == 1
    for damaged in ("{}", '[{"kept": -1, "context": [], "completion": []}]', '[{"context": [1], "completion": []}]'):
        with pytest.raises(ArchiveDamaged, match="here: no valid record"):
            unpack_turns(damaged, "here")


MESSAGES = st.lists(st.fixed_dictionaries({"role": st.sampled_from("ab"), "content": st.text(max_size=2)}), max_size=3)
IDS = st.lists(st.integers(0, 2), max_size=4).map(tuple)
TURNS = st.lists(
    st.builds(
        Turn,
        agent=st.sampled_from([None, "a"]),
        model=st.sampled_from([None, "m"]),
        context=MESSAGES.map(tuple),
        completion=MESSAGES.map(tuple),
        tools=st.sampled_from([(), ({"type": "function"},)]),
        within=st.sampled_from([None, "c"]),
        lost_context=st.sampled_from([(), ("x",)]),
        tokens=st.none() | st.builds(SampledTokens, IDS, IDS),
    ),
    max_size=5,
)


@given(TURNS)
def test_turns_of_every_kind_are_kept_exactly(turns: list[Turn]):
    assert unpack_turns(pack_turns(turns), "here") == tuple(turns)


def assistant(**more: Any) -> str:
    return json.dumps({"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"} | more]})


BAD: list[tuple[str, str]] = [
    (assistant(content=5), "message 2: `content` must be a text or a list of parts"),
    (assistant(tool_calls=[{"function": {"arguments": "{}"}}]), "a tool call without a name"),
    (assistant(token_ids=["a"]), "message 2: token ids must be whole numbers"),
    (assistant(token_ids=[1], logprobs=[1, 2]), "message 2: 2 logprobs for 1 token ids"),
    (assistant(token_ids=[1], logprobs={"content": [{}]}), "message 2: .*logprobs numbers"),
    (json.dumps(CHAT | {"tools": [{"type": "function"}]}), "a tool without a name"),
    (json.dumps(CHAT | {"tools": 5}), "`tools` must be a list"),
    (json.dumps(CHAT | {"response_format": "text"}), "`response_format` must be an object"),
]


@pytest.mark.parametrize(("line", "complaint"), BAD)
def test_what_is_wrong_with_messages_is_said_by_file_and_line(line: str, complaint: str, tmp_path: Path):
    (tmp_path / "t.jsonl").write_text(f"{json.dumps(CHAT)}\n{line}\n")
    with pytest.raises(UsageError, match=rf"t\.jsonl:2: .*{complaint}"):
        list(read_trajectories([tmp_path / "t.jsonl"]))
