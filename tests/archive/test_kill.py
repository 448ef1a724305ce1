"""What is on disk after a process was killed, ran out of room, or ran in a locale of another age."""

import os
import signal
import subprocess
import sys
from datetime import timedelta
from itertools import islice
from pathlib import Path

import pytest

from harness.archive.reader import RunReader
from harness.archive.store import RunStore
from harness.core.records import Query
from tests.archive.making import a_run, lines_of, segment
from tests.builders import AT, a_judged, a_rollout

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]

WRITER = """
import itertools, sys
from pathlib import Path
from tests.archive.making import a_run
from tests.builders import a_judged, a_rollout

store = a_run(Path(sys.argv[1]))
for i in itertools.count():
    blob = store.put_blob(f"reply {i} " + "x" * 3000)
    store.add_rollout(a_rollout(i, "an answer " * 400))
    store.add_verdict(a_judged(f"k{i}", raw_replies=(blob,)))
    print(i, flush=True)
"""

CROWDED = """
import resource, signal, sys
from pathlib import Path
from harness.core.errors import CannotWrite
from tests.archive.making import a_run
from tests.builders import a_judged

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
remark = {"path_A": "a long one " * 100}
for room in sys.argv[2:]:
    store = a_run(Path(sys.argv[1]) / room)
    store.add_verdict(a_judged("k0"))
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(room), resource.RLIM_INFINITY))
    told = 0
    try:
        for i in range(1, 9):
            store.add_verdict(a_judged(f"k{i}", analysis=remark))
            told = i
    except CannotWrite:
        pass
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    store.add_verdict(a_judged("after"))
    print(told)
"""

FOREIGN = """
import sys
from pathlib import Path
from tests.archive.making import an_info
from harness.archive.store import RunStore

RunStore.create(Path(sys.argv[1]), an_info(settings={"corpus": "\\u6587\\u66f8"})).close()
"""


def _python(script: str, *args: str, **env: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", script, *args], cwd=ROOT, env=os.environ | env, stdout=subprocess.PIPE, text=True
    )


def test_every_record_that_a_killed_process_was_told_is_stored_is_on_disk_and_the_next_one_adds(tmp_path: Path) -> None:
    with _python(WRITER, str(tmp_path)) as child:
        assert child.stdout
        told = list(islice(child.stdout, 40))
        child.send_signal(signal.SIGKILL)
        told += child.stdout.readlines()
    assert child.returncode == -signal.SIGKILL
    stored = [int(line) for line in told if line.endswith("\n")]
    with RunReader(tmp_path / "run-1") as reader:
        assert stored == list(range(len(stored)))
        assert len(stored) >= 40
        rollouts = {r.index for r in reader.group(Query(id="q", text="?")).rollouts}
        for i in stored:
            verdict = reader.verdict(f"k{i}")
            assert verdict
            assert reader.blobs.get(verdict.raw_replies[0]).startswith(f"reply {i} ")
            assert i in rollouts
        before = {v.key for v in reader.verdicts()}
    with RunStore(tmp_path / "run-1", AT + timedelta(hours=1)) as store:
        store.add_verdict(a_judged("later"))
    assert {v.key for v in RunReader(tmp_path / "run-1").verdicts()} == before | {"later"}


def test_a_record_that_finds_no_room_is_no_record_and_harms_no_other(tmp_path: Path) -> None:
    """The limit cuts a write short in the middle of a line: the same as a disk that fills up."""
    with a_run(tmp_path / "probe") as probe:
        probe.add_verdict(a_judged("k0"))
    size = segment(probe.folder, "verdicts").stat().st_size
    rooms = [str(size + spare) for spare in (1, 1500, 3000)]
    with _python(CROWDED, str(tmp_path), *rooms) as child:
        assert child.stdout
        numbers = [int(line) for line in child.stdout]
    assert child.returncode == 0
    for room, told in zip(rooms, numbers, strict=True):
        run = tmp_path / room / "run-1"
        assert [v.key for v in RunReader(run).verdicts()] == [*(f"k{i}" for i in range(told + 1)), "after"]
        assert len(lines_of(segment(run, "verdicts"))) == 3 + told
    assert numbers == [0, 0, 1]


def test_run_json_is_utf_8_whatever_the_locale(tmp_path: Path) -> None:
    with _python(FOREIGN, str(tmp_path), LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0") as child:
        pass
    assert child.returncode == 0
    assert RunReader(tmp_path / "run-1").info.settings == {"corpus": "文書"}


READ_ONLY = """
import os, sys
from pathlib import Path
from tests.archive.making import a_run
from tests.builders import AT
from harness.archive.reader import RunReader
from harness.archive.store import RunStore
from harness.core.errors import CannotWrite

a_run(Path(sys.argv[1])).close()
os.chdir(Path(sys.argv[1]) / "run-1")
Path("run.lock").unlink(missing_ok=True)
Path("run.json").chmod(0o444)
Path(".").chmod(0o555)
if os.geteuid() == 0:
    os.setresuid(65534, 65534, 65534)
print(RunReader(Path(".")).info.id)
try:
    RunStore(Path("."), AT)
except CannotWrite as exc:
    print(exc)
"""


def test_a_run_in_a_read_only_folder_is_read_and_its_writing_is_refused_in_one_line(tmp_path: Path) -> None:
    with _python(READ_ONLY, str(tmp_path)) as child:
        assert child.stdout
        told = child.stdout.read().splitlines()
    assert told[0] == "run-1"
    assert told[1].startswith("cannot write to")


def test_after_the_clock_has_jumped_back_the_later_record_still_counts(tmp_path: Path) -> None:
    with a_run(tmp_path) as store:
        store.add_query(Query(id="q", text="?"))
        store.add_rollout(a_rollout(1, failed="api"))
    with RunStore(tmp_path / "run-1", AT - timedelta(days=400)) as store:
        store.add_rollout(a_rollout(1, "at last"))
    with RunReader(tmp_path / "run-1") as reader:
        (found,) = reader.group(Query(id="q", text="?")).rollouts
    assert found.trajectory.answer == "at last"
