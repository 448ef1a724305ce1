"""Resuming goes on under the same ceiling, rules and redaction as the run."""

import json
from pathlib import Path

import pytest

from harness.core.progress import now
from harness.pipeline.validation import validate_folder
from tests.cli.test_buying_once import DEAR, priced
from tests.conftest import Harness
from tests.fake_endpoint import FakeEndpoint


def lines(folder: Path, segment: str) -> list[dict[str, object]]:
    found = [
        json.loads(line)
        for path in sorted((folder / segment).glob("*.jsonl"))
        for line in path.read_text().splitlines()
    ]
    return [line for line in found if line["kind"] != "header"]


def test_a_run_stopped_by_its_ceiling_while_judging_buys_only_the_rest(
    harness: Harness, endpoint: FakeEndpoint, tmp_path: Path
):
    stopped = harness(*DEAR, "--max-cost", "0.001", env=priced(endpoint))
    assert stopped.code == 4, stopped.err
    again = harness("resume", "--max-cost", "1", "--json", env=priced(endpoint))
    assert again.code == 0, again.err
    assert (again.json["groups"][0]["status"], again.json["groups"][0]["reused"]) == ("complete", 2)
    keys = [v["key"] for v in lines(tmp_path / stopped.json["path"], "verdicts")]
    assert len(endpoint.of_judge) == len(keys) == len(set(keys))


def test_a_run_stopped_by_its_ceiling_while_rolling_out_is_stopped_by_it_again_and_then_finished(
    harness: Harness, endpoint: FakeEndpoint, tmp_path: Path
):
    stopped = harness(*DEAR, "--max-cost", "0.0002", env=priced(endpoint))
    assert stopped.code == 4, stopped.err
    folder = tmp_path / stopped.json["path"]
    same = harness("resume", "--max-cost", "0.00001", "--json", env=priced(endpoint))
    assert same.code == 4, same.err
    assert same.json["groups"][0]["notes"] == ["--max-cost left 1 rollout not begun"]
    assert validate_folder(folder, now).damaged == 0
    again = harness("resume", "--max-cost", "1", "--json", env=priced(endpoint))
    assert (again.code, again.json["groups"][0]["status"]) == (0, "complete"), again.err
    assert len(lines(folder, "rollouts")) == 4


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "how",
    [
        ("--topology", "cyclic", "--estimator", "margins", "--judge-repeats", "2"),
        ("--topology", "double", "--judge-budget", "400"),
        ("--topology", "none"),
        ("--budget", "7", "--estimator", "bt"),
    ],
    ids=lambda how: how[1],
)
def test_ranks_of_every_design_follow_from_their_matches(how: tuple[str, ...], harness: Harness, tmp_path: Path):
    done = harness("run", "Why is the sky blue?", "--offline", "-n", "4", "--json", *how)
    assert done.code == 0, done.err
    assert [str(f) for f in validate_folder(tmp_path / done.json["path"], now).findings if f.kind == "damage"] == []
    assert "nothing to do" in harness("resume").out


def test_a_redacted_query_is_not_run_again_in_what_is_left_of_it(harness: Harness, tmp_path: Path):
    done = harness("run", "Is Alice here?", "--offline", "-n", "2", "--redact", "Alice", "--json")
    assert done.code == 0, done.err
    folder = tmp_path / done.json["path"]
    assert all("Alice" not in path.read_text() for path in folder.rglob("queries/*.jsonl"))
    (path,) = (folder / "rollouts").glob("*.jsonl")
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    (folder / "index.sqlite").unlink(missing_ok=True)
    refused = harness("resume", done.json["run"])
    assert refused.code == 2
    assert "was redacted" in refused.err
    assert len(lines(folder, "rollouts")) == 1
