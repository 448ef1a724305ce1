"""Which run `resume` takes by itself."""

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

from harness.archive.run_state import last_unfinished
from harness.archive.store import ComparisonStore, RunStore
from harness.core.records import FailureKind, Query
from harness.core.redaction import Redactor
from tests.archive.comparing import a_comparison, a_comparison_head, compared_query, fill
from tests.archive.making import an_info
from tests.builders import AT, a_rollout

ASKED = [Query(id="q", text="Call Ms Aydin.")]


def stopped(runs_dir: Path, run_id: str, redact: Redactor) -> Path:
    """Make a run that was stopped before its first rollout."""
    with RunStore.create(runs_dir, an_info(run_id), ASKED, redact=redact) as store:
        return store.folder


def test_a_run_whose_queries_were_redacted_does_not_stand_before_one_that_can_be_resumed(tmp_path: Path) -> None:
    older = stopped(tmp_path, "20260101T000000-a", Redactor())
    newer = stopped(tmp_path, "20260102T000000-b", Redactor(patterns=["Aydin"]))
    assert last_unfinished(tmp_path) == (older, "run")
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
    assert last_unfinished(tmp_path) == (newer, "run")
    with_failures(newer, "internal", datetime(2026, 1, 3, tzinfo=UTC))
    assert last_unfinished(tmp_path) == (older, "run")
    shutil.rmtree(older)
    assert last_unfinished(tmp_path) == (newer, "run")
    older = stopped(tmp_path, "20260101T000000-a", Redactor())
    with_failures(newer, "quota", datetime(2026, 1, 4, tzinfo=UTC))
    assert last_unfinished(tmp_path) == (newer, "run")


def with_an_open_match(folder: Path, file_id: str, at: datetime) -> None:
    """Let a process that begins `at` write a whole file in which a verdict is missing."""
    with ComparisonStore(folder, at) as store:
        query = compared_query(store, "q0")
        writer = store.open_comparison(a_comparison_head(store, file_id, at))
        match = query.matches[0].model_copy(update={"winner": None})
        writer.add(query.model_copy(update={"matches": (match,)}))
        writer.finish()
        writer.close()


def test_a_comparison_is_resumed_as_a_run_is_and_one_that_fails_each_time_waits(tmp_path: Path) -> None:
    run = stopped(tmp_path, "20260101T000000-a", Redactor())
    with a_comparison(tmp_path, "20260102T000000-compare-b") as store:
        folder = store.folder
    assert last_unfinished(tmp_path) == (folder, "comparison")
    assert last_unfinished(tmp_path, only_runs=True) == (run, "run")
    with_an_open_match(folder, "first", AT)
    assert last_unfinished(tmp_path) == (folder, "comparison")
    with_an_open_match(folder, "again", AT + timedelta(hours=1))
    assert last_unfinished(tmp_path) == (run, "run")
    with ComparisonStore(folder, AT + timedelta(hours=2)) as store:
        fill(store, 1, file_id="done", at=AT + timedelta(hours=2))
    shutil.rmtree(run)
    assert last_unfinished(tmp_path) is None
