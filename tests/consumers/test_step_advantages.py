"""`export --step-advantages` where a trainer takes a number a token: tinker's Datum, the loss of TRL's GRPOTrainer."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from tests.consumers.test_exact_tokens import SamplingServer, exported

torch: Any = pytest.importorskip("torch")

pytestmark = [pytest.mark.consumers, pytest.mark.filterwarnings("default")]
Sequences = Sequence[dict[str, Any]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[SamplingServer, Sequences]:
    """A server, and the sequence of each rollout that it sampled: three turns, the last of which is the answer."""
    server = SamplingServer(keeps_ids=True)
    rollouts = exported(server, tmp_path_factory.mktemp("steps"), "--step-advantages")
    sequences = [sequence for rollout in rollouts for sequence in rollout["sequences"]]
    assert len(sequences) == len(rollouts)
    assert all(len(set(sequence["token_advantages"])) > 2 for sequence in sequences), (
        "turns were worth different things"
    )
    return server, sequences


def test_a_datum_of_tinkers_has_them_at_the_tokens_that_the_cookbook_would_train(made: tuple[Any, Sequences]):
    tinker: Any = pytest.importorskip("tinker")
    types: Any = pytest.importorskip("tinker_cookbook.rl.types")
    completers: Any = pytest.importorskip("tinker_cookbook.completers")
    data: Any = pytest.importorskip("tinker_cookbook.rl.data_processing")
    for sequence in made[1]:
        ids, mask, logprobs = (sequence[name] for name in ("token_ids", "token_mask", "logprobs"))
        said = [list(run) for model, run in groupby(range(len(ids)), mask.__getitem__) if model]
        steps = [
            types.Transition(
                ob=tinker.ModelInput.from_ints(ids[: run[0]]),
                ac=completers.TokensWithLogprobs(
                    tokens=[ids[i] for i in run], maybe_logprobs=[logprobs[i] for i in run]
                ),
                reward=0.0,
                episode_done=run is said[-1],
            )
            for run in said
        ]
        trajectory = types.Trajectory(transitions=steps, final_ob=tinker.ModelInput.empty())
        (usual,) = data.trajectory_to_data(trajectory, 1.0)
        inputs = {"target_tokens": ids[1:], "logprobs": [p or 0.0 for p in logprobs[1:]]}
        inputs["advantages"] = sequence["token_advantages"][1:]
        datum = tinker.Datum(model_input=tinker.ModelInput.from_ints(ids[:-1]), loss_fn_inputs=inputs)
        assert datum.model_input.to_ints() == usual.model_input.to_ints()
        for name in ("target_tokens", "logprobs"):
            ours, theirs = (each.loss_fn_inputs[name].to_torch() for each in (datum, usual))
            assert torch.equal(ours, theirs), name
        assert usual.loss_fn_inputs["mask"].to_torch().tolist() == mask[1:]
        assert not datum.loss_fn_inputs["advantages"].to_torch()[torch.tensor(mask[1:]) == 0].any()


def test_the_loss_of_a_subclass_of_trls_trainer_has_them_at_each_token(
    made: tuple[SamplingServer, Sequences], tmp_path: Path
):
    trl: Any = pytest.importorskip("trl")
    datasets: Any = pytest.importorskip("datasets")
    server, sequences = made
    begins = [sequence["token_mask"].index(1) for sequence in sequences]

    def after(name: str) -> list[list[Any]]:
        return [[v or 0.0 for v in s[name][begin:]] for s, begin in zip(sequences, begins, strict=True)]

    class OfSteps(trl.GRPOTrainer):
        def _generate_and_score_completions(self, inputs: Any) -> Any:
            output = super()._generate_and_score_completions(inputs)
            output["advantages"] = torch.zeros(output["completion_ids"].shape)
            for row, values in zip(output["advantages"], (each["token_advantages"] for each in inputs), strict=True):
                row[: len(values)] = torch.tensor(values)
            return output

    trainer = OfSteps(
        model=server.model,
        reward_funcs=lambda completions, **_: [float(place) for place in range(len(completions))],
        rollout_func=lambda *_: {
            "prompt_ids": [s["token_ids"][:begin] for s, begin in zip(sequences, begins, strict=True)],
            "completion_ids": after("token_ids"),
            "logprobs": after("logprobs"),
            "env_mask": after("token_mask"),
            "token_advantages": after("token_advantages"),
        },
        args=trl.GRPOConfig(
            output_dir=str(tmp_path),
            per_device_train_batch_size=len(sequences),
            num_generations=len(sequences),
            max_steps=1,
            loss_type="grpo",
            logging_steps=1,
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            bf16=False,
        ),
        train_dataset=datasets.Dataset.from_list([{"prompt": "Why?"}]),
        processing_class=server.tokenizer,
    )
    trainer.train()
    of_rows = zip(after("token_advantages"), after("token_mask"), strict=True)
    expected = [-sum(values) / sum(mask) for values, mask in of_rows]
    (loss,) = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert loss == pytest.approx(sum(expected) / len(expected), abs=1e-4)
    assert abs(loss) > 0.01, "with an advantage a rollout the loss of a whole group is about 0"
