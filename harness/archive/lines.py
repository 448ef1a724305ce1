"""One record a line: JSON whose first member is a checksum of the rest. Reading takes bounded memory."""

import errno
import json
import os
import zlib
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from pydantic_core import from_json

from harness.archive.run_files import create_file, open_file
from harness.core.errors import ArchiveDamaged, CannotWrite, NeedsUpgrade

LONGEST = 256_000_000
"""How many bytes a line may have."""
_PIECE = 1 << 20


class RawLine(NamedTuple):
    """One line: its number from 1, its bytes from `start` to `end`, and as `data` (of one with a fault, the first)."""

    number: int
    start: int
    end: int
    data: bytes
    fault: str | None = None

    @property
    def torn(self) -> bool:
        """Whether the line has no end: a kill cut it off, and it never counted."""
        return self.fault is None and not self.data.endswith(b"\n")


def raw_lines(file: IO[bytes], start: int = 0, *, longest: int = LONGEST) -> Iterator[RawLine]:
    """Yield the lines of a file from byte `start` on; one of more than `longest` bytes has a fault."""
    file.seek(start)
    number = 0
    while data := file.readline(_PIECE):
        number += 1
        end = start + len(data)
        line = RawLine(number, start, end, data)
        if not data.endswith(b"\n") and len(data) == _PIECE:
            line = _long_line(file, line, longest)
            file.seek(line.end)
        yield line
        start = line.end


def data_pieces(file: IO[bytes], start: int, end: int | None = None) -> Iterator[tuple[int, bytes]]:
    """Yield the bytes of a file with their places, in pieces, past its holes; the file's own position stays."""
    descriptor = file.fileno()
    size = os.fstat(descriptor).st_size
    end = size if end is None else min(end, size)
    while (start := _past_hole(descriptor, start, end)) < end:
        if not (piece := os.pread(descriptor, min(_PIECE, end - start), start)):
            return
        yield start, piece
        start += len(piece)


def _long_line(file: IO[bytes], line: RawLine, longest: int) -> RawLine:
    """Return a line of which the first piece is read; it is held in memory only if it may be a record."""
    whole, end, piece = BytesIO(), line.start, line.data
    while b"\0" not in piece and end + len(piece) - line.start <= longest:
        end += whole.write(piece)
        if not piece or piece.endswith(b"\n"):
            return line._replace(end=end, data=whole.getvalue())  # of which BytesIO makes no copy
        piece = file.readline(_PIECE)
    del whole
    end, ended = os.fstat(file.fileno()).st_size, False
    for place, data in data_pieces(file, line.start):
        if (at := data.find(b"\n")) >= 0:
            end, ended = place + at + 1, True
            break
    if end - line.start > longest:
        return line._replace(end=end, fault=f"a line of more than {longest // 1_000_000} MB")
    return line._replace(end=end, fault="not a whole record" if ended else None)


def _past_hole(descriptor: int, start: int, end: int) -> int:
    """Return where data begins from `start` on; `end` if there are only holes."""
    if start >= end:
        return end
    here = os.lseek(descriptor, 0, os.SEEK_CUR)
    try:
        return min(end, os.lseek(descriptor, start, os.SEEK_DATA))
    except OSError as exc:
        return end if exc.errno == errno.ENXIO else start  # a file system may not know of holes
    finally:
        os.lseek(descriptor, here, os.SEEK_SET)


SCHEMA_VERSION = 1
_PREFIX = len(b'{"crc":"01234567",')
_NO_VERSION = 1_000_000
"""From here on a number is no schema version, but damage."""
_BLOCK = 1 << 20


def encode(kind: str, body: str) -> bytes:
    """Return the line for a record: `body` is the record as a JSON object."""
    rest = _head(kind) + body[1:].encode()
    return b'{"crc":"%08x",' % zlib.crc32(rest) + rest + b"\n"


Members = dict[str, Any]
"""What stands on a line, as JSON gave it."""


