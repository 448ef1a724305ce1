"""`harness.integrations.art.score_group` on the shapes of ART's groups; tests/consumers has ART's own."""

import copy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel

from harness.integrations import art
from tests.fake_endpoint import FakeEndpoint, block

pytestmark = pytest.mark.anyio
ASKED = [{"role": "system", "content": "You are brief."}, {"role": "user", "content": "Why is the sky blue?"}]


class History(BaseModel):
    messages_and_choices: list[Any]
    tools: list[Any] | None = None


class Trajectory(History):
    additional_histories: list[History] = []
    reward: float = 0.0
    metrics: dict[str, float] = {}
    metadata: dict[str, Any] = {}
    logs: list[str] = []


class Group(BaseModel):
    trajectories: list[Trajectory]
    exceptions: list[str] = []
    metrics: dict[str, float] = {}


class Message(BaseModel):
    role: str = "assistant"
    content: str | None = None
    tool_calls: list[Any] | None = None


def said(text: str) -> Any:
    """A Choice, as the client library gives it."""
    return SimpleNamespace(message=Message(content=text), finish_reason="stop", index=0)


def trajectory(*messages: Any, **members: Any) -> Trajectory:
    return Trajectory(messages_and_choices=[*ASKED, *messages], **members)


async def test_a_group_comes_back_as_a_copy_with_rewards_and_keeps_what_it_had(judge: FakeEndpoint):
    group = Group(
        trajectories=[
            trajectory(said("fair"), reward=0.25, metrics={"turns": 1}, logs=["began"]),
            trajectory(said("good"), reward=1),
            trajectory({"role": "assistant", "content": "bad"}),
        ],
        exceptions=["a rollout broke"],
        metrics={"scenario": 7},
    )
    before = copy.deepcopy(group)
    score = art.score_group("j", judge_base_url=judge.base_url, prices={"j": "1/2"}, order="both")
    scored = await score(group)
    assert [t.reward for t in scored.trajectories] == [0.5, 1, 0]
    assert scored.trajectories[0].metrics == {"turns": 1, "independent_reward": 0.25}
    assert scored.trajectories[0].logs[0] == "began"
    assert scored.trajectories[1].logs[0].startswith("tournament: beat ")
    assert scored.exceptions == ["a rollout broke"]
    assert scored.metrics.pop("costs/judge/tournament") == pytest.approx(6 * 0.0014)
    assert scored.metrics["scenario"] == 7
    assert scored.metrics["judge/flip_rate"] == 0
    scored.trajectories[0].messages_and_choices.clear()
    assert group.model_dump() == before.model_dump()


async def test_a_group_without_verdicts_is_dropped_and_one_without_trajectories_is_not_judged(judge: FakeEndpoint):
    score = art.score_group("j", judge_base_url=judge.base_url)
    grass = [{"role": "user", "content": "Why is grass green?"}]
    lost = Group(trajectories=[Trajectory(messages_and_choices=[*grass, said(text)]) for text in ("good", "bad")])
    assert await score(lost) is None
    calls = len(judge.requests)
    assert (await score(Group(trajectories=[], exceptions=["all broke"]))).exceptions == ["all broke"]
    assert len(judge.requests) == calls


async def test_the_judge_reads_further_histories_and_the_answer_of_the_one_that_answers(
    judge: FakeEndpoint, tmp_path: Path
):
    def calls(word: str) -> dict[str, Any]:
        function = {"name": "look", "arguments": f'{{"word": "{word}"}}'}
        return {"role": "assistant", "tool_calls": [{"id": "same", "type": "function", "function": function}]}

    def result(text: str) -> dict[str, str]:
        return {"role": "tool", "tool_call_id": "same", "content": text}

    helped = History(
        messages_and_choices=[ASKED[0], {"role": "user", "content": "Find it."}, calls("b"), result("seen b")]
    )
    answered = trajectory(calls("a"), result("seen a"), said("good"), additional_histories=[helped])
    went_on = History(messages_and_choices=[{"role": "user", "content": "So far: seen a"}, said("bad")])
    handed_over = trajectory(calls("a"), result("seen a"), additional_histories=[went_on])
    score = art.score_group("j", judge_base_url=judge.base_url, store=tmp_path / "verdicts")
    scored = await score(Group(trajectories=[answered, handed_over]))
    assert [t.reward for t in scored.trajectories] == [1, 0]
    assert scored.trajectories[0].additional_histories == [helped]
    text = judge.of_judge[0].user
    answers = {block(text, f"ANSWER_{side}"): block(text, f"PATH_{side}") for side in "AB"}
    assert set(answers) == {"good", "bad"}
    assert "Find it." in answers["good"]
    assert answers["good"].index('"b"') < answers["good"].index("seen b") < answers["good"].index("seen a")
    assert "So far: seen a" in answers["bad"]
