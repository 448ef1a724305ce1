"""`harness.integrations.tinker.group_rewards` in a group rollout of tinker's cookbook, with its own types."""

import pickle  # noqa: TID251 - builders of groups are sent to other processes so
from typing import Any

import pytest

from harness.integrations.tinker import group_rewards
from tests.fake_endpoint import FakeEndpoint, fair_judge

pytestmark = [pytest.mark.consumers, pytest.mark.anyio, pytest.mark.filterwarnings("default")]


class Renderer:
    """Tokens are characters."""

    def parse_response(self, tokens: list[int]) -> tuple[dict[str, Any], Any]:
        base: Any = pytest.importorskip("tinker_cookbook.renderers.base")
        return {"role": "assistant", "content": "".join(map(chr, tokens))}, base.ParseTermination.STOP_SEQUENCE

    def build_generation_prompt(self, messages: list[Any]) -> Any:
        text = "".join(message["content"] for message in messages)
        return pytest.importorskip("tinker").ModelInput.from_ints([*map(ord, text)])

    def get_stop_sequences(self) -> list[str]:
        return ["\n"]


async def test_a_group_of_the_cookbook_gets_the_rewards_of_a_tournament(endpoint: FakeEndpoint):
    problems: Any = pytest.importorskip("tinker_cookbook.rl.problem_env")
    rollouts: Any = pytest.importorskip("tinker_cookbook.rl.rollouts")
    completers: Any = pytest.importorskip("tinker_cookbook.completers")
    endpoint.judge = fair_judge(len)
    rewards = group_rewards("j", judge_base_url=endpoint.base_url, order="both")

    class Problem(problems.ProblemEnv):
        def get_question(self) -> str:
            return "Why is the sky blue?"

        def check_answer(self, sample_str: str) -> bool:
            return False

        def check_format(self, sample_str: str) -> bool:
            return True

        def get_reference_answer(self) -> str:
            return ""

    class Builder(problems.ProblemGroupBuilder):
        async def compute_group_rewards(self, trajectory_group: Any, env_group: Any) -> Any:
            return await rewards(trajectory_group, env_group)

    texts = iter(["four", "a", "six six"])

    class Policy(completers.TokenCompleter):
        async def __call__(self, model_input: Any, stop: Any, **_: Any) -> Any:
            tokens = [*map(ord, next(texts))]
            return completers.TokensWithLogprobs(tokens=tokens, maybe_logprobs=[0.0] * len(tokens))

    group = await rollouts.do_group_rollout(Builder(lambda: Problem(Renderer()), 3), Policy())
    lengths = [len(t.transitions[0].ac.tokens) for t in group.trajectories_G]
    assert dict(zip(lengths, group.get_total_rewards(), strict=True)) == {1: 0, 4: 0.5, 7: 1}
    assert all(metrics["judge/calls"] == 6 for metrics in group.metrics_G)
    assert pickle.loads(pickle.dumps(rewards)).judge.level == 0.5
