"""Which run `resume` takes by itself."""

from pathlib import Path

from harness.archive import RunStore, last_unfinished
from harness.core.records import Query
from harness.core.redaction import Redactor
from tests.archive.making import an_info

ASKED = [Query(id="q", text="Call Ms Aydin.")]


def stopped(runs_dir: Path, run_id: str, redact: Redactor) -> Path:
    """Make a run that was stopped before its first rollout."""
    with RunStore.create(runs_dir, an_info(run_id), ASKED, redact=redact) as store:
        return store.folder


def test_a_run_whose_queries_were_redacted_does_not_stand_before_one_that_can_be_resumed(tmp_path: Path) -> None:
    older = stopped(tmp_path, "20260101T000000-a", Redactor())
    newer = stopped(tmp_path, "20260102T000000-b", Redactor(patterns=["Aydin"]))
    assert last_unfinished(tmp_path) == older
    (older / "run.json").unlink()
    assert newer.exists()
    assert last_unfinished(tmp_path) is None