def decode(line: bytes, where: object) -> Members:
    """Return a line's members, a kind among them. Raises ArchiveDamaged naming `where`, NeedsUpgrade."""
    check_sum(line, where)
    try:
        members = parse(line)
    except ValueError as exc:
        try:  # a blob may hold lone surrogates as escapes, which only the slower parser takes
            members: Members = json.loads(line)
        except (ValueError, RecursionError):
            members = {}
        if members.get("kind") != "blob":
            reason = str(exc).partition(" at line ")[0]
            raise ArchiveDamaged(f"{where}: no valid record: {reason}") from None
    check_version(members.get("schema_version"), where)
    if not isinstance(members.get("kind"), str):
        raise ArchiveDamaged(f"{where}: no valid record: kind: a text is expected")
    return members


def check_sum(line: bytes, where: object) -> None:
    """Raise ArchiveDamaged naming `where` unless a line is whole and fits its checksum."""
    if not line.endswith(b"\n") or line[:8] + line[16:_PREFIX] != b'{"crc":"",':
        raise ArchiveDamaged(f"{where}: not a whole record")
    if line[8:16] != b"%08x" % zlib.crc32(memoryview(line)[_PREFIX:-1]):
        raise ArchiveDamaged(f"{where}: the checksum does not match the line")


def begins_as_written(line: bytes, kind: str) -> bool:
    """Tell whether a line begins as `encode` writes one of a kind, in the schema of now."""
    return line.startswith(_head(kind), _PREFIX)


@cache
def _head(kind: str) -> bytes:
    return f'"schema_version":{SCHEMA_VERSION},"kind":{json.dumps(kind)},'.encode()


def check_version(schema_version: object, where: object) -> None:
    """Raise NeedsUpgrade for a schema that a later harness wrote, ArchiveDamaged for what is no schema version."""
    if type(schema_version) is not int or not 1 <= schema_version < _NO_VERSION:
        raise ArchiveDamaged(f"{where}: no valid record: schema_version: a whole number from 1 is expected")
    if schema_version > SCHEMA_VERSION:
        raise NeedsUpgrade(where, schema_version, SCHEMA_VERSION)


def parse(data: bytes) -> Members:
    """Return the members of a JSON object. Raises ValueError for NaN, deep nesting and lone surrogates, too."""
    members: Any = from_json(data, allow_inf_nan=False)
    if not isinstance(members, dict):
        raise ValueError("no object")  # noqa: TRY004 - a ValueError as for all that is wrong with the text
    return cast("Members", members)


def refuse_twice_named(line: bytes) -> None:
    """Raise ArchiveDamaged for an object that names a member twice: two readers could read two records."""

    def unique(pairs: list[tuple[str, object]]) -> None:
        if len({name for name, _ in pairs}) != len(pairs):
            raise ArchiveDamaged("no valid record: a member is named twice")

    try:
        json.loads(line, object_pairs_hook=unique)
    except RecursionError:  # beside a blob's text, where nobody looks
        raise ArchiveDamaged("no valid record: it is nested too deeply") from None


class RecordPlace(NamedTuple):
    """Where a record begins. As a text it is `file:line`; lines are counted only then."""

    path: Path
    offset: int

    def __str__(self) -> str:
        return f"{self.path}:{line_number(self.path, self.offset)}"


def line_number(path: Path, offset: int) -> int:
    """Return the number, from 1, of the line at a byte of a file."""
    with open_file(path) as file:
        blocks = iter(lambda: file.read(min(_BLOCK, max(0, offset - file.tell()))), b"")
        return 1 + sum(block.count(b"\n") for block in blocks)


@dataclass(frozen=True)
class LocatedRecord:
    """A decoded line and where it is, so that an index can come back to it."""

    place: RecordPlace
    end: int
    members: Members
    line: int | None = None
    """The number of the line, from 1, where that has been counted."""

    @property
    def where(self) -> str:
        """Where it is, for people: `file:line`."""
        return f"{self.place.path}:{self.line}" if self.line else str(self.place)


def whole_lines(path: Path, start: int = 0) -> Iterator[tuple[RawLine, RecordPlace]]:
    """Yield the lines of a file, and where each begins, as `read_lines` does the records; no checksum is looked at."""
    with open_file(path) as file:
        for line in raw_lines(file, start):
            if line.torn:
                return  # by a kill: it never counted
            place = RecordPlace(path, line.start)
            if line.fault:
                raise ArchiveDamaged(f"{place}: {line.fault}")
            yield line, place


