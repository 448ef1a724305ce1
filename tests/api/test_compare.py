"""`harness.compare`: the record that the command prints, of runs or of agents."""

import json
import os
from pathlib import Path

import pytest
from agents import Agent

import harness
from tests.cli.desk import by_model, partial_judge
from tests.fake_endpoint import FakeEndpoint
from tests.fuzz.attempts import attempt

QUERIES = ["Why is the sky blue?", "What is Lisp?", "Who was Ada?"]


@pytest.fixture
def served(endpoint: FakeEndpoint, monkeypatch: pytest.MonkeyPatch) -> FakeEndpoint:
    endpoint.agent, endpoint.judge = by_model, partial_judge
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint.base_url)
    return endpoint


def rolled_out(model: str, runs_dir: Path) -> harness.Run:
    agent = Agent(name="poet", instructions="Answer.")
    return harness.run_sync(agent, QUERIES, n=3, model=model, judge_model="judge", topology="none", runs_dir=runs_dir)


def test_the_record_is_the_one_that_the_command_prints(served: FakeEndpoint, tmp_path: Path):
    a, b = [rolled_out(model, tmp_path / "runs") for model in ("weak", "strong")]
    comparison = harness.compare_sync(a, b, judge_model="judge", runs_dir=tmp_path / "runs")
    assert (comparison.results[0].win_rate, len(served.of_judge)) == (1.0, 18)
    again = harness.compare_sync(a.id, b.path, judge_model="judge", runs_dir=tmp_path / "runs")
    assert (again, len(served.of_judge)) == (comparison, 18)
    assert harness.comparisons(tmp_path / "runs") == [Path(comparison.path)]
    assert harness.open_comparison(comparison.comparison, tmp_path / "runs") == comparison
    assert harness.open_comparison(runs_dir=tmp_path / "runs") == comparison
    with pytest.raises(harness.UsageError, match=r"is a run, not a comparison: `harness.open\("):
        harness.open_comparison(a.id, tmp_path / "runs")
    with pytest.raises(harness.UsageError, match=r"`harness.open_comparison\(.*\)` shows the comparison"):
        harness.open(comparison.comparison, tmp_path / "runs")
    with pytest.raises(harness.UsageError, match="no comparison in"):
        harness.open_comparison(runs_dir=tmp_path / "nothing")
    argv = ("compare", a.id, b.id, "--runs-dir", str(tmp_path / "runs"), "--json")
    printed = attempt(argv, tmp_path, dict(os.environ), reachable=served.host, piped=True)
    assert not printed.faults(), printed.err_text
    assert printed.code == 0, printed.err_text
    assert json.loads(printed.out_text) == comparison.model_dump(mode="json")
    assert (Path(comparison.path) / "report.html").is_file()


@pytest.mark.anyio
async def test_agents_are_rolled_out_and_compared(served: FakeEndpoint, tmp_path: Path):
    weak, strong = (Agent(name=model, instructions="Answer.", model=model) for model in ("weak", "strong"))
    comparison = await harness.compare(weak, strong, queries=QUERIES, judge_model="judge", runs_dir=tmp_path, pairs=1)
    assert [side.agent for side in comparison.sides] == ["weak", "strong"]
    assert (comparison.results[0].pairs, comparison.results[0].win_rate) == (3, 1.0)
    assert (len(served.of_agent), len(served.of_judge)) == (12, 12)


def test_what_cannot_be_compared_is_named_as_an_argument(served: FakeEndpoint, tmp_path: Path):
    a, b = [rolled_out(model, tmp_path) for model in ("weak", "strong")]
    with pytest.raises(harness.UsageError, match="cannot be compared with itself"):
        harness.compare_sync(a, a)
    with pytest.raises(harness.UsageError, match="n= says how agents are rolled out"):
        harness.compare_sync(a, b, n=4, runs_dir=tmp_path)
    with pytest.raises(harness.UsageError, match="pairs=0: give a whole number from 1"):
        harness.compare_sync(a, b, pairs=0, runs_dir=tmp_path)
    with pytest.raises(harness.UsageError, match="task=3"):
        harness.compare_sync(a, b, task=3, runs_dir=tmp_path)  # pyright: ignore[reportArgumentType]
    with pytest.raises(harness.UsageError, match="name them with queries="):
        harness.compare_sync(Agent(name="x", model="weak"), Agent(name="y", model="weak"), judge_model="judge")
    assert not served.of_judge
