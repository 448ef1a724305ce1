"""Logs that Inspect writes, as JSON and in its packed form, become rollouts with the scores of its scorer."""

from pathlib import Path
from typing import Any

import pytest

from harness.formats.trajectory_files import read_trajectories

log: Any = pytest.importorskip("inspect_ai.log")
model: Any = pytest.importorskip("inspect_ai.model")
scorer: Any = pytest.importorskip("inspect_ai.scorer")


def sample(epoch: int, grade: str, text: str) -> Any:
    said = model.ModelOutput.from_content("m", text)
    messages = [model.ChatMessageUser(content="Say hello"), said.choices[0].message]
    scores = {"match": scorer.Score(value=grade)}
    return log.EvalSample(
        id="s1", epoch=epoch, input="Say hello", target="hello", messages=messages, output=said, scores=scores
    )


@pytest.mark.parametrize("form", ["json", "eval"])
def test_a_sample_with_its_epochs_is_a_group_with_the_scores_as_rewards(form: str, tmp_path: Path):
    long = "hello " * 300
    spec = log.EvalSpec(
        created="2026-01-01T00:00:00+00:00", task="t", dataset=log.EvalDataset(), model="m", config=log.EvalConfig()
    )
    samples = [sample(1, "C", long), sample(2, "I", "no")]
    path = tmp_path / f"log.{form}"
    log.write_eval_log(log.EvalLog(status="success", eval=spec, samples=samples), str(path))
    made = list(read_trajectories([path]))
    assert [(each.query_id, each.answer, each.reward) for each in made] == [("s1", long, 1.0), ("s1", "no", 0.0)]
    assert all(each.reference == "hello" and each.failure is None for each in made)
