"""Lines are read in bounded memory and time, whatever a file holds."""

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.archive.lines import LONGEST, RawLine, encode, raw_lines, read_lines
from harness.archive.run_info import ASIDE
from harness.core.errors import ArchiveDamaged
from tests.archive.making import lines_of
from tests.fuzz.attacks import Room
from tests.fuzz.attempts import attempt

PIECE = 1 << 20
HUGE = 100_000_000_000
"""Bytes of a hole in a file, which take no room on the disk."""


def read(path: Path, longest: int = LONGEST) -> list[RawLine]:
    with path.open("rb") as file:
        return list(raw_lines(file, longest=longest))


@pytest.mark.parametrize("end", [b"", b"\n", b"torn"])
@pytest.mark.parametrize("length", [0, 1, PIECE - 2, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE - 1, 2 * PIECE, 3 * PIECE])
def test_lines_of_any_length_are_read_whole(length: int, end: bytes, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"first\n" + b"a" * length + b"\nthird\n" + b"b" * length + end)
    lines = read(path)
    assert b"".join(line.data for line in lines) == path.read_bytes()
    assert [line.number for line in lines] == list(range(1, len(lines) + 1))
    assert [line.start for line in lines[1:]] == [line.end for line in lines[:-1]]
    assert [line.torn for line in lines[:-1]] == [False] * (len(lines) - 1)
    assert lines[-1].torn == (not path.read_bytes().endswith(b"\n"))
    assert all(line.fault is None for line in lines)


def test_a_line_that_is_too_long_is_a_fault_and_the_lines_after_it_are_read(tmp_path: Path) -> None:
    path = tmp_path / "f"
    longest = 3 * PIECE
    path.write_bytes(b"a" * (longest - 1) + b"\n" + b"b" * longest + b"\nc\n" + b"d" * (longest + 1))
    lines = read(path, longest)
    assert [line.end - line.start for line in lines] == [longest, longest + 1, 2, longest + 1]
    assert [bool(line.fault) for line in lines] == [False, True, False, True]
    assert "3 MB" in str(lines[1].fault)


@pytest.mark.parametrize("longest", [3 * PIECE, LONGEST])
def test_a_line_that_cannot_be_a_record_is_not_held_in_memory(longest: int, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"a" * 12 * PIECE + b"\n" if longest < LONGEST else b"\0" * 12 * PIECE + b"\n")
    tracemalloc.start()
    try:
        (line,) = read(path, longest)
        assert tracemalloc.get_traced_memory()[1] < 8 * PIECE
    finally:
        tracemalloc.stop()
    assert line.end == path.stat().st_size


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return Room.make(tmp_path / "room").add_run()


def ended(run: Path, *line: str) -> tuple[int | None, str]:
    """Run a command; it must neither hang nor end in a traceback."""
    room = Room(run.parents[2])
    outcome = attempt((*line, run.name), room.work, room.environ())
    assert outcome.faults() == []
    return outcome.code, outcome.out_text + outcome.err_text


def a_hole_at_the_end(path: Path) -> None:
    with path.open("ab") as file:
        file.truncate(HUGE)


def a_hole_and_a_line_after_it(path: Path) -> None:
    last = lines_of(path)[-1]
    a_hole_at_the_end(path)
    with path.open("ab") as file:
        file.write(b"\n" + last)


def a_record_with_a_hole_in_it(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b'{"crc":"00000000","schema_version":1,')
        file.truncate(HUGE)


def many_holes(path: Path) -> None:
    with path.open("ab") as file:
        for _ in range(2000):
            file.write(b'{"crc":"00000000","schema_version":1,')
            file.seek(LONGEST // 2, 1)
            file.write(b"\n")


@pytest.mark.few(5)
@pytest.mark.parametrize("segment", ["blobs", "verdicts", "rankings"])
@pytest.mark.parametrize(
    "hole", [a_hole_at_the_end, a_hole_and_a_line_after_it, a_record_with_a_hole_in_it, many_holes]
)
def test_a_sparse_file_of_many_gigabytes_is_damage_that_is_named_and_moved_aside(
    hole: Callable[[Path], None], segment: str, run: Path
) -> None:
    (path,) = (run / segment).glob("*.jsonl")
    before = lines_of(path)
    hole(path)
    code, shown = ended(run, "validate")
    assert code == 5
    assert f"{path.name}:{len(before) + 1}: " in shown
    assert ended(run, "show")[0] == (0 if segment == "blobs" else 5)
    assert ended(run, "validate", "--repair")[0] == 0
    assert lines_of(path)[: len(before)] == before
    assert path.stat().st_size < LONGEST
    (aside,) = (run / ASIDE).iterdir()
    assert aside.stat().st_blocks * 512 < LONGEST
    assert ended(run, "show")[0] == 0


@pytest.mark.parametrize("command", ["show", "validate", "resume"])
def test_a_run_json_of_many_gigabytes_is_not_read(command: str, run: Path) -> None:
    with (run / "run.json").open("ab") as file:
        file.truncate(HUGE)
    code, shown = ended(run, command)
    assert code == 5
    assert "run.json: it has more than 256,000,000 bytes" in shown


def test_reading_names_the_line_that_is_too_long(tmp_path: Path) -> None:
    path = tmp_path / "s" / "f.jsonl"
    path.parent.mkdir()
    path.write_bytes(encode("thing", '{"text":"one"}'))
    a_hole_at_the_end(path)
    with pytest.raises(ArchiveDamaged, match=r"f\.jsonl:2: a line of more than 256 MB"):
        list(read_lines(path))
