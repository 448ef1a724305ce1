"""`import harness` and its two functions."""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import harness
from tests.builders import a_group, a_rollout
from tests.conftest import ROOT
from tests.fake_endpoint import FakeEndpoint, Say

pytestmark = pytest.mark.anyio


@pytest.mark.process
def test_importing_harness_or_asking_for_help_imports_neither_the_sdk_nor_pydantic():
    code = "import sys, harness, harness.cli; print([m for m in ('agents', 'openai', 'pydantic') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_can_be_had():
    assert all(getattr(harness, name) is not None for name in harness.__all__)


def test_the_version_is_that_of_the_package():
    assert harness.__version__ == version("arena-harness")
    with pytest.raises(AttributeError, match="no attribute 'version'"):
        _ = harness.version  # type: ignore[attr-defined] # pyright: ignore[reportAttributeAccessIssue]


async def test_rollout_and_rank_work_without_a_run_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    group = await harness.rollout("search", "Tell me about Lisp.", n=4)
    ranking = await harness.rank(group)
    assert [r.role for r in group.rollouts] == ["anchor", "sample", "sample", "sample"]
    assert sum(r.rank or 0 for r in ranking.rollouts) == 6
    assert ranking.judged > 0
    assert not list(tmp_path.iterdir())  # noqa: ASYNC240


async def test_rank_takes_a_model_by_name_and_a_store_that_remembers(
    endpoint: FakeEndpoint, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint.base_url)
    group = await harness.rollout("search", "Why?", n=3, model="m")
    store = harness.MemoryStore()
    first = await harness.rank(group, "judge-model", store=store)
    again = await harness.rank(group, "judge-model", store=store)
    assert {r.body["model"] for r in endpoint.of_judge} == {"judge-model"}
    assert first.judged == len(endpoint.of_judge)
    assert (again.judged, again.reused) == (0, first.judged)
    assert [r.rank for r in again.rollouts] == [r.rank for r in first.rollouts]


async def test_a_group_that_is_ranked_without_a_verdict_says_why(endpoint: FakeEndpoint):
    endpoint.judge = lambda _: Say("")
    group = a_group([a_rollout(0), a_rollout(1)])
    ranking = await harness.rank(group, "judge-model", judge_base_url=endpoint.base_url)
    assert (ranking.status, ranking.notes) == ("incomplete", ("2 verdicts are missing: the judge's reply is empty.",))


async def test_a_bad_setting_is_refused_by_name():
    with pytest.raises(harness.UsageError, match="did you mean 'temperature'"):
        await harness.rollout("search", "Why?", temprature=1.0)  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]
