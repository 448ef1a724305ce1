"""`harness.integrations.art.score_group` inside ART's own gathering of groups."""

import copy
from typing import Any

import pytest

from harness.integrations.art import score_group
from tests.fake_endpoint import FakeEndpoint, Reaction, Say, Seen, fair_judge

pytestmark = [pytest.mark.consumers, pytest.mark.anyio, pytest.mark.filterwarnings("default")]


def of_all_but_grass(seen: Seen) -> Reaction:
    return Say("The second one, I should think.") if "grass" in seen.user else fair_judge(len)(seen)


async def test_groups_are_scored_as_they_are_gathered_and_one_without_verdicts_is_left_out(
    endpoint: FakeEndpoint, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else ART's import asks the network for prices
    art: Any = pytest.importorskip("art")
    choices: Any = pytest.importorskip("openai.types.chat.chat_completion")
    endpoint.judge = of_all_but_grass

    def said(text: str) -> Any:
        message = {"role": "assistant", "content": text}
        return choices.Choice.model_validate({"finish_reason": "stop", "index": 0, "message": message})

    async def rolled_out(query: str, text: str) -> Any:
        if text == "broken":
            raise RuntimeError(text)
        further = art.trajectories.History(messages_and_choices=[{"role": "user", "content": "Help."}, said("I help.")])
        return art.Trajectory(
            messages_and_choices=[{"role": "user", "content": query}, said(text)],
            additional_histories=[further],
            reward=0.25,
            initial_policy_version=3,
        )

    gathered: list[Any] = []
    score = score_group("j", judge_base_url=endpoint.base_url, prices={"j": "1/2"}, order="both")

    async def kept_and_scored(group: Any) -> Any:
        gathered.append((group, copy.deepcopy(group)))
        return await score(group)

    texts = ("a", "a bcd", "a bcdefgh", "broken")
    groups = await art.gather_trajectory_groups(
        (art.TrajectoryGroup(rolled_out(query, text) for text in texts) for query in ("Why grass?", "Why sky?")),
        after_each=kept_and_scored,
        max_exceptions=2,
    )
    (group,) = groups
    assert isinstance(group, art.TrajectoryGroup)
    assert sorted((t.reward, len(t.messages()[-1]["content"])) for t in group) == [(0, 1), (0.5, 5), (1, 9)]
    assert all(t.metrics == {"independent_reward": 0.25} for t in group)
    assert all((t.initial_policy_version, len(t.additional_histories)) == (3, 1) for t in group)
    assert all(isinstance(t.messages_and_choices[-1], choices.Choice) for t in group)
    assert len(group.exceptions) == 1
    assert group.metrics["costs/judge/tournament"] == pytest.approx(6 * 0.0014)
    assert all(original.model_dump() == before.model_dump() for original, before in gathered)
