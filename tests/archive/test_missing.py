"""Which run `resume` takes by itself."""

import shutil
from datetime import UTC, datetime
from pathlib import Path

from harness.archive import RunStore, last_unfinished
from harness.core.records import FailureKind, Query
from harness.core.redaction import Redactor
from tests.archive.making import an_info
from tests.builders import a_rollout

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


def with_failures(folder: Path, kind: FailureKind, at: datetime) -> None:
    """Let a process that begins `at` write the run's rollouts down, failed."""
    with RunStore(folder, at) as store:
        for index in range(2):
            store.add_rollout(a_rollout(index, failed=kind))


def test_a_run_that_fails_each_time_does_not_stand_before_an_older_one_that_was_stopped(tmp_path: Path) -> None:
    older = stopped(tmp_path, "20260101T000000-a", Redactor())
    newer = stopped(tmp_path, "20260102T000000-b", Redactor())
    with_failures(newer, "internal", datetime(2026, 1, 2, tzinfo=UTC))
    assert last_unfinished(tmp_path) == newer
    with_failures(newer, "internal", datetime(2026, 1, 3, tzinfo=UTC))
    assert last_unfinished(tmp_path) == older
    shutil.rmtree(older)
    assert last_unfinished(tmp_path) == newer
    older = stopped(tmp_path, "20260101T000000-a", Redactor())
    with_failures(newer, "quota", datetime(2026, 1, 4, tzinfo=UTC))
    assert last_unfinished(tmp_path) == newer
