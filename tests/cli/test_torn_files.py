"""Every command on a run of which a file was cut short: a result or a clear line, and never a traceback."""

from pathlib import Path

import pytest

from tests.archive.making import lines_of
from tests.archive.test_validation import SEGMENTS, copied, files_of
from tests.conftest import Harness

COMMANDS = (
    ("show",),
    ("show", "--rollout", "2"),
    ("show", "--matches"),
    ("stats",),
    ("report",),
    ("validate",),
    ("rescore", "--free", "-q"),
    ("resume", "-q"),
)


@pytest.mark.nightly
@pytest.mark.parametrize("segment", SEGMENTS)
def test_a_torn_file_ends_in_a_result_or_a_clear_line_and_harms_no_other_record(
    harness: Harness, tmp_path: Path, segment: str
) -> None:
    folder = copied(tmp_path)
    path = next(p for p in files_of(folder) if p.parent.name == segment)
    *before, last = lines_of(path)
    path.write_bytes(b"".join([*before, last[: len(last) // 2]]))
    others = {p: p.read_bytes() for p in files_of(folder)}
    for command, *options in COMMANDS:
        done = harness(command, str(folder), *options)
        assert "Traceback" not in done.err, (command, done.err)
        assert done.code == 0 or done.err.strip() or done.out.strip(), command
        assert done.code in {0, 2, 3, 5}, (command, done.err)
    assert harness("ls", "--runs-dir", str(tmp_path)).code == 0
    assert all(p.read_bytes() == whole for p, whole in others.items())
