"""`harness.integrations.trl.reward` inside TRL's own trainers: a tiny random model takes a step, on the CPU."""

import asyncio
import pickle  # noqa: TID251 - the async trainer sends reward functions to another process so
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.integrations.trl import reward
from tests.consumers.tiny_model import tiny_model, tiny_tokenizer
from tests.fake_endpoint import FakeEndpoint, Reaction, Say, Seen, fair_judge

torch: Any = pytest.importorskip("torch")
trl: Any = pytest.importorskip("trl")
datasets: Any = pytest.importorskip("datasets")

pytestmark = [pytest.mark.consumers, pytest.mark.filterwarnings("default")]
SKY, GRASS = "Why is the sky blue?", "Why is grass green?"


def by_length_but_of_grass(seen: Seen) -> Reaction:
    return Say("The second one, I should think.") if "grass" in seen.user else fair_judge()(seen)


def trained(tmp_path: Path, *functions: Any) -> Any:
    """Let a tiny model take a step of GRPO with two prompts of four completions, and return the trainer."""
    tokenizer = tiny_tokenizer()
    config = trl.GRPOConfig(
        output_dir=str(tmp_path / "out"),
        per_device_train_batch_size=8,
        num_generations=4,
        max_completion_length=8,
        max_steps=1,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        bf16=False,
    )
    rows = datasets.Dataset.from_list([{"prompt": [{"role": "user", "content": text}]} for text in (SKY, GRASS)])
    trainer = trl.GRPOTrainer(
        model=tiny_model(tokenizer),
        reward_funcs=list(functions),
        args=config,
        train_dataset=rows,
        processing_class=tokenizer,
    )
    trainer.train()
    return trainer


def groups_of(trainer: Any, column: Any) -> dict[str, Any]:
    """Return four values a prompt."""
    asked = [prompt[0]["content"] for prompt in trainer._logs["prompt"]]
    return {text: [value for name, value in zip(asked, column, strict=True) if name == text] for text in (SKY, GRASS)}


def test_a_step_takes_the_rewards_and_leaves_out_a_group_without_verdicts(endpoint: FakeEndpoint, tmp_path: Path):
    function = reward("j", judge_base_url=endpoint.base_url, store=tmp_path / "verdicts", order="both")
    endpoint.judge = by_length_but_of_grass
    trainer = trained(tmp_path, function)
    function.judge.close()
    rewards = torch.tensor(list(trainer._logs["rewards"]["tournament"]))
    assert torch.isnan(rewards).sum() == 4
    of = groups_of(trainer, rewards.tolist())
    assert sum(of[SKY]) == pytest.approx(2)
    assert len(set(of[SKY])) > 1
    advantages = groups_of(trainer, trainer._logs["advantages"])
    assert advantages[GRASS] == [0] * 4
    assert sum(advantages[SKY]) == pytest.approx(0, abs=1e-5)
    log = next(entry for entry in trainer.state.log_history if "reward" in entry)
    assert log["reward"] == pytest.approx(0.5)
    assert (log["judge/failed_groups"], log["judge/flip_rate"]) == (0.5, 0)
    explanations = groups_of(trainer, trainer._logs["extra"]["judge"])
    assert all("JSON" in why for why in explanations[GRASS])


def test_beside_another_reward_function_a_group_without_verdicts_gets_equal_rewards(
    endpoint: FakeEndpoint, tmp_path: Path
):
    endpoint.judge = by_length_but_of_grass

    def length(completion_ids: list[list[int]], **_: Any) -> list[float]:
        return [float(sum(ids)) for ids in completion_ids]

    trainer = trained(tmp_path, reward("j", judge_base_url=endpoint.base_url), length)
    assert groups_of(trainer, trainer._logs["rewards"]["tournament"])[GRASS] == [0.5] * 4
    lengths = torch.tensor(groups_of(trainer, trainer._logs["rewards"]["length"])[GRASS])
    advantages = torch.tensor(groups_of(trainer, trainer._logs["advantages"])[GRASS])
    assert advantages.tolist() == pytest.approx(
        ((lengths - lengths.mean()) / (lengths.std() + 1e-4)).tolist(), abs=1e-4
    )


def test_the_async_trainers_worker_scores_a_whole_group_with_a_function_that_was_pickled(endpoint: FakeEndpoint):
    worker: Any = pytest.importorskip("trl.experimental.async_grpo.async_rollout_worker")
    pytest.importorskip("accelerate").PartialState()  # as the worker's process begins
    function = pickle.loads(pickle.dumps(reward("j", judge_base_url=endpoint.base_url)))
    endpoint.judge = by_length_but_of_grass
    loop = SimpleNamespace(
        reward_funcs=[function], reward_func_names=["tournament"], _env_reward_types=[], _provides_rollout_reward=False
    )

    def scored(prompt: str) -> tuple[list[float], list[float]]:
        group = worker.RolloutGroup(
            prompts=[[{"role": "user", "content": prompt}]] * 3,
            reward_kwargs={"reference": [None] * 3},
            completions=[[{"role": "assistant", "content": text}] for text in ("one", "two", "three")],
            completions_ids=[[1]] * 3,
            completions_sequences=[[worker.TrainingSequence([1, 2], [0, 1], [0.0, -1.0], str(i))] for i in range(3)],
            tool_call_counts=[0] * 3,
            tool_failure_counts=[0] * 3,
            model_version=0,
            group_id=0,
            env_rewards=[None] * 3,
            rollout_rewards=[None] * 3,
        )
        samples = asyncio.run(worker._AsyncRolloutLoop._score_group(loop, group))
        return [s.metrics["rewards/tournament"] for s in samples], [s.advantage for s in samples]

    rewards, advantages = scored(SKY)
    assert sorted(rewards) == [0, 0.5, 1]
    assert sum(advantages) == pytest.approx(0, abs=1e-6)
    rewards, advantages = scored(GRASS)
    assert all(value != value for value in rewards)
    assert advantages == [0, 0, 0]
