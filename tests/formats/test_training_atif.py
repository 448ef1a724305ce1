"""A rollout as an ATIF trajectory: a step a model call, results beside their calls, copied context marked as such."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from harness.core.rankings import Ranked
from harness.core.records import Step, Trajectory, Usage
from harness.core.sampled_tokens import SampledTokens
from harness.formats.atif import read_atif
from harness.formats.imported import ImportedRun, pack_turns, unpack_turns
from harness.formats.training.atif_trajectory import AtifTrajectory, atif_lines, atif_trajectory
from harness.formats.training.candidates import Losses
from harness.formats.training.line_models import faults, line_faults
from harness.formats.training.registry import ArtGroup
from harness.formats.turns import Message, NoMessages, Turn
from tests.builders import a_group, a_rollout
from tests.formats.test_training import USER, a_turn, ranked_group, result, rules, said

SYSTEM: Message = {"role": "system", "content": "Be brief."}
CALL = said(None, ("c", '{"x": 1}'), ("d", "no JSON"), reasoning_content="Two.")


def read_steps(*turns: Turn) -> list[dict[str, Any]]:
    record, _ = atif_trajectory(a_rollout(0), turns, None)
    assert list(faults(record, AtifTrajectory)) == []
    return record["steps"]


def test_results_stand_beside_their_calls_and_reasoning_that_is_not_sent_back_makes_no_copy():
    tokens = SampledTokens((1, 2), (3,), (-0.5,))
    shown = {key: value for key, value in CALL.items() if key != "reasoning_content"}
    system, user, call, answer = read_steps(
        a_turn(SYSTEM, USER, CALL, tokens=tokens),
        a_turn(SYSTEM, USER, shown, result("d", "two"), result("c", "one"), said("x")),
    )
    assert [step["source"] for step in (system, user, call, answer)] == ["system", "user", "agent", "agent"]
    assert call["reasoning_content"] == "Two."
    assert [c["arguments"] for c in call["tool_calls"]] == [{"x": 1}, {}]
    assert call["tool_calls"][1]["extra"] == {"arguments": "no JSON"}
    assert [(r["source_call_id"], r["content"]) for r in call["observation"]["results"]] == [("d", "two"), ("c", "one")]
    assert call["metrics"]["completion_token_ids"] == [3]
    assert call["metrics"]["logprobs"] == [-0.5]
    assert "metrics" not in answer
    assert (call["message"], answer["message"]) == ("", "x")


def test_what_a_turn_does_not_go_on_from_is_copied_context():
    steps = read_steps(a_turn(USER, said("I look.")), a_turn({"role": "user", "content": "In short"}, USER, said("x")))
    assert [step.get("is_copied_context") for step in steps] == [None, None, True, True, None]
    history = read_steps(a_turn(USER, said("Before."), USER, said("x")))
    assert [step.get("is_copied_context") for step in history] == [None, True, None, None]


def test_a_nested_agent_is_a_trajectory_that_the_result_of_its_call_names():
    inner = Turn("inner", "m", (USER,), (said("y"),), within="c")
    outer = a_turn(USER, CALL), inner, a_turn(USER, CALL, result("c", "y"), said("x"))
    record, lost = atif_trajectory(a_rollout(0), outer, None)
    (nested,) = record["subagent_trajectories"]
    assert nested["agent"]["name"] == "inner"
    (ref,) = record["steps"][1]["observation"]["results"][0]["subagent_trajectory_ref"]
    assert ref == {"trajectory_id": nested["trajectory_id"]}
    assert list(faults(record, AtifTrajectory)) == []
    assert lost == ()


def test_images_are_parts_and_what_atif_has_no_place_for_is_named():
    parts = [
        {"type": "text", "text": "See"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}},
        {"type": "image_url", "image_url": {"url": "https://x.example/a.webp"}},
        {"type": "input_audio", "input_audio": {}},
    ]
    record, lost = atif_trajectory(a_rollout(0), [a_turn({"role": "user", "content": parts}, said("x"))], None)
    assert [part["type"] for part in record["steps"][0]["message"]] == ["text", "image", "image"]
    assert lost == ("a part of a message (input_audio)",)


def test_a_rollout_whose_calls_are_not_recorded_has_the_steps_that_a_judge_was_shown():
    path = (
        Step(kind="tool", tool_name="f", tool_input='{"x": 1}', tool_output="one", reasoning="Hm."),
        Step(kind="message", reasoning="I go on."),
    )
    shown = Trajectory(query="Why?", path=path, answer="So.")
    rollouts = [a_rollout(0).model_copy(update={"trajectory": shown}), *(a_rollout(i) for i in (1, 2, 3))]
    group = replace(ranked_group(), group=a_group(rollouts))
    losses = Losses()

    def turns(rollout: Any) -> tuple[Turn, ...]:
        if rollout.index == 1:
            raise NoMessages("audio")
        return ()

    lines = list(atif_lines(group, rules("atif"), losses, turns))
    assert [line.rollouts for line in lines] == [(0,), (1,), (2,), (3,)]
    first = lines[0].record
    assert [step["message"] for step in first["steps"]] == ["Why?", "", "I go on.", "So."]
    assert first["steps"][1]["observation"]["results"][0]["content"] == "one"
    assert first["extra"]["reward"] == 1.0
    assert [len(line.lost) for line in lines] == [1, 2, 1, 1]
    again = read_atif(json.loads(json.dumps(first)))
    assert (again.query, again.answer, again.reward, again.query_id) == ("Why?", "So.", 1.0, "q")
    assert [step.tool_output for step in again.path] == ["one", None]


def test_a_failed_rollout_goes_in_where_it_is_asked_for():
    group = replace(ranked_group(), group=a_group([a_rollout(0), a_rollout(1, failed="timeout")]))
    losses = Losses()
    assert len(list(atif_lines(group, rules("atif"), losses, lambda _: ()))) == 1
    assert losses.lines() == ["1 rollout: failed (timeout)"]
    both = list(atif_lines(group, rules("atif", included=frozenset({"failed"})), losses, lambda _: ()))
    assert both[1].record["extra"]["failure"] == "timeout"


ATIF: dict[str, Any] = {
    "schema_version": "ATIF-v1.8",
    "agent": {"name": "a", "version": "1"},
    "steps": [{"step_id": 1, "source": "user", "message": "x"}],
}
STEP = ATIF["steps"][0]
RESULTS = {"results": [{"source_call_id": "c", "content": "x"}]}


@pytest.mark.parametrize(
    ("record", "fault"),
    [
        (ATIF, None),
        (ATIF | {"more": 1}, "it has other keys: more"),
        (ATIF | {"schema_version": "1"}, "schema_version: String should match"),
        (ATIF | {"agent": {"name": "a"}}, "agent.version: Field required"),
        (ATIF | {"steps": []}, "steps: List should have at least 1 item"),
        (ATIF | {"steps": [STEP | {"step_id": 2}]}, "step_id of step 1 is 2"),
        (ATIF | {"steps": [STEP | {"source": "tool"}]}, "steps[0].source: Input should be"),
        (ATIF | {"steps": [STEP | {"message": None}]}, "steps[0]: message is neither"),
        (ATIF | {"steps": [STEP | {"metrics": {}}]}, "steps[0]: metrics is for agents only"),
        (ATIF | {"steps": [STEP | {"observation": RESULTS}]}, "steps[0]: a result of 'c', which is no call"),
        (ATIF | {"steps": [STEP | {"source": "agent", "tool_calls": [{"tool_call_id": "c"}]}]}, "function_name: Field"),
        (ATIF | {"subagent_trajectories": [ATIF]}, "subagent_trajectories have no trajectory_id"),
        ([], "the line: Input should be a valid dictionary"),
    ],
)
def test_the_rules_of_atif_speak_with_file_and_line(record: Any, fault: str | None):
    found = list(line_faults([json.dumps(record)], "train.jsonl", AtifTrajectory))
    assert fault is None or found[0].startswith("train.jsonl:1: ")
    assert [fault in " ".join(found)] == [True] if fault else found == []


CHOICE = {"finish_reason": "stop", "index": 0, "logprobs": None, "message": said("x")}
TRAJECTORY: dict[str, Any] = {"messages_and_choices": [USER, CHOICE], "reward": 0.5, "metrics": {}, "metadata": {}}


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({}, None),
        ({"reward": None}, "reward: Input should be a valid number"),
        ({"metrics": {"rank": None}}, "metrics.rank: Input should be a valid number"),
        ({"metadata": {"a": []}}, "of metadata is neither"),
        ({"more": 1}, "other keys: more"),
        ({"messages_and_choices": [USER]}, "no Choice to train on"),
        ({"messages_and_choices": [{"role": "me"}, CHOICE]}, "role: Input should be"),
        ({"messages_and_choices": [CHOICE | {"message": USER}]}, "message.role: Input should be 'assistant'"),
        ({"messages_and_choices": [CHOICE | {"logprobs": {"content": [{"token": "x"}]}}]}, "String should match"),
        ({"additional_histories": [{"messages_and_choices": [USER]}]}, "additional_histories[0]: it holds no Choice"),
    ],
)
def test_the_rules_of_art_name_the_trajectory(change: dict[str, Any], fault: str | None):
    found = list(faults({"trajectories": [TRAJECTORY, TRAJECTORY | change]}, ArtGroup))
    assert found == [] if fault is None else "trajectories[1]" in found[0] and fault in found[0]
    assert list(faults({"trajectories": [TRAJECTORY]}, ArtGroup))


def exported_again(record: dict[str, Any]) -> dict[str, Any]:
    """Return a trajectory as it is exported after an import."""
    read = read_atif(json.loads(json.dumps(record)))
    rollout = ImportedRun("r", datetime(2026, 1, 1, tzinfo=UTC)).rollout(read)
    assert rollout
    return atif_trajectory(rollout, unpack_turns(pack_turns(read.turns), "blob"), None)[0]


@pytest.mark.parametrize("with_tokens", [True, False])
def test_a_trajectory_that_is_imported_is_exported_as_it_was(with_tokens: bool):
    tokens = SampledTokens((1, 2), (3, 4), (-0.5, -0.25)) if with_tokens else None
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    other: Message = {"role": "system", "content": "Other."}
    image = [{"type": "text", "text": "See"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}]
    seen: Message = {"role": "user", "content": image}
    plain_call = {key: value for key, value in CALL.items() if key != "reasoning_content"}
    exchange = (seen, plain_call, result("c", "y"), result("d", "two"))
    turns = (
        a_turn(SYSTEM, seen, CALL, tools=(tool,), tokens=tokens),
        Turn("inner", "m", (USER,), (said("y"),), within="c", tokens=tokens),
        a_turn(SYSTEM, *exchange, said("I go on."), tools=(tool,)),
        replace(a_turn(other, *exchange, said("I go on."), USER, said("x")), agent="b", model="n"),
        a_turn({"role": "user", "content": "In short"}, said("Before."), USER, said("z", reasoning_content="Hm.")),
    )
    rollout = a_rollout(0).model_copy(update={"price_usd": 0.5, "usage": Usage(requests=5, input=9, output=6)})
    record, lost = atif_trajectory(rollout, turns, Ranked(index=0, rank=0.0, reward=1.0))
    assert lost == ()
    assert list(faults(record, AtifTrajectory)) == []
    assert json.dumps(exported_again(record)) == json.dumps(record)
