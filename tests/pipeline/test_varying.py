"""Where a temperature changes nothing, a run says so, and names `--vary`."""

from pathlib import Path
from typing import Any

import pytest
from agents import Agent
from hypothesis import given
from hypothesis import strategies as st

import harness
from harness.core.progress import Silent
from harness.core.records import Group
from harness.core.settings_sources import load
from harness.pipeline.resolve import AgentSpec
from harness.pipeline.varying import EqualAnswers
from harness.rollouts.loading import from_object
from tests.builders import a_group, a_rollout
from tests.fake_endpoint import FakeEndpoint, Say

AGENT = AgentSpec(from_object(Agent(name="a")), None, offline=False, model="m")


def group(*answers: str, anchor: str = "anchor's") -> Group:
    return a_group([a_rollout(0, anchor), *(a_rollout(i, answer) for i, answer in enumerate(answers, 1))])


def notes(*groups: Group, agent: AgentSpec = AGENT, **settings: Any) -> list[str]:
    said = list[str]()
    equal = EqualAnswers(load(settings), agent, said.append)
    for each in groups:
        equal.look(each)
    return said


SAME = group("x", "x", "x")


def test_equal_answers_of_all_samples_in_three_groups_are_said_once():
    assert notes(SAME, SAME) == []
    (note,) = notes(*[SAME] * 5)
    assert note == (
        "in each of the first 3 groups all samples gave one answer: unless the agent can give only one, the model "
        "ignores --temperature 0.8, and --vary names other ways in which samples may differ"
    )


@given(st.integers(0, 2))
def test_one_sample_that_differs_tells_that_the_temperature_is_heard(place: int):
    groups = [SAME] * 5
    groups[place] = group("x", "x", "y")
    assert notes(*groups) == []


def test_nothing_is_said_of_few_samples_of_temperature_0_and_of_other_ways_to_vary():
    assert notes(*[group("x", "x")] * 5) == []
    assert notes(*[SAME] * 5, temperature=0) == []
    assert notes(*[SAME] * 5, vary="effort=low") == []
    assert notes(*[SAME] * 5, agent=AgentSpec(AGENT.loaded, None, offline=True, model="m")) == []


class _Noting(Silent):
    def __init__(self) -> None:
        self.said = list[str]()

    def note(self, text: str) -> None:
        self.said.append(text)


@pytest.mark.anyio
async def test_a_run_at_an_endpoint_that_ignores_the_temperature_says_so(tmp_path: Path):
    progress = _Noting()
    with FakeEndpoint(agent=lambda _: Say("always")).serving() as endpoint:
        await harness.run(
            Agent(name="a"),
            ["q1", "q2", "q3", "q4"],
            n=4,
            model="m",
            base_url=endpoint.base_url,
            topology="none",
            runs_dir=tmp_path,
            progress=progress,
        )
    assert sum("--vary" in note or "vary=" in note for note in progress.said) == 1
