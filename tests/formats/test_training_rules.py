"""The rules of each format's lines, which speak with file and line; a line that breaks them is left out before."""

import json
import math
from typing import Any, cast

import pytest

from harness.formats.training.candidates import LeftOut, Losses
from harness.formats.training.line_models import OpenAIExample, OpenAIPreference, faults, line_faults
from harness.formats.training.records import group_records, trl_messages
from harness.formats.training.registry import FORMATS
from harness.formats.training.rules import ExportRules
from tests.formats.test_training import USER, a_candidate, a_turn, ranked_group, records, result, rules, said


def test_openais_rules_speak_with_file_and_line():
    good = {"input": {"messages": [USER]}, "preferred_output": [said("a")], "non_preferred_output": [said("b")]}
    broken: list[Any] = [
        good | {"more": 1},
        good | {"preferred_output": []},
        good | {"input": {"messages": [USER, said("a")]}},
        good | {"input": {"messages": [USER, result("c", "x")]}},
        good | {"non_preferred_output": [said("")]},
        good | {"input": {"messages": [{"role": "me", "content": "x"}]}},
        good | {"preferred_output": [{"role": "assistant", "content": "x", "reasoning_content": "y"}]},
        good | {"input": {"messages": [USER], "tools": [{"type": "web_search"}]}},
        [],
    ]
    lines = [json.dumps(good), *map(json.dumps, broken), "{"]
    found = list(line_faults(lines, "train.jsonl", OpenAIPreference))
    assert {fault.split(": ")[0] for fault in found} == {f"train.jsonl:{n}" for n in range(2, 12)}
    assert any("train.jsonl:4: input: messages ends with the assistant" in fault for fault in found)
    weights = [{"messages": [USER, said("x", weight=w)]} for w in (0, 2)]
    assert [list(faults(record, OpenAIExample)) for record in weights] == [
        ["the line: no message of the assistant has weight 1"],
        ["messages[1].weight: Input should be 0 or 1"],
    ]
    assert list(faults({"messages": [USER]}, OpenAIExample)) != []


SEQUENCE: dict[str, Any] = {
    "agent": "a",
    "model": "m",
    "messages": [USER, said(None, ("c", "{}")), result("c", "x"), said("y")],
    "tools": [],
    "message_mask": [0, 1, 0, 1],
    "token_ids": [1, 2, 3],
    "token_mask": [0, 1, 1],
    "logprobs": [None, -0.5, 0.0],
}
MEMBER: dict[str, Any] = {"index": 1, "role": "sample", "reward": 1.0, "advantage": 0.5, "uncertainty": None}


def group_of(*sequences: Any, **more: Any) -> dict[str, Any]:
    other = MEMBER | {"index": 2, "sequences": [SEQUENCE]}
    first = MEMBER | {"sequences": list(sequences)} | more
    return {"query_id": "q", "signal": "ok", "judge": "j", "rollouts": [first, other]}