def read_lines(path: Path, start: int = 0) -> Iterator[LocatedRecord]:
    """Yield the records of a file from byte `start`, streaming. A torn last line is left out; damage before raises."""
    for line, place in whole_lines(path, start):
        yield LocatedRecord(place, line.end, decode(line.data, place), None if start else line.number)


def read_at(place: RecordPlace) -> LocatedRecord:
    """Return the one record at a place. Raises as `decode` does."""
    with closing(RecordFiles()) as files:
        return files.record(place)


class RecordFiles:
    """Reads records at known places. The files stay open: to open one takes as long as to read a record."""

    _MOST_OPEN = 64
    _USUAL_LENGTH = 8192
    """Bytes that hold most records whole."""
    _AHEAD = 1 << 16
    """Bytes that are read at once where records are read one after the other."""

    def __init__(self) -> None:
        self._files: dict[Path, IO[bytes]] = {}
        self._read: dict[Path, tuple[int, bytes]] = {}
        """What was read last of each file, and from where."""

    def record(self, place: RecordPlace) -> LocatedRecord:
        """Return the record at a place. Raises as `decode` does."""
        line = self.line(place)
        return LocatedRecord(place, place.offset + len(line), decode(line, place))

    def line(self, place: RecordPlace) -> bytes:
        """Return the line at a place, which may be torn. Raises ArchiveDamaged where the file cannot be read."""
        path, offset = place
        start, piece = self._read.get(path, (0, b""))
        at = offset - start
        if 0 <= at < len(piece) and (end := piece.find(b"\n", at)) >= 0:  # segments only grow: it still stands there
            return piece[at : end + 1]
        near = bool(piece) and 0 <= at <= len(piece) + self._USUAL_LENGTH
        if path not in self._files:
            if len(self._files) == self._MOST_OPEN:
                self.close()
            self._files[path] = open_file(path)
        descriptor, length = self._files[path].fileno(), self._AHEAD if near else self._USUAL_LENGTH
        while (end := (data := os.pread(descriptor, length, offset)).find(b"\n")) < 0 and len(data) == length < LONGEST:
            length = min(4 * length, LONGEST)
        self._read[path] = (offset, data if len(data) <= self._AHEAD else b"")
        return data[: end + 1]

    def close(self) -> None:
        """Close the files. The next record opens its file again."""
        for file in self._files.values():
            file.close()
        self._files.clear()
        self._read.clear()


class Appender:
    """An open segment. Not shared between processes: each writer has a file of its own."""

    def __init__(self, path: Path) -> None:
        """Create the file RUN/FOLDER/NAME (0600). Raises as `create_file` does: a segment has one writer."""
        self.path = path
        self.size = self._synced = 0
        """How many bytes the segment has, where the next record will begin; and how many are on disk."""
        self._file = create_file(path)

    def append(self, kind: str, body: str, *, sync: bool = True) -> int:
        """Write one record, by default onto the disk, and return its offset.

        Raises OSError where there is no room; the file is then as it was before. CannotWrite for a record too long.
        """
        line, offset = encode(kind, body), self.size
        if len(line) > LONGEST:
            raise CannotWrite(f"{self.path}: a record of {len(line):,} bytes; a record may have {LONGEST:,}")
        try:
            written = self._file.write(line)
            while written < len(line):  # a disk that fills up takes a part first, and objects only to the rest
                written += self._file.write(line[written:])
            self.size += len(line)
            if sync:
                self.sync()
        except OSError:
            self.size = offset
            self._file.truncate(offset)  # else the next record is glued onto the torn half
            self._file.seek(offset)
            raise
        return offset

    def sync(self) -> None:
        """Wait until all that was appended is on disk. May be called from another thread than `append`."""
        size = self.size
        if self._synced < size:
            os.fsync(self._file.fileno())
            self._synced = size

    def close(self) -> None:
        """Close the file."""
        self._file.close()


@contextmanager
def disk_errors(folder: Path) -> Generator[None]:
    """Turn an error of the disk's into one line that says what is kept."""
    try:
        yield
    except OSError as exc:
        raise CannotWrite(f"cannot write to {folder}: {exc.strerror or exc}; what was written before is whole") from exc
