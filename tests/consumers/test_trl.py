"""TRL takes the files of `dpo` and `sft` as they are, and takes a step on them."""

from pathlib import Path
from typing import Any

import pytest

from tests.consumers.conftest import Exported
from tests.consumers.test_datasets import loaded
from tests.consumers.tiny_model import tiny_model, tiny_tokenizer

trl: Any = pytest.importorskip("trl")
pytest.importorskip("torch")  # here, as its import starts a process where parts of CUDA are installed

THOUGHT = "<think>\n\n</think>\n\n"


def trained(trainer_class: str, folder: Path, **more: Any) -> Any:
    """Return a trainer that took one step on an exported folder."""
    tokenizer = tiny_tokenizer()
    model = folder.parent / "tiny"  # in a folder: DPOTrainer reads its reference model from there
    tiny_model(tokenizer).save_pretrained(model)
    settings = {
        "max_steps": 1,
        "per_device_train_batch_size": 2,
        "use_cpu": True,
        "report_to": [],
        "bf16": False,
        "max_length": None,
    }
    config = getattr(trl, f"{trainer_class}Config")(
        output_dir=str(folder.parent / "model"), save_strategy="no", logging_steps=1, **settings, **more
    )
    trainer = getattr(trl, f"{trainer_class}Trainer")(
        model=str(model), args=config, train_dataset=loaded(folder)["train"], processing_class=tokenizer
    )
    trainer.train()
    return trainer


def loss_of(trainer: Any) -> float:
    return next(entry["loss"] for entry in trainer.state.log_history if "loss" in entry)


def texts(trainer: Any, column: str) -> list[str]:
    return [trainer.processing_class.decode(ids) for ids in trainer.train_dataset[column]]


def trained_text(trainer: Any) -> list[str]:
    """Return, for each row, the tokens that count in the loss, as text."""
    rows = trainer.train_dataset
    kept = [[t for t, label in zip(row["input_ids"], row["labels"], strict=True) if label != -100] for row in rows]
    return [trainer.processing_class.decode(ids) for ids in kept]


def replies(text: str) -> list[str]:
    return [part.strip() for part in text.replace(THOUGHT, "").split("<|im_end|>") if part.strip()]


LOOK = 'look_up", "arguments": {"word": "a", "times": 2}}'
"""A call whose arguments a chat template writes once as JSON, not as a text that holds JSON."""


def test_dpo_takes_a_step_on_final_answers(exported: Exported):
    trainer = trained("DPO", exported("dpo", "plain"))
    assert loss_of(trainer) == pytest.approx(0.693147, abs=1e-4)  # the model is its own reference: ln 2
    assert all("Why" in text and "Number" not in text for text in texts(trainer, "prompt_ids"))
    assert all(len(replies(text)) == 1 for name in ("chosen_ids", "rejected_ids") for text in texts(trainer, name))


def test_dpo_takes_a_step_on_whole_exchanges_and_on_final_answers_after_a_shared_one(exported: Exported):
    trainer = trained("DPO", exported("dpo", "looker"))
    assert loss_of(trainer) == pytest.approx(0.693147, abs=1e-4)
    assert all('"name": "look_up"' in text for text in texts(trainer, "prompt_ids"))  # the tools stand in the prompt
    assert all(LOOK in text and "meaning of a" in text for text in texts(trainer, "chosen_ids"))
    trainer = trained("DPO", exported("dpo", "looker", "--final-answer", "--force"))
    assert all(LOOK in text and "meaning of a" in text for text in texts(trainer, "prompt_ids"))
    assert all(len(replies(text)) == 1 and "Number" in text for text in texts(trainer, "chosen_ids"))


def test_dpo_takes_a_step_on_two_turns_after_one_prompt(exported: Exported):
    trainer = trained("DPO", exported("dpo", "looker", "--pairs", "siblings", "--confidence", "0.5"))
    assert loss_of(trainer) == pytest.approx(0.693147, abs=1e-4)
    assert all(LOOK in text and "meaning of a" in text for text in texts(trainer, "prompt_ids"))
    for better, worse in zip(texts(trainer, "chosen_ids"), texts(trainer, "rejected_ids"), strict=True):
        (said,), (other,) = replies(better), replies(worse)
        assert int(said[-2]) > int(other[-2])  # the judge goes by the last digit


@pytest.mark.parametrize("agent", ["looker", "tools"])
@pytest.mark.parametrize("style", ["trl", "trl-turns"])
def test_sft_trains_on_what_the_model_said_and_on_nothing_else(exported: Exported, style: str, agent: str):
    more = {"assistant_only_loss": True} if style == "trl" else {}
    trainer = trained("SFT", exported("sft", agent, "--style", style), **more)
    assert 4 < loss_of(trainer) < 7  # about ln(300), of a random model
    trained_on = trained_text(trainer)
    assert all("meaning of" not in text and "Why" not in text for text in trained_on)
    calls = [reply for text in trained_on for reply in replies(text) if "tool_call" in reply]
    if agent == "looker":
        assert all(LOOK in call for call in calls)
        assert len(calls) == 4
    else:
        assert sum(call.count("<tool_call>") for call in calls) == 4 * 4  # three at once, then a handoff
