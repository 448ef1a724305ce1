"""Lines: whole or not there, and never wrong."""

import json
import os
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.archive.lines import SCHEMA_VERSION, Appender, RecordPlace, decode, encode, read_at, read_lines
from harness.core.errors import ArchiveDamaged, UsageError
from tests.builders import json_objects, names

BODIES = ['{"text":"one"}', '{"text":"zwei ∞"}', '{"text":"3","deep":{"list":[1,2.5,null,true]}}', '{"text":"last"}']


@pytest.fixture
def written(tmp_path: Path) -> Path:
    appender = Appender(tmp_path / "segment" / "w.jsonl")
    for body in BODIES:
        appender.append("thing", body)
    appender.close()
    return appender.path


def bodies(path: Path) -> list[str]:
    return [at.members["text"] for at in read_lines(path)]


@given(names, json_objects)
def test_what_is_encoded_is_decoded(kind: str, members: dict[str, object]) -> None:
    body = json.dumps({"payload": members})
    line = encode(kind, body)
    found = decode(line, "here")
    assert line.count(b"\n") == 1
    assert (found["kind"], found["schema_version"], found["payload"]) == (kind, SCHEMA_VERSION, members)


def test_an_offset_leads_back_to_its_record(tmp_path: Path) -> None:
    appender = Appender(tmp_path / "w.jsonl")
    offsets = [appender.append("thing", body) for body in BODIES]
    appender.close()
    assert [read_at(RecordPlace(appender.path, at)).members["text"] for at in offsets] == bodies(appender.path)
    assert [located.place.offset for located in read_lines(appender.path)] == offsets


def test_a_file_cut_at_any_byte_of_its_last_record_loses_that_record_and_no_other(written: Path) -> None:
    whole = written.read_bytes()
    before = bodies(written)[:-1]
    for end in range(whole.rindex(b"\n", 0, -1) + 1, len(whole)):
        written.write_bytes(whole[:end])
        assert bodies(written) == before


def test_a_file_cut_to_nothing_has_no_records(tmp_path: Path) -> None:
    (tmp_path / "w.jsonl").write_bytes(b"")
    assert bodies(tmp_path / "w.jsonl") == []


@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("mask", [0x01, 0x20, 0x80, 0xFF])
def test_a_changed_byte_anywhere_before_the_last_line_is_damage_with_file_and_line(
    written: Path, number: int, mask: int
) -> None:
    whole = written.read_bytes()
    starts = [0, *(i + 1 for i, byte in enumerate(whole) if byte == ord("\n"))]
    for at in range(starts[number - 1], starts[number]):
        changed = bytearray(whole)
        changed[at] ^= mask
        written.write_bytes(changed)
        with pytest.raises(ArchiveDamaged) as caught:
            bodies(written)
        assert str(caught.value).startswith(f"{written}:{number}: ")


@given(st.binary(max_size=60))
def test_no_bytes_decode_to_a_record_that_was_not_written(noise: bytes) -> None:
    with pytest.raises(ArchiveDamaged, match=r"^here: "):
        decode(noise, "here")


def test_a_newer_schema_version_is_refused_with_the_one_that_is_there_and_the_one_that_can_be_read() -> None:
    rest = b'"schema_version":7,"kind":"thing","text":"one"}'
    with pytest.raises(UsageError, match=r"w\.jsonl:1 has schema_version 7.*reads up to 1: upgrade"):
        decode(b'{"crc":"%08x",' % zlib.crc32(rest) + rest + b"\n", "w.jsonl:1")


def test_a_segment_has_one_writer(written: Path) -> None:
    with pytest.raises(FileExistsError):
        Appender(written)


def test_a_record_is_readable_as_soon_as_append_returns(tmp_path: Path) -> None:
    appender = Appender(tmp_path / "w.jsonl")
    for count, body in enumerate(BODIES, 1):
        appender.append("thing", body)
        assert len(bodies(appender.path)) == count
    appender.close()


def test_segments_are_for_their_owner_only(written: Path) -> None:
    assert written.stat().st_mode & 0o777 == 0o600
    assert written.parent.stat().st_mode & 0o777 == 0o700
    assert os.listdir(written.parent) == ["w.jsonl"]  # noqa: PTH208 - names only
