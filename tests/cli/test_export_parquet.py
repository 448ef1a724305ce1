"""`harness export --format parquet`: four tables that pyarrow reads, whole or not at all."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from harness.archive.reader import RunReader
from harness.cli.app import app
from harness.core.errors import UsageError
from harness.pipeline.exporting.files import ExportFiles
from tests.cli.conftest import Command
from tests.cli.test_export import head_of

TABLES = ("rollouts", "steps", "matches", "scores")


def rows_of(path: str) -> list[dict[str, Any]]:
    return pytest.importorskip("pyarrow.parquet").read_table(path).to_pylist()


def test_the_tables_hold_the_run(plain: Command):
    pytest.importorskip("pyarrow")
    out = json.loads(plain("export --format parquet -o out --json"))
    assert {f["file"]: f["lines"] for f in out["files"]} == {
        "train-rollouts.parquet": 12,
        "train-steps.parquet": 0,
        "train-matches.parquet": 18,
        "train-scores.parquet": 36,
    }
    (run,) = Path("runs").iterdir()
    with RunReader(run) as reader:
        ranked = {group.query: group for group in reader.ranking().groups}
        answers = {(r.query, r.index): r for q in reader.queries() for r in reader.group(q).rollouts}
    rollouts = rows_of("out/train-rollouts.parquet")
    assert {(row["query_id"], row["index"]): row["answer"] for row in rollouts} == {
        key: rollout.trajectory.answer for key, rollout in answers.items()
    }
    by_match = {(row["query_id"], row["match"]): row for row in rows_of("out/train-matches.parquet")}
    for row in rows_of("out/train-scores.parquet"):
        match = ranked[row["query_id"]].matches[row["match"] - 1]
        place = match.verdicts.index(row["verdict"])
        assert (row["score_first"], row["score_second"]) == match.scores[place]
        assert {row["first"], row["second"]} == {by_match[row["query_id"], row["match"]][side] for side in "ab"}
    configs = head_of("out")["configs"]
    assert {config["config_name"] for config in configs} == set(TABLES)
    assert [config["config_name"] for config in configs if config.get("default")] == ["rollouts"]
    sources = [json.loads(line) for line in Path("out/sources.jsonl").read_text("utf-8").splitlines()]
    assert [(s["line"], s["rollouts"]) for s in sources] == [(i + 1, [row["index"]]) for i, row in enumerate(rollouts)]


def test_steps_of_nested_agents_name_the_step_that_they_are_within(command: Command):
    pytest.importorskip("pyarrow")
    command("run Why? --agent agent.py:agent -n 2 --model m --judge-model j --concurrency 1 -q")
    command("export --format parquet -o out --split train=0.5,test=0.5")
    (path,) = Path("out").glob("*-steps.parquet")
    steps = rows_of(str(path))
    assert {row["tool_name"] for row in steps} >= {"look_up", "ask"}
    within = [row for row in steps if row["within_step"] is not None]
    parents = {(row["index"], row["step"]): row for row in steps}
    assert {parents[row["index"], row["within_step"]]["tool_name"] for row in within} <= {"ask"}


@pytest.mark.parametrize("fault", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_what_stops_an_export_leaves_no_table(plain: Command, monkeypatch: pytest.MonkeyPatch, fault: Any):
    pytest.importorskip("pyarrow")

    def failing(self: Any, name: str, text: str) -> int:
        raise fault

    monkeypatch.setattr(ExportFiles, "write", failing)
    with pytest.raises((Exception, KeyboardInterrupt)):
        plain("export --format parquet -o out")
    assert not Path("out").exists()


def test_without_pyarrow_the_command_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    environ = dict(os.environ)
    assert not app.main(["run", "Why?", "--offline", "-n", "2", "-q"], standalone_mode=False, obj=environ)
    monkeypatch.setattr("harness.pipeline.exporting.export.find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"pip install 'arena-harness\[parquet\]'"):
        app.main("export --format parquet -o out --allow-offline".split(), standalone_mode=False, obj=environ)
    assert not Path("out").exists()
