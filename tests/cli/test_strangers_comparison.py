"""A comparison from another machine: no key goes where it says, and no run that it names is written to."""

import json
from pathlib import Path

import pytest

from tests.conftest import Harness
from tests.fake_endpoint import FakeEndpoint

KEYS = {"OPENAI_API_KEY": "sk-of-the-agent", "HARNESS_JUDGE_API_KEY": "sk-of-the-judge"}
AGENT = "from agents import Agent\nagent = Agent(name='mine', instructions='Answer.')\n"


@pytest.fixture
def received(harness: Harness, endpoint: FakeEndpoint, tmp_path: Path) -> Path:
    """Return a comparison of two runs; what it says, and one verdict, were lost on the way."""
    (tmp_path / "mine.py").write_text(AGENT)
    sides = ("mine.py", "--model", "m", "--model", "k", "--queries", "q.txt", "-n", "2", "--judge-model", "judge")
    (tmp_path / "q.txt").write_text("Why?\n")
    done = harness("compare", *sides, "--json", env={"OPENAI_BASE_URL": endpoint.base_url, **theirs(tmp_path)})
    assert done.code in {0, 1}, done.err
    folder = tmp_path / done.json["path"]
    for path in folder.glob("comparisons/*.jsonl"):
        path.unlink()
    (verdicts,) = folder.glob("verdicts/*.jsonl")
    verdicts.write_bytes(b"".join(verdicts.read_bytes().splitlines(keepends=True)[:2]))
    endpoint.requests.clear()
    return folder


def theirs(tmp_path: Path) -> dict[str, str]:
    return {"XDG_STATE_HOME": str(tmp_path / "theirs")}


def mine(tmp_path: Path) -> dict[str, str]:
    return {"XDG_STATE_HOME": str(tmp_path / "mine"), **KEYS}


@pytest.mark.few(1)
@pytest.mark.parametrize("help_", ["flag", "trust", "environment"])
def test_resume_sends_no_key_to_an_address_that_only_the_comparison_names(
    harness: Harness, endpoint: FakeEndpoint, received: Path, tmp_path: Path, help_: str
):
    no_key = harness("resume", env=mine(tmp_path))
    assert no_key.code == 2
    assert f"HARNESS_JUDGE_API_KEY would go to {endpoint.base_url}" in no_key.err
    assert f"--judge-base-url {endpoint.base_url}" in no_key.err
    assert endpoint.requests == []
    flags = {"flag": ("--judge-base-url", endpoint.base_url), "trust": ("--trust-archive",)}.get(help_, ())
    more = {"OPENAI_BASE_URL": endpoint.base_url} if help_ == "environment" else {}
    done = harness("resume", *flags, env=mine(tmp_path) | more)
    assert done.code in {0, 1}, done.err
    assert {seen.key for seen in endpoint.requests} == {KEYS["HARNESS_JUDGE_API_KEY"]}
    assert harness("validate", received.name).code == 0


def test_ones_own_comparison_goes_on_without_a_word(
    harness: Harness, endpoint: FakeEndpoint, received: Path, tmp_path: Path
):
    done = harness("resume", env=theirs(tmp_path) | KEYS)
    assert done.code in {0, 1}, done.err
    assert {seen.key for seen in endpoint.requests} == {KEYS["HARNESS_JUDGE_API_KEY"]}


def test_rollouts_that_a_strangers_comparison_wants_are_not_run(
    harness: Harness, endpoint: FakeEndpoint, received: Path, tmp_path: Path
):
    """Else a comparison that names one's own runs could have them written to, and paid for."""
    sides = json.loads((received / "compare.json").read_text())["sides"]
    run = tmp_path / "runs" / sides[0]["run"]
    assert sides[0]["to_run"]
    (rollouts,) = run.glob("rollouts/*.jsonl")
    rollouts.write_bytes(b"".join(rollouts.read_bytes().splitlines(keepends=True)[:2]))
    before = {path: path.read_bytes() for path in run.rglob("*.jsonl")}
    done = harness("resume", "--judge-base-url", endpoint.base_url, "--base-url", endpoint.base_url, env=mine(tmp_path))
    assert endpoint.of_agent == []
    assert {path: path.read_bytes() for path in run.rglob("*.jsonl")} == before
    assert "Traceback" not in done.err
