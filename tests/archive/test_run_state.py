"""What became of a run: `ls` tells interrupted from failed, and both from a run under way."""

from pathlib import Path

import pytest
from filelock import FileLock

from harness.archive.reader import RunReader
from harness.archive.run_state import find_run_state
from tests.fuzz.attacks import Room

STATES = {
    "offline-arena": "done",
    "offline-interrupted": "interrupted",
    "online-asked-again": "done",
    "online-verified": "partly failed",
    "offline-unjudged": "not judged",
    "imported": "done",
}


def state_in(run: Path) -> str:
    with RunReader(run) as reader:
        return find_run_state(reader, reader.newest_ranking(), reader.index.counts())


@pytest.mark.parametrize("archive", STATES)
def test_a_state_is_state_in_every_kind_of_run(archive: str, tmp_path: Path):
    assert state_in(Room.make(tmp_path / "room").add_run(archive)) == STATES[archive]


def test_a_run_whose_only_query_a_failed_verdict_left_unranked_has_failed(tmp_path: Path):
    run = Room.make(tmp_path / "room").add_run("online-asked-again")
    _, newer = sorted((run / "rankings").glob("*.jsonl"))
    newer.unlink()
    assert state_in(run) == "failed"


def test_a_run_without_its_footer_was_interrupted_and_is_under_way_while_a_process_holds_its_lock(tmp_path: Path):
    run = Room.make(tmp_path / "room").add_run("offline-arena")
    (ranking,) = (run / "rankings").glob("*.jsonl")
    ranking.write_bytes(b"".join(ranking.read_bytes().splitlines(keepends=True)[:-1]))
    assert state_in(run) == "interrupted"
    with FileLock(run / "run.lock"):
        assert state_in(run) == ("under way" if Path("/proc/locks").exists() else "interrupted")
    assert state_in(run) == "interrupted"
