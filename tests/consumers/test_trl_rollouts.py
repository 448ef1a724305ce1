"""`trl.rollouts` inside TRL's GRPOTrainer: what is trained is what the agent's model sampled. On the CPU."""

from pathlib import Path
from typing import Any

import pytest

from harness.integrations.trl import reward, rollouts
from tests.consumers.test_exact_tokens import AGENT, SamplingServer
from tests.fake_endpoint import FakeEndpoint, fair_judge

torch: Any = pytest.importorskip("torch")
trl: Any = pytest.importorskip("trl")
datasets: Any = pytest.importorskip("datasets")

pytestmark = [pytest.mark.consumers, pytest.mark.filterwarnings("default")]
STEPS = 3


class Watched(trl.GRPOTrainer):
    """Notes the importance ratio of each trained token, step by step: the trainer's logprob against the sampler's."""

    ratios: list[Any]

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.ratios = []

    def logprobs(self, prompt: Any, completion: Any, attention: Any) -> Any:
        ids = torch.cat([prompt, completion], dim=1)
        with torch.no_grad():
            return self._get_per_token_logps_and_entropies(self.model, ids, attention, completion.size(1))[0]

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Any:
        attention = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1)
        now = self.logprobs(inputs["prompt_ids"], inputs["completion_ids"], attention)
        sampled = inputs.get("sampling_per_token_logps", inputs.get("old_per_token_logps"))
        trained = (inputs["completion_mask"] * inputs.get("tool_mask", 1)).bool()
        self.ratios.append((now - sampled).exp()[trained])
        return super()._compute_loss(model, inputs)


def trained(server: SamplingServer, tmp_path: Path, function: Any, **options: Any) -> Watched:
    """Let the server's model take three steps of GRPO, with one prompt of four completions each."""
    config = trl.GRPOConfig(
        output_dir=str(tmp_path / "out"),
        per_device_train_batch_size=4,
        num_generations=4,
        max_completion_length=8,
        max_steps=STEPS,
        num_iterations=1 if "rollout_func" in options else 2,  # with 2 TRL keeps the logprobs of the old policy
        learning_rate=1e-2,
        save_strategy="no",
        logging_steps=1,
        report_to=[],
        use_cpu=True,
        bf16=False,
    )
    rows = [{"prompt": [{"role": "user", "content": text}]} for text in ("Why is the sky blue?", "Why is grass green?")]
    trainer = Watched(
        model=server.model,
        reward_funcs=function,
        args=config,
        train_dataset=datasets.Dataset.from_list(rows),
        processing_class=server.tokenizer,
        **options,
    )
    trainer.train()
    return trainer


def test_with_rollouts_of_an_agent_the_ratio_is_1_at_every_trained_token_and_not_in_new_tokens(tmp_path: Path):
    server = SamplingServer(keeps_ids=True)
    (tmp_path / "agent.py").write_text(AGENT)
    with FakeEndpoint(server, fair_judge()).serving() as endpoint:
        function = reward("j", judge_base_url=endpoint.base_url)
        agent = rollouts(f"{tmp_path}/agent.py", base_url=endpoint.base_url, model="tiny", concurrency=1)
        kept: list[dict[str, Any]] = []

        def noted(prompts: Any, trainer: Watched) -> Any:
            kept.append(agent(prompts, trainer))
            if len(kept) == 1:
                again = [retokenized_ratio(server, trainer, kept[0], at) for at in range(len(prompts))]
                assert all(abs(ratio - 1) > 0.1 for ratio in again), "the texts are the same, the tokens are not"
            return kept[-1]

        trainer = trained(server, tmp_path, function, rollout_func=noted)
    assert len(trainer.ratios) == len(kept) == STEPS
    for output, ratio in zip(kept, trainer.ratios, strict=True):
        assert len(ratio) == sum(map(sum, output["env_mask"])) == 4 * 3 * 25
        assert (ratio - 1).abs().max() <= 1e-3
    logged = [entry for entry in trainer.state.log_history if "reward" in entry]
    assert [entry["rewards/tournament/mean"] for entry in logged] == pytest.approx([0.5] * STEPS)
    assert all(entry["grad_norm"] > 0 for entry in logged)
    assert len(endpoint.of_judge) == sum(entry["judge/calls"] for entry in logged)
    shown = server.tokenizer.decode(kept[0]["completion_ids"][0])
    assert shown.count("Meaning of ") == 2, "what the tool said is there, and masked"


def retokenized_ratio(server: SamplingServer, trainer: Watched, output: dict[str, Any], at: int) -> float:
    """Return the probability of a rollout's text, in tokens made of the text, against what it was sampled with."""
    prompt, completion, mask = (output[name][at] for name in ("prompt_ids", "completion_ids", "env_mask"))
    pieces: list[tuple[int, list[int]]] = []
    for token, model in zip(completion, mask, strict=True):
        if not pieces or pieces[-1][0] != model:
            pieces.append((model, []))
        pieces[-1][1].append(token)
    anew = [(model, server.ids(server.tokenizer.decode(ids))) for model, ids in pieces]
    ids = torch.tensor([[token for _, piece in anew for token in piece]])
    of_model = torch.tensor([[model for model, piece in anew for _ in piece]])
    shown = torch.tensor([prompt])
    logprobs = trainer.logprobs(shown, ids, torch.ones(1, shown.size(1) + ids.size(1)))
    return float(((logprobs * of_model).sum() - sum(output["logprobs"][at])).exp())


def test_with_the_reward_alone_the_ratio_of_what_the_trainer_sampled_is_1(tmp_path: Path):
    server = SamplingServer(keeps_ids=True)
    with FakeEndpoint(server, fair_judge()).serving() as endpoint:
        trainer = trained(server, tmp_path, reward("j", judge_base_url=endpoint.base_url))
    assert len(trainer.ratios) == STEPS
    assert (trainer.ratios[0] - 1).abs().max() <= 1e-3
    assert (trainer.ratios[1] - 1).abs().max() > 1e-3, "the second step trains on what the policy before it sampled"
