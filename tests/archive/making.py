"""Runs on disk, made for a test."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from harness.archive.run_info import RunInfo
from harness.archive.store import RunStore
from harness.archive.typed_records import RankingHead
from tests.builders import AT

__all__ = ["a_head", "a_run", "an_info", "lines_of", "segment"]


def an_info(run_id: str = "run-1", **changes: Any) -> RunInfo:
    plain: dict[str, Any] = {
        "schema_version": 1,
        "id": run_id,
        "created_at": AT,
        "agent": "search",
        "settings": {"n": 2},
        "judge": {"model": "m"},
        "offline": False,
        "versions": {"arena-harness": "0.2.0"},
    }
    return RunInfo(**plain | changes)


def a_run(runs_dir: Path, run_id: str = "run-1") -> RunStore:
    return RunStore.create(runs_dir, an_info(run_id))


def a_head(ranking_id: str = "rank-1", at: datetime | None = None, **changes: Any) -> RankingHead:
    plain: dict[str, Any] = {
        "id": ranking_id,
        "created_at": at or AT + timedelta(minutes=1),
        "settings": {},
        "judge": {},
        "rubric": "w@1",
    }
    return RankingHead(**plain | changes)


def segment(folder: Path, name: str) -> Path:
    """The one file of a segment."""
    (path,) = (folder / name).glob("*.jsonl")
    return path


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)
