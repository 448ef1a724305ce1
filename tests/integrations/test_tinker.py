"""`harness.integrations.tinker.group_rewards` on the shapes of tinker's cookbook; tests/consumers has its own types."""

import pickle  # noqa: TID251 - builders of groups are sent to other processes so
from types import SimpleNamespace
from typing import Any

import pytest

import harness
from harness.integrations import tinker
from tests.fake_endpoint import FakeEndpoint, block

pytestmark = pytest.mark.anyio
SKY = {"role": "user", "content": "Why is the sky blue?"}


class Renderer:
    """Tokens are characters."""

    def parse_response(self, tokens: list[int]) -> tuple[dict[str, Any], bool]:
        return {"role": "assistant", "content": "".join(map(chr, tokens))}, True


def trajectory(*texts: str) -> Any:
    return SimpleNamespace(transitions=[SimpleNamespace(ac=SimpleNamespace(tokens=[*map(ord, t)])) for t in texts])


def problem(question: str = SKY["content"]) -> Any:
    """A ProblemEnv: a question after some messages."""
    system = {"role": "system", "content": "You are brief."}
    return SimpleNamespace(renderer=Renderer(), convo_prefix=[system], get_question=lambda: question)


async def test_a_group_gets_rewards_and_figures_and_one_without_verdicts_equal_rewards(judge: FakeEndpoint):
    rewards = tinker.group_rewards("j", judge_base_url=judge.base_url, order="both", prices={"j": "1/2"})
    group = [trajectory(text) for text in ("fair", "good", "bad")]
    judged = await pickle.loads(pickle.dumps(rewards))(group, [problem()] * 3)
    assert [reward for reward, _ in judged] == [0.5, 1, 0]
    assert all(figures == judged[0][1] for _, figures in judged)
    assert judged[0][1]["judge/usd"] == pytest.approx(6 * 0.0014)
    assert judged[0][1]["judge/flip_rate"] == 0
    lost = await rewards(group, [problem("Why is grass green?")] * 3)
    assert [(reward, figures["judge/failed_groups"]) for reward, figures in lost] == [(0.5, 1)] * 3
    assert await rewards([], []) == []


async def test_the_judge_reads_thinking_calls_and_a_reply_that_was_cut(judge: FakeEndpoint):
    class Call:
        def model_dump(self, mode: str) -> dict[str, Any]:
            return {"id": None, "type": "function", "function": {"name": "look", "arguments": '{"word": "sky"}'}}

    thought = [{"type": "thinking", "thinking": "I should look."}, {"type": "text", "text": "Let me see."}]
    history = [
        SKY,
        {"role": "assistant", "content": thought, "tool_calls": [Call()]},
        {"role": "tool", "content": "about the sky", "name": "look"},
    ]

    def env(*closing: dict[str, str]) -> Any:
        return SimpleNamespace(renderer=Renderer(), message_env=SimpleNamespace(history=[*history, *closing]))

    ended = env({"role": "assistant", "content": "good"})
    cut = env()
    rewards = tinker.group_rewards("j", judge_base_url=judge.base_url)
    judged = await rewards([trajectory("look", "good"), trajectory("look", "bad and")], [ended, cut])
    assert [reward for reward, _ in judged] == [1, 0]
    text = judge.of_judge[0].user
    paths = {block(text, f"ANSWER_{side}"): block(text, f"PATH_{side}") for side in "AB"}
    assert set(paths) == {"good", "bad and"}
    for path in paths.values():
        assert path.index("I should look.") < path.index('"sky"') < path.index("about the sky")


async def test_an_environment_without_messages_needs_a_function_for_them(judge: FakeEndpoint):
    group, envs = [trajectory("good"), trajectory("bad")], [SimpleNamespace(text="good"), SimpleNamespace(text="bad")]
    with pytest.raises(harness.UsageError, match=r"SimpleNamespace does not show its messages: .*messages="):
        await tinker.group_rewards("j", judge_base_url=judge.base_url)(group, envs)
    of_env = tinker.group_rewards(
        "j", messages=lambda _, env: [SKY, {"role": "assistant", "content": env.text}], judge_base_url=judge.base_url
    )
    assert [reward for reward, _ in await of_env(group, envs)] == [1, 0]
