"""`harness.best_of` where all answers are the same text."""

from itertools import count
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, function_tool

import harness
from tests.fake_endpoint import FakeEndpoint, Say, Script, Seen, fair_judge, verdict

pytestmark = pytest.mark.anyio


@function_tool
def look(at: int) -> str:
    """Look."""
    return f"seen {at}"


def straight(_: Seen) -> Say:
    return Say("Blue.")


def by_another_way() -> Script:
    numbers = count()
    return lambda seen: Say("Blue.") if seen.tool_outputs else Say(calls=(("look", {"at": next(numbers)}),))


def first(_: Seen) -> Say:
    return Say(verdict(8, 5))


ANSWERS_ALONE = """---
name: answers
version: 1
path_weight: 0
answer_weight: 1
dimensions:
  - {key: right, title: Right, block: answer, description: Says what is so.}
---
Compare the answers.
"""


NO_DIFFERENCE = "rollout 0 is the best of 3: nothing that a judge sees differs, so it is the first"


@pytest.mark.parametrize(
    ("agent", "rubric", "judge", "asked", "why"),
    [
        (straight, "writing", first, False, NO_DIFFERENCE),
        pytest.param(by_another_way(), "answers.md", first, False, NO_DIFFERENCE, marks=pytest.mark.process),
        (
            by_another_way(),
            "writing",
            fair_judge(len),
            True,
            "all answers are the same, and the judge told no path from another, so it is the first",
        ),
    ],
    ids=["same paths", "path not judged", "path judged"],
)
async def test_equal_answers_need_a_verdict_only_where_paths_that_differ_are_judged(
    agent: Script, rubric: str, judge: Script, asked: bool, why: str, tmp_path: Path
):
    (tmp_path / "answers.md").write_text(ANSWERS_ALONE)
    made = Agent[Any](name="a", model="m", tools=[look])
    rubric = str(tmp_path / rubric) if rubric.endswith(".md") else rubric
    with FakeEndpoint(agent=agent, judge=judge).serving() as endpoint:
        at: Any = {"base_url": endpoint.base_url, "judge_model": "j", "on_judge_failure": "raise", "rubric": rubric}
        best = await harness.best_of(made, "Which colour?", 3, **at)
        calls = sum(seen.is_judge for seen in endpoint.requests)
    assert (best.answer, best.judged, calls > 0) == ("Blue.", asked, asked)
    assert best.why.endswith(why)
