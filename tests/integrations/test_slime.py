"""`harness.integrations.slime.group_rm` by the signature of slime's `--group-rm --custom-rm-path`.

slime needs devices and is on no package index: its Sample is written down here as it is in slime/utils/types.py.
"""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from harness.integrations import slime
from tests.fake_endpoint import FakeEndpoint

pytestmark = pytest.mark.anyio


@dataclass
class Sample:
    group_index: int
    prompt: str | list[dict[str, str]]
    response: str
    reward: Any = None
    remove_sample: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)


def group(index: int, prompt: Any, *responses: str) -> list[Sample]:
    return [Sample(index, prompt, response, metadata={"source": "s"}) for response in responses]


async def test_a_group_gets_the_rewards_of_a_tournament_and_its_figures_go_to_slimes_log(judge: FakeEndpoint):
    rm = slime.group_rm("j", judge_base_url=judge.base_url, order="both", prices={"j": "1/2"})
    sky = group(0, [{"role": "user", "content": "Why is the sky blue?"}], "fair", "good", "bad")
    night = group(1, "Why is it dark at night?", "bad", "good")
    assert await rm(SimpleNamespace(reward_key=None), sky) == [0.5, 1, 0]
    assert await rm(SimpleNamespace(reward_key="rank"), night) == [{"rank": 0}, {"rank": 1}]
    assert sky[0].metadata["source"] == "s"
    assert sky[1].metadata["judge"]["why"].startswith("beat ")
    assert not any(sample.remove_sample for sample in sky + night)
    logged: dict[str, Any] = {"rollout/length": 3}
    assert slime.log_rollout(0, SimpleNamespace(), [*sky, *night, *group(2, "Why?", "unjudged")], logged, 1.5) is False
    assert logged == {
        "rollout/length": 3,
        "judge/flip_rate": 0,
        "judge/reliability": pytest.approx(0.9, abs=0.1),
        "judge/first_side": pytest.approx(0),
        "judge/no_signal": 0,
        "judge/failed_groups": 0,
        "judge/calls": 8,
        "judge/reused": 0,
        "judge/usd": pytest.approx(8 * 0.0014),
    }


async def test_a_group_without_verdicts_gets_equal_rewards_and_no_part_in_the_loss(judge: FakeEndpoint):
    rm = slime.group_rm("j", judge_base_url=judge.base_url)
    lost = group(0, "Why is grass green?", "good", "bad")
    assert await rm(SimpleNamespace(), lost) == [0.5, 0.5]
    assert all(sample.remove_sample and "JSON" in sample.metadata["judge"]["why"] for sample in lost)