BROKEN_GROUPS = {
    "message_mask has 2 entries for 4 messages": group_of(SEQUENCE | {"message_mask": [0, 1]}),
    "message_mask marks no message": group_of(SEQUENCE | {"message_mask": [0] * 4}),
    "message_mask marks a message that is not": group_of(SEQUENCE | {"message_mask": [1] * 4}),
    "token_ids[2]: Input should be a valid integer": group_of(SEQUENCE | {"token_ids": [1, 2, "3"]}),
    "token_mask has 3 entries for 2 tokens": group_of(SEQUENCE | {"token_ids": [1, 2]}),
    "token_mask marks no token": group_of(SEQUENCE | {"token_mask": [0] * 3, "logprobs": [None] * 3}),
    "logprobs has 2 entries, token_mask 3": group_of(SEQUENCE | {"logprobs": [None, -0.5]}),
    "logprobs is not a number where": group_of(SEQUENCE | {"logprobs": [None, None, -0.5]}),
    "sequences[0]: it has other keys: loss": group_of(SEQUENCE | {"loss": 1}),
    "arguments: Input should be a valid string": group_of(
        SEQUENCE | {"messages": [USER, said(None, ("c", cast("str", {})))] * 2}
    ),
    "rollouts[0].sequences: List should have at least 1 item": group_of(),
    "rollouts[0].reward: Input should be a valid number": group_of(SEQUENCE, reward=None),
    "rollouts[0].role: Input should be": group_of(SEQUENCE, role="king"),
    "two rollouts have the same index": group_of(SEQUENCE, index=2),
    "rollouts: List should have at least 2 items": group_of(SEQUENCE) | {"rollouts": []},
    "signal: Input should be 'ok'": group_of(SEQUENCE) | {"signal": "high"},
    "NaN is no number of JSON": group_of(SEQUENCE, advantage=math.nan),
}
OBJECTS = said(None, ("c", cast("str", {"x": 1})))
PAIR: dict[str, Any] = {"prompt": [USER], "chosen": [OBJECTS, result("c", "x"), said("a")], "rejected": [said("b")]}
BROKEN_PAIRS: dict[str, Any] = {
    "prompt: List should have at least 1 item": PAIR | {"prompt": []},
    "arguments: Input should be a valid dictionary": PAIR | {"chosen": [said(None, ("c", "{}"))]},
    "chosen: it does not begin with the assistant": PAIR | {"chosen": [USER, said("a")]},
    "chosen and rejected are the same": PAIR | {"rejected": PAIR["chosen"]},
    "rejected[0].role: Input should be": PAIR | {"rejected": [{"role": "robot", "content": "b"}]},
    "the line: it has other keys: score": PAIR | {"score": 1},
    "tools[0].type: Field required": PAIR | {"tools": [{"name": "f"}]},
    "prompt[0]: content is no text": PAIR | {"prompt": [{"role": "user", "content": None}]},
}
CHATS: dict[str, Any] = {
    "messages holds no message of the assistant": {"messages": [USER]},
    "the line: it has other keys: prompt": {"messages": [USER, said("x")], "prompt": [USER]},
}
COMPLETIONS: dict[str, Any] = {"completion: List should have at least 1 item": {"prompt": [USER], "completion": []}}
OPENAI: dict[str, Any] = {"messages does not end with the assistant": {"messages": [said("x"), USER]}}


@pytest.mark.parametrize(
    ("export", "good", "broken"),
    [
        (rules("groups"), group_of(SEQUENCE), BROKEN_GROUPS),
        (rules("dpo"), PAIR, BROKEN_PAIRS),
        (rules("sft"), {"messages": [USER, OBJECTS]}, CHATS),
        (rules("sft", style="trl-turns"), {"prompt": [USER], "completion": [OBJECTS]}, COMPLETIONS),
        (rules("sft", style="openai"), {"messages": [USER, said("x", weight=1)]}, OPENAI),
    ],
)
def test_the_rules_of_a_format_speak_with_file_and_line(export: ExportRules, good: Any, broken: dict[str, Any]):
    model = FORMATS[export.format].model(export.style)
    assert model
    assert list(line_faults([json.dumps(good)], "train.jsonl", model)) == []
    for number, (complaint, record) in enumerate(broken.items(), 2):
        lines = [json.dumps(good)] * (number - 1) + [json.dumps(record)]
        found = list(line_faults(lines, "train.jsonl", model))
        assert found
        assert all(fault.startswith(f"train.jsonl:{number}: ") for fault in found)
        assert any(complaint in fault for fault in found), found
    for hostile in (None, [], "x", {"rollouts": [None]}, {"messages": [5]}, {"prompt": {}, "chosen": 1}):
        assert list(faults(hostile, model))


def test_a_line_against_the_rules_of_its_format_is_left_out_and_counted():
    lines, lost = records("dpo", (a_turn(said("x")),), (a_turn(said("y")),))
    assert lines == []
    assert "against TRL's rules: prompt: List should have at least 1 item" in lost[0]
    losses = Losses()
    spoken = a_turn({"role": "user", "content": None}, said("x"))
    assert not list(group_records(ranked_group(), [a_candidate(1, spoken), a_candidate(3)], rules("groups"), losses))
    assert "against the format's rules: rollouts[0].sequences[0].messages[0]: content is no text" in losses.lines()[0]
    with pytest.raises(LeftOut, match="JSON object"):
        trl_messages([said(None, ("c", '{"x": NaN}'))])
