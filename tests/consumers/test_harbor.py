"""Harbor's own model takes the lines of `atif`, whether the run was ranked or not. Needs Python 3.12 or newer."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from harness.cli.app import app
from tests.consumers.conftest import Exported

trajectories: Any = pytest.importorskip("harbor.models.trajectories")


def read(path: Path) -> list[Any]:
    return [
        trajectories.Trajectory.model_validate_json(line, strict=True) for line in path.read_text("utf-8").splitlines()
    ]


def test_calls_results_and_nested_agents_stand_where_harbor_looks(exported: Exported):
    read_ones = read(exported("atif", "tools") / "train.jsonl")
    assert len(read_ones) == 16
    for trajectory in read_ones:
        first, handoff, answer = [step for step in trajectory.steps if step.source == "agent"]
        results = first.observation.results
        assert [call.function_name for call in first.tool_calls] == ["look_up", "look_up", "ask"]
        assert [r.source_call_id for r in results] == [call.tool_call_id for call in first.tool_calls]
        assert [call.arguments for call in first.tool_calls][:2] == [{"word": "a"}, {"word": "b", "times": 3}]
        (nested,) = trajectory.subagent_trajectories
        assert results[2].subagent_trajectory_ref[0].trajectory_id == nested.trajectory_id
        assert [step.source for step in nested.steps] == ["system", "user", "agent"]
        assert results[2].content == nested.steps[-1].message
        assert [call.function_name for call in handoff.tool_calls] == ["transfer_to_other"]
        assert answer.extra["agent"] == "other"
        assert trajectory.final_metrics.total_steps == len(trajectory.steps)
        assert 0 <= trajectory.extra["reward"] <= 1
        assert not any(step.is_copied_context for step in trajectory.steps)


def test_a_run_without_ranking_exports(runs: Path, tmp_path: Path):
    line = {"messages": [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "So."}], "reward": 0.5}
    (tmp_path / "made.jsonl").write_text(json.dumps(line))
    for command in ("import made.jsonl --runs-dir r", "export --format atif -o out --runs-dir r"):
        words = [str(tmp_path / word) if word in {"made.jsonl", "r", "out"} else word for word in command.split()]
        assert not app.main(words, standalone_mode=False, obj=dict(os.environ))
    (trajectory,) = read(tmp_path / "out" / "train.jsonl")
    assert [(step.source, step.message) for step in trajectory.steps] == [("user", "Why?"), ("agent", "So.")]
    assert trajectory.extra["reward"] == 0.5
