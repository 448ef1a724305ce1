"""A run judged by batch, as its user sees it: while the provider has the questions, and when all is judged."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.cli.app import app
from harness.core.errors import UsageError
from harness.pipeline import waiting
from tests.batch_server import BatchEndpoint, FakeBatch, Lines
from tests.cli.conftest import PLAIN, agents

RUN = "run Why? --agent plain.py:agent -n 4 --model m --judge-label j --judge-batch"
pytestmark = pytest.mark.process
Command = Callable[[str], tuple[str, str]]


@pytest.fixture
def provider() -> Iterator[BatchEndpoint]:
    with BatchEndpoint(agents()).serving() as endpoint:
        assert isinstance(endpoint, BatchEndpoint)
        yield endpoint


@pytest.fixture
def harness(
    provider: BatchEndpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    monkeypatch.chdir(tmp_path)
    Path("plain.py").write_text(PLAIN)
    environ = {"OPENAI_BASE_URL": provider.base_url, "OPENAI_API_KEY": "sk-x", "HOME": str(tmp_path), "COLUMNS": "120"}

    def run(line: str) -> tuple[str, str]:
        app.main(line.split(), standalone_mode=False, obj=environ)
        printed = capsys.readouterr()
        return " ".join(printed.out.split()), " ".join(printed.err.split())

    return run


def test_while_a_batch_is_out_the_run_waits_and_resume_is_what_goes_on(provider: BatchEndpoint, harness: Command):
    harness(f"{RUN} --topology cyclic")
    (batch,) = provider.batches
    (listed,) = json.loads(harness("ls --json")[0])
    assert listed["state"] == "waiting"
    shown, _ = harness("show")
    assert f"waiting: the provider has 6 questions (batch {batch})" in shown
    assert "collects the replies" in shown
    assert "resume RUN" not in shown
    assert "a batch has the judge's questions" in shown
    assert "not bought" not in shown
    harness("rescore --free")
    assert json.loads(harness("ls --json")[0])[0]["state"] == "waiting"
    provider.finish()
    harness("resume")
    (listed,) = json.loads(harness("ls --json")[0])
    assert listed["state"] == "done"
    assert "waiting" not in harness("show")[0]


@pytest.mark.parametrize(
    "line", [RUN.replace("--judge-batch", "--wait"), "rescore --wait", "rescore --wait --judge-now", "resume --wait"]
)
def test_to_wait_for_batches_where_there_are_none_to_come_is_refused(
    provider: BatchEndpoint, harness: Command, line: str
):
    harness(RUN.replace("--judge-batch", "--topology none -q"))
    (run,) = Path("runs").iterdir()
    shutil.rmtree(run / "rankings")  # so that there is something to resume
    asked = len(provider.requests)
    with pytest.raises(UsageError, match="--wait is for a judging by batch: add --judge-batch, or leave it out"):
        harness(line)
    assert (len(provider.requests), [*Path("runs").iterdir()]) == (asked, [run])


def test_who_waits_for_all_rounds_is_told_of_all_that_was_bought(
    provider: BatchEndpoint, harness: Command, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(waiting, "_FIRST_PAUSE_S", 0.0)
    provider.at_once = True
    printed, progress = harness(f"{RUN} --topology arena --wait")
    bought = len(provider.asked)
    assert len(provider.batches) > 1
    assert f"; {bought} verdicts;" in progress
    assert f"judge in all rounds of batches: {bought} calls," in printed
    assert f"judge in all rounds of batches: {bought} calls," in harness("show")[0]
    (page,) = Path("runs").glob("*/report.html")
    assert (
        f'<dt>All rounds of batches</dt><dd><bdi>unknown</bdi> <span class="note"><bdi>{bought} calls'
        in page.read_text()
    )
    rankings = json.loads(harness("show --rankings --json")[0])
    whole, last = json.loads(harness("show --json")[0])["all_rounds"], rankings[-1]
    assert sum(ranking["calls"] for ranking in rankings) == bought > last["calls"]
    assert last["all_rounds"] == whole
    assert (whole["calls"], whole["judged"], whole["tokens"]) == (bought, bought, 1200 * bought)
    assert f"{last['ranking']}, all rounds of batches: {bought} calls, cost unknown" in harness("show --rankings")[0]
    harness("rescore --free")
    assert "all_rounds" not in json.loads(harness("show --json")[0])
    assert "judge in this ranking: 0 calls" in harness("show")[0]


def test_a_comparison_of_runs_judged_by_batch_asks_at_once_and_is_priced_so(
    provider: BatchEndpoint, harness: Command, capsys: pytest.CaptureFixture[str]
):
    def dearest(more: str) -> float:
        for name in ("a", "b"):
            harness(f"{RUN} --price-by-name --judge-model gpt-5-mini -q {more}--runs-dir {name}")
        a, b = (str(next(Path(name).iterdir())) for name in ("a", "b"))
        cost = json.loads(harness(f"compare {a} {b} --dry-run --json")[0])["cost_usd"]
        for name in ("a", "b"):
            shutil.rmtree(name)
        return cost[-1]

    assert dearest("") == dearest("--judge-now ") > 0


def test_who_waits_is_let_go_after_two_batches_that_brought_nothing(
    provider: BatchEndpoint, harness: Command, monkeypatch: pytest.MonkeyPatch
):
    def failed(batch: FakeBatch, _: Lines) -> Lines:
        batch.status = "failed"
        return []

    monkeypatch.setattr(waiting, "_FIRST_PAUSE_S", 0.0)
    provider.at_once, provider.fate = True, failed
    _, progress = harness(f"{RUN} --topology cyclic --wait")
    assert len(provider.batches) == 3, "the third one is with the provider"
    assert "(failed) brought no reply to 6 of 6 questions" in progress
