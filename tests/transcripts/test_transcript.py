"""From a trajectory to the text that a judge reads."""

import re
from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from harness.core.records import Step, Trajectory
from harness.transcripts.tokens import TokenBudget, estimate_tokens
from harness.transcripts.transcript import Transcript, transcribe
from tests.builders import AT, steps, texts, trajectories

ANYTHING = st.text(st.characters(), max_size=30)
"""Lone surrogates and control characters too."""


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
        "Step 1 (tool)\nReasoning: I look.\nHosted tool: web\nInput: {}\nOutput: found\nError: late"
    )


def test_a_call_that_brought_nothing_is_told_from_one_that_was_not_answered() -> None:
    empty, none = (transcribe(Trajectory(query="?", path=(step(tool_name="web", tool_output=o),))) for o in ("", None))
    assert empty.path.endswith("Output:")
    assert "Output" not in none.path


def test_agents_are_named_only_where_more_than_one_took_part() -> None:
    alone = transcribe(Trajectory(query="?", path=(step(agent="solo"), step(agent="solo"), step()))).path
    several = transcribe(Trajectory(query="?", path=(step(agent="one"), step(agent="two"), step()))).path
    assert "solo" not in alone
    assert ["by one" in several, "by two" in several, several.count(" by ")] == [True, True, 2]


# ---- Within a budget


def words(text: str) -> int:
    """A counter as unlike a tokenizer as can be: words and line breaks."""
    return len(text.split())


BUDGETS = st.builds(TokenBudget, st.integers(60, 400), st.sampled_from([estimate_tokens, words, len]))
LONG = st.integers(0, 900).map(lambda n: "".join(f"w{i} " for i in range(n)))
LONG_PATHS = st.lists(
    st.builds(
        Step,
        kind=st.just("tool"),
        reasoning=st.none() | LONG,
        tool_name=st.just("web"),
        tool_input=st.none() | LONG,
        tool_output=st.none() | LONG,
        error=st.none() | texts,
    ),
    max_size=5,
)
CUT = re.compile(r"\[… ([\d,]+) characters cut …\]")


@given(LONG_PATHS, LONG, BUDGETS)
def test_a_transcript_fits_its_budget_and_one_that_fits_anyway_is_left_alone(
    path: list[Step], answer: str, budget: TokenBudget
) -> None:
    trajectory = Trajectory(query="?", path=tuple(path), answer=answer)
    whole, shown = transcribe(trajectory), transcribe(trajectory, budget)
    assert budget.holds(shown.path, shown.answer)
    assert shown.cut == (not budget.holds(whole.path, whole.answer))
    if not shown.cut:
        assert (shown, shown.hash) == (whole, whole.hash)
    assert shown.answer_cut == (shown.answer != whole.answer)
    assert bool(CUT.search(shown.path + shown.answer)) == shown.cut


@given(LONG_PATHS, LONG, BUDGETS)
def test_the_same_settings_give_the_same_text(path: list[Step], answer: str, budget: TokenBudget) -> None:
    trajectory = Trajectory(query="?", path=tuple(path), answer=answer)
    again = Trajectory.model_validate_json(trajectory.model_dump_json())
    assert transcribe(trajectory, budget).hash == transcribe(again, TokenBudget(budget.tokens, budget.count)).hash


@given(LONG_PATHS, st.integers(1, 60))
def test_an_answer_that_leaves_room_for_a_path_is_never_cut(path: list[Step], size: int) -> None:
    answer = "x" * size
    shown = transcribe(Trajectory(query="?", path=tuple(path), answer=answer), TokenBudget(100, estimate_tokens))
    assert (shown.answer, shown.answer_cut) == (answer, False)


def shown_within(tokens: int, *path: Step, answer: str = "So.") -> Transcript:
    return transcribe(Trajectory(query="?", path=path, answer=answer), TokenBudget(tokens, estimate_tokens))


def test_tool_outputs_are_cut_first_then_reasoning_then_inputs_then_the_path_and_the_answer_last() -> None:
    whole = step(reasoning="r" * 4000, tool_name="web", tool_input="i" * 4000, tool_output="o" * 4000)

    def kept(tokens: int) -> dict[str, int]:
        shown = shown_within(tokens, whole, answer="a" * 4000)
        return {c: (shown.path + shown.answer).count(c * 9) for c in "rioa"}

    full = dict.fromkeys("rioa", 4000 // 9)
    outputs, reasoning, inputs, path, answer = (kept(n) for n in (3500, 2500, 1500, 1050, 500))
    assert 22 <= outputs["o"] < full["o"]
    assert outputs | {"o": full["o"]} == full
    assert 22 <= reasoning["r"] < full["r"]
    assert reasoning | {"o": full["o"], "r": full["r"]} == full
    assert 22 <= inputs["i"] < full["i"]
    assert (inputs["r"], inputs["a"]) == (22, full["a"])
    assert path["a"] == full["a"]
    assert sum(path[c] for c in "rio") < 66
    assert 0 < answer["a"] < full["a"]


def test_of_several_outputs_only_those_longer_than_the_common_length_are_cut() -> None:
    shown = shown_within(1000, step(tool_output="s" * 500), step(tool_output="m" * 3000), step(tool_output="l" * 9000))
    assert shown.path.count("s") >= 500
    assert 0 <= shown.path.count("m" * 9) - shown.path.count("l" * 9) <= 1
    assert len(CUT.findall(shown.path)) == 2


def test_the_outputs_of_an_agent_s_tool_are_cut_with_the_others() -> None:
    shown = shown_within(300, step(tool_name="helper", inner=(step(tool_name="web", tool_output="x" * 5000),)))
    assert len(shown.path) < 1400
    assert len(CUT.findall(shown.path)) == 1


def test_a_path_of_ten_thousand_steps_is_cut_as_a_whole() -> None:
    shown = shown_within(500, *[step(tool_name=f"t{i}") for i in range(10_000)])
    assert shown.path.startswith("Step 1 (tool)")
    assert shown.path.endswith("Tool: t9999")
    assert (shown.answer, shown.answer_cut) == ("So.", False)


def test_an_answer_longer_than_the_whole_budget_is_cut_and_said_to_be() -> None:
    shown = shown_within(500, step(tool_output="o" * 5000), answer="a" * 90_000)
    assert (shown.cut, shown.answer_cut) == (True, True)
    assert CUT.search(shown.answer)
    assert len(shown.path) + len(shown.answer) > 1500
