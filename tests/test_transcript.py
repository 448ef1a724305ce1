"""From a trajectory to the text that a judge reads."""

import re
import unicodedata
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.records import Step, Trajectory
from harness.transcript import Transcript, clean, transcribe
from tests.builders import AT, steps, texts, trajectories

ANYTHING = st.text(st.characters(), max_size=30)
"""Lone surrogates and control characters too."""


@given(ANYTHING)
def test_clean_text_is_valid_unicode_without_control_characters_and_stays_as_it_is(text: str) -> None:
    cleaned = clean(text)
    assert cleaned.encode().decode() == cleaned
    assert {c for c in cleaned if unicodedata.category(c) == "Cc"} <= {"\n", "\t"}
    assert clean(cleaned) == cleaned


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [("a\ud800b", "a\ufffdb"), ("a\r\nb\rc", "a\nb\nc"), ("\x1b[31mred\x07", "[31mred"), ("a\tb\nc", "a\tb\nc"),
     ("what?", "what?"),
     ("naïve 日本 🙂", "naïve 日本 🙂"), ("a\x9bb\x85", "ab")],
)  # fmt: skip
def test_clean_replaces_half_surrogate_pairs_and_drops_control_characters(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"])))
def test_clean_leaves_all_other_text_alone(text: str) -> None:
    assert clean(text) == text


@given(trajectories, st.integers(1, 999))
def test_a_transcript_does_not_depend_on_ids_times_or_durations(trajectory: Trajectory, shift: int) -> None:
    told = {"call_id": f"c{shift}", "started_at": AT + timedelta(seconds=shift), "duration_s": float(shift)}
    other = trajectory.model_copy(update={"path": tuple(s.model_copy(update=told) for s in trajectory.path)})
    assert transcribe(other) == transcribe(trajectory)
    assert transcribe(other).hash == transcribe(trajectory).hash


@given(trajectories)
def test_a_transcript_survives_the_archive(trajectory: Trajectory) -> None:
    assert transcribe(Trajectory.model_validate_json(trajectory.model_dump_json())).hash == transcribe(trajectory).hash


@given(ANYTHING, ANYTHING)
def test_a_transcript_can_be_hashed_and_sent_whatever_is_in_it(tool: str, answer: str) -> None:
    step = Step(kind="tool", reasoning=tool, tool_name=tool, tool_input=tool, tool_output=tool, error=tool, agent=tool)
    shown = transcribe(Trajectory(query="?", path=(step, step), answer=answer))
    assert (shown.path + shown.answer).encode()
    assert re.fullmatch("[0-9a-f]{64}", shown.hash)


FEW = st.text("a1\n", max_size=3)


@given(FEW, FEW, FEW, FEW)
def test_two_transcripts_have_one_hash_only_if_path_and_answer_are_the_same(a: str, b: str, c: str, d: str) -> None:
    assert (Transcript(a, b).hash == Transcript(c, d).hash) == ((a, b) == (c, d))


def test_no_text_can_pose_as_the_other_part() -> None:
    assert Transcript("a\nb", "c").hash != Transcript("a", "b\nc").hash
    assert Transcript("", "ab").hash != Transcript("ab", "").hash


@given(st.lists(steps, max_size=6), texts)
def test_every_step_is_shown_once_in_its_order(path: list[Step], answer: str) -> None:
    quiet = [s.model_copy(update=dict.fromkeys(("reasoning", "tool_input", "tool_output", "error"))) for s in path]
    shown = transcribe(Trajectory(query="?", path=tuple(quiet), answer=answer)).path
    heads = [line for line in shown.split("\n") if line.startswith("Step ")]
    assert [h.split(" (")[0] for h in heads] == [f"Step {i}" for i in range(1, len(path) + 1)]
    assert [re.split(r"[( )]", h)[3] for h in heads] == [s.kind for s in path]


def test_a_run_without_steps_says_so() -> None:
    assert transcribe(Trajectory(query="?", answer=" So. \n")) == Transcript("(no steps)", "So.")


def step(**parts: Any) -> Step:
    return Step(kind="tool", **parts)


def test_all_that_a_step_did_is_shown() -> None:
    whole = step(
        reasoning=" I look. ", tool_name="web", tool_type="hosted", tool_input="{}", tool_output="found\n", error="late"
    )
    assert transcribe(Trajectory(query="?", path=(whole,))).path == (
        "Step 1 (tool)\nReasoning: I look.\nTool: web (hosted)\nInput: {}\nOutput:\nfound\nError: late"
    )


def test_a_call_that_brought_nothing_is_told_from_one_that_was_not_answered() -> None:
    empty, none = (transcribe(Trajectory(query="?", path=(step(tool_name="web", tool_output=o),))) for o in ("", None))
    assert empty.path.endswith("Output:\n")
    assert "Output" not in none.path


def test_agents_are_named_only_where_more_than_one_took_part() -> None:
    alone = transcribe(Trajectory(query="?", path=(step(agent="solo"), step(agent="solo"), step()))).path
    several = transcribe(Trajectory(query="?", path=(step(agent="one"), step(agent="two"), step()))).path
    assert "solo" not in alone
    assert ["by one" in several, "by two" in several, several.count(" by ")] == [True, True, 2]
