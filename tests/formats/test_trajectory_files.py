"""Trajectories made elsewhere are read as what they say, and what is wrong with a file is said by file and line."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from harness.core.errors import UsageError
from harness.formats.imported import ImportedRun
from harness.formats.training.origins import ImportedTrajectory
from harness.formats.trajectory_files import read_trajectories

CALL = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"q": "sky"}'}}
CHAT: dict[str, Any] = {
    "query_id": "sky",
    "id": "t1",
    "reward": 0.5,
    "reference": "Scattering.",
    "metadata": {"by": "x"},
    "temperature": 1,
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Why is the sky blue?"}]},
        {
            "role": "assistant",
            "reasoning_content": "I look.",
            "content": "A moment.",
            "tool_calls": [CALL, {"id": "c2", "function": {"name": "note", "arguments": {"a": 1}}}],
        },
        {"role": "tool", "tool_call_id": "c2", "content": "noted"},
        {"role": "tool", "tool_call_id": "c1", "content": "Rayleigh."},
        {"role": "assistant", "content": "Is that all?"},
        {"role": "user", "content": "Yes."},
        {"role": "assistant", "content": "<think>Sum up.</think>Rayleigh scattering."},
    ],
}
ATIF: dict[str, Any] = {
    "schema_version": "ATIF-v1.4",
    "session_id": "s1",
    "agent": {"name": "a", "version": "1", "model_name": "m1"},
    "steps": [
        {"step_id": 1, "source": "system", "message": "Be brief."},
        {"step_id": 2, "source": "user", "message": "What is the price?", "timestamp": "2026-01-02T03:04:05Z"},
        {
            "step_id": 3,
            "source": "agent",
            "message": "I look.",
            "reasoning_content": "Two things.",
            "tool_calls": [
                {"tool_call_id": "p", "function_name": "price", "arguments": {"ticker": "X"}},
                {"tool_call_id": "v", "function_name": "volume", "arguments": {}},
            ],
            "observation": {
                "results": [
                    {"source_call_id": "v", "content": "1M"},
                    {"source_call_id": "p", "content": "$185"},
                    {"content": "The market closed."},
                ]
            },
            "metrics": {"prompt_tokens": 520, "completion_tokens": 80, "cached_tokens": 200, "cost_usd": 0.5},
        },
        {
            "step_id": 4,
            "source": "agent",
            "model_name": "m2",
            "message": "It is $185.",
            "reasoning_content": "Known.",
            "timestamp": "2026-01-02T03:04:09Z",
            "metrics": {"prompt_tokens": 600, "completion_tokens": 44},
        },
    ],
}


def read(tmp_path: Path, *documents: Any, name: str = "t.jsonl", **more: Any) -> list[ImportedTrajectory]:
    path = tmp_path / name
    path.write_text("\n".join(json.dumps(t) for t in documents))
    return list(read_trajectories([path], **more))


def step_rows(trajectory: ImportedTrajectory) -> list[tuple[Any, ...]]:
    return [(s.kind, s.reasoning, s.tool_name, s.tool_input, s.tool_output) for s in trajectory.path]


def test_chat_messages_become_steps_as_they_would_here(tmp_path: Path):
    (chat,) = read(tmp_path, CHAT)
    assert step_rows(chat) == [
        ("tool", "I look.\nA moment.", "search", '{"q": "sky"}', "Rayleigh."),
        ("tool", None, "note", '{"a": 1}', "noted"),
        ("message", "Is that all?", None, None, None),
        ("message", "The user said: Yes.", None, None, None),
        ("reasoning", "Sum up.", None, None, None),
    ]
    assert (chat.query, chat.answer, chat.instructions) == ("Why is the sky blue?", "Rayleigh scattering.", "Be brief.")
    assert (chat.query_id, chat.id, chat.reward, chat.reference) == ("sky", "t1", 0.5, "Scattering.")
    assert (chat.metadata, chat.temperature, chat.tool_names) == ({"by": "x"}, 1.0, ("search", "note"))


def test_atif_becomes_steps_with_what_each_call_gave(tmp_path: Path):
    (atif,) = read(tmp_path, ATIF, name="t.json")
    assert step_rows(atif) == [
        ("tool", "Two things.\nI look.", "price", '{"ticker": "X"}', "$185"),
        ("tool", None, "volume", "{}", "1M"),
        ("tool", None, "environment", None, "The market closed."),
        ("reasoning", "Known.", None, None, None),
    ]
    assert (atif.query, atif.answer, atif.instructions, atif.id) == (
        "What is the price?",
        "It is $185.",
        "Be brief.",
        "s1",
    )
    assert atif.models == ("m1", "m2")
    assert (atif.usage.input, atif.usage.output, atif.usage.cached, atif.price_usd) == (1120, 124, 200, 0.5)
    rollout = ImportedRun("r", datetime(2026, 1, 1, tzinfo=UTC)).rollout(atif)
    assert rollout
    assert (rollout.started_at.hour, rollout.duration_s) == (3, 4.0)


def test_a_trajectory_that_ends_in_a_call_has_no_answer_made_up_for_it(tmp_path: Path):
    (chat,) = read(tmp_path, CHAT | {"messages": CHAT["messages"][:3]})
    assert chat.answer == ""
    assert chat.path[0].tool_output is None


def test_files_of_both_kinds_are_told_apart_line_by_line(tmp_path: Path):
    assert [t.format for t in read(tmp_path, CHAT, ATIF)] == ["messages", "atif"]
    assert [t.format for t in read(tmp_path, [ATIF, CHAT], name="t.json")] == ["atif", "messages"]


def test_a_query_id_makes_a_group_else_the_first_user_message_does(tmp_path: Path):
    plain = {k: v for k, v in CHAT.items() if k != "query_id"}
    other = {"messages": [{"role": "user", "content": "Why not?"}, {"role": "assistant", "content": "Well."}]}
    importing = ImportedRun("r", datetime(2026, 1, 1, tzinfo=UTC), first_is_anchor=True)
    made = [r for t in read(tmp_path, CHAT, plain, other, CHAT, plain) if (r := importing.rollout(t))]
    assert [(r.index, r.role) for r in made] == [
        (0, "anchor"),
        (0, "anchor"),
        (0, "anchor"),
        (1, "sample"),
        (1, "sample"),
    ]
    assert [made[0].query, made[3].query] == ["sky", "sky"]
    assert len({r.query for r in made}) == 3


BAD: list[tuple[str, str]] = [
    ("{", r"t\.jsonl:2: not JSON"),
    ("[1]", r"t\.jsonl:2: expected an object, found a list"),
    ('{"text": "x"}', r"t\.jsonl:2: a text alone lacks roles"),
    ('{"messages": [{"role": "robot"}]}', r"t\.jsonl:2: .*message 1 has the role 'robot'"),
    ('{"messages": [{"role": "assistant", "content": "x"}]}', r"t\.jsonl:2: .*must be a user's"),
    ('{"messages": [{"role": "user", "content": "x"}]}', r"t\.jsonl:2: .*no message is an assistant's"),
    ('{"schema_version": "ATIF-v2.0", "steps": []}', r"t\.jsonl:2: .*ATIF-v1\.x"),
    ('{"schema_version": "ATIF-v1.4", "steps": [{"source": "it"}]}', r"t\.jsonl:2: .*step 1 has the source 'it'"),
    ('{"schema_version": "ATIF-v1.4", "steps": [{"source": "user", "message": "x"}]}', r"t\.jsonl:2: .*an agent's"),
    (json.dumps(CHAT | {"reward": "high"}), r"t\.jsonl:2: .*reward"),
    (json.dumps(CHAT | {"reward": float("nan")}), r"t\.jsonl:2: not JSON"),
    (json.dumps({"messages": [CHAT["messages"][1], {"role": "assistant", "tool_calls": [3]}]}), r"t\.jsonl:2: no traj"),
]


@pytest.mark.parametrize(("line", "complaint"), BAD)
def test_what_is_wrong_is_said_by_file_and_line(line: str, complaint: str, tmp_path: Path):
    (tmp_path / "t.jsonl").write_text(f"{json.dumps(CHAT)}\n{line}\n")
    with pytest.raises(UsageError, match=complaint):
        list(read_trajectories([tmp_path / "t.jsonl"]))


def test_an_empty_or_missing_file_is_refused(tmp_path: Path):
    (tmp_path / "t.jsonl").write_text("\n")
    for name, complaint in (("t.jsonl", "no trajectory"), ("none.jsonl", "cannot be read")):
        with pytest.raises(UsageError, match=complaint):
            list(read_trajectories([tmp_path / name]))
