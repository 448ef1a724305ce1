"""A run from another machine, as its receiver types: what is refused (exit 2), what the message says, what helps."""

from pathlib import Path

import pytest

from tests.conftest import Harness
from tests.fake_endpoint import FakeEndpoint

KEYS = {"OPENAI_API_KEY": "sk-of-the-agent", "HARNESS_JUDGE_API_KEY": "sk-of-the-judge"}
AGENT = "from agents import Agent\nagent = Agent(name='mine', instructions='Answer.', model='m')\n"


@pytest.fixture
def received(harness: Harness, endpoint: FakeEndpoint, tmp_path: Path) -> dict[str, str]:
    """Return the receiver's environment; the run lost its ranking and one rollout on the way."""
    (tmp_path / "mine.py").write_text(AGENT)
    theirs = {"OPENAI_BASE_URL": endpoint.base_url, "XDG_STATE_HOME": str(tmp_path / "theirs")}
    done = harness("run", "Why?", "--agent", "mine.py:agent", "-n", "3", "--concurrency", "1", env=theirs)
    assert done.code == 0, done.err
    (path,) = tmp_path.glob("runs/*/rollouts/*.jsonl")
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:3]))
    for ranking in tmp_path.glob("runs/*/rankings/*.jsonl"):
        ranking.unlink()
    endpoint.requests.clear()
    return {"XDG_STATE_HOME": str(tmp_path / "mine"), **KEYS}


@pytest.mark.few(2)
@pytest.mark.parametrize("help_", ["flags", "trust", "environment"])
def test_resume_says_what_to_type_and_then_works(
    harness: Harness, endpoint: FakeEndpoint, received: dict[str, str], help_: str
):
    no_code = harness("resume", env=received)
    assert no_code.code == 2
    assert "--agent mine.py:agent" in no_code.err
    agent = ("resume", "--agent", "mine.py:agent")
    no_key = harness(*agent, env=received)
    assert no_key.code == 2
    assert f"OPENAI_API_KEY would go to {endpoint.base_url}" in no_key.err
    assert f"--base-url {endpoint.base_url}" in no_key.err
    assert endpoint.requests == []
    flags = {
        "flags": ("--base-url", endpoint.base_url, "--judge-base-url", endpoint.base_url),
        "trust": ("--trust-archive",),
    }.get(help_, ())
    more = {"OPENAI_BASE_URL": endpoint.base_url} if help_ == "environment" else {}
    done = harness(*agent, *flags, env=received | more)
    assert done.code == 0, done.err
    assert {seen.key for seen in endpoint.requests} == set(KEYS.values())


def test_rescore_says_what_to_type_and_free_asks_nothing(
    harness: Harness, endpoint: FakeEndpoint, received: dict[str, str]
):
    for more in ((), ("-q",), ("--dry-run",)):
        refused = harness("rescore", "--judge-model", "j", *more, env=received)
        assert (refused.code, refused.out) == (2, "")
        assert f"HARNESS_JUDGE_API_KEY would go to {endpoint.base_url}" in refused.err
        assert f"--judge-base-url {endpoint.base_url}" in refused.err
    assert harness("rescore", "--judge-model", "j", "--free", "-q", env=received).code in {0, 1, 3}
    assert endpoint.requests == []
    done = harness("rescore", "--judge-model", "j", "--judge-base-url", endpoint.base_url, env=received)
    assert done.code == 0, done.err
    assert {seen.key for seen in endpoint.requests} == {KEYS["HARNESS_JUDGE_API_KEY"]}


def test_ones_own_run_asks_nothing_from_any_folder(harness: Harness, endpoint: FakeEndpoint, tmp_path: Path):
    (tmp_path / "mine.py").write_text(AGENT)
    (tmp_path / "elsewhere").mkdir()
    environ = KEYS | {"OPENAI_BASE_URL": endpoint.base_url}
    assert harness("run", "Why?", "--agent", "mine.py:agent", "-n", "3", env=environ).code == 0
    runs = ("--runs-dir", str(tmp_path / "runs"))
    for line in (("rescore", "--judge-model", "j"), ("replay",), ("resume",)):
        done = harness(*line, *runs, env=KEYS, cwd=tmp_path / "elsewhere")
        assert done.code == 0, done.err
    assert {seen.key for seen in endpoint.of_judge} == {KEYS["HARNESS_JUDGE_API_KEY"]}
