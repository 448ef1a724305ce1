"""One record a line: JSON whose first member is a checksum of the rest.

A line is appended by one `write` and fsync'd before it counts, so a kill can only tear the last one.
"""

import json
import os
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self

from pydantic_core import from_json

from harness.archive.raw_lines import LONGEST, raw_lines
from harness.archive.run_files import create_file, open_file
from harness.core.errors import ArchiveDamaged, CannotWrite, UsageError

SCHEMA_VERSION = 1
_PREFIX = len(b'{"crc":"01234567",')


def encode(kind: str, body: str) -> bytes:
    """Return the line for a record: `body` is the record as a JSON object."""
    rest = f'"schema_version":{SCHEMA_VERSION},"kind":{json.dumps(kind)},{body[1:]}'.encode()
    return b'{"crc":"%08x",' % zlib.crc32(rest) + rest + b"\n"


def decode(line: bytes, where: str) -> dict[str, Any]:
    """Return a line's members. Raises ArchiveDamaged naming `where`, UsageError for a newer schema."""
    if not line.endswith(b"\n") or line[:8] + line[16:_PREFIX] != b'{"crc":"",':
        raise ArchiveDamaged(f"{where}: not a whole record")
    rest = line[_PREFIX:-1]
    if line[8:16] != b"%08x" % zlib.crc32(rest):
        raise ArchiveDamaged(f"{where}: the checksum does not match the line")
    try:
        members: dict[str, Any] = from_json(line)
    except ValueError:  # a lone surrogate, which only the slower parser takes
        members = json.loads(line)
    refuse_newer(members["schema_version"], where)
    return members


def refuse_newer(schema_version: int, where: str) -> None:
    """Raise UsageError for a schema that a later harness wrote, naming `where` and the version needed."""
    if schema_version > SCHEMA_VERSION:
        raise UsageError(
            f"{where} has schema_version {schema_version}; this harness reads up to {SCHEMA_VERSION}: upgrade it"
        )


@dataclass(frozen=True)
class LocatedRecord:
    """A decoded line and where it is, so that an index can come back to it."""

    path: Path
    offset: int
    end: int
    members: dict[str, Any]


def read_lines(path: Path, start: int = 0) -> Iterator[LocatedRecord]:
    """Yield the records of a file from byte `start`, streaming. A torn last line is left out; damage before raises."""
    with open_file(path) as file:
        for line in raw_lines(file, start):
            if line.torn:
                return  # by a kill: it never counted
            where = f"{path}:{line.number}" if not start else f"{path} at byte {line.start}"
            if line.fault:
                raise ArchiveDamaged(f"{where}: {line.fault}")
            yield LocatedRecord(path, line.start, line.end, decode(line.data, where))


def read_at(path: Path, offset: int) -> dict[str, Any]:
    """Return the one record that starts at `offset`. Raises as `decode` does."""
    with RecordFiles() as files:
        return files.record(path, offset)


class RecordFiles:
    """Reads records at known places. The files stay open: to open one takes as long as to read a record."""

    _MOST_OPEN = 64
    _USUAL_LENGTH = 8192
    """Bytes that hold most records whole."""

    def __init__(self) -> None:
        """Open nothing yet."""
        self._files: dict[Path, IO[bytes]] = {}

    def record(self, path: Path, offset: int) -> dict[str, Any]:
        """Return the record that starts at `offset`. Raises as `decode` does."""
        descriptor, length = self._file(path).fileno(), self._USUAL_LENGTH
        while (end := (data := os.pread(descriptor, length, offset)).find(b"\n")) < 0 and len(data) == length < LONGEST:
            length = min(4 * length, LONGEST)
        return decode(data[: end + 1], f"{path} at byte {offset}")

    def close(self) -> None:
        """Close the files. The next record opens its file again."""
        for file in self._files.values():
            file.close()
        self._files.clear()

    def __enter__(self) -> Self:
        """Return the files themselves."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the files."""
        self.close()

    def _file(self, path: Path) -> IO[bytes]:
        if path not in self._files:
            if len(self._files) == self._MOST_OPEN:
                self.close()
            self._files[path] = open_file(path)
        return self._files[path]


class Appender:
    """An open segment. Not shared between processes: each writer has a file of its own."""

    def __init__(self, path: Path) -> None:
        """Create the file RUN/FOLDER/NAME (0600).

        Raises FileExistsError if it is there: a segment has one writer. ArchiveDamaged if FOLDER is no plain folder.
        """
        self.path = path
        self._file = create_file(path)
        self._size = self._synced = 0

    @property
    def size(self) -> int:
        """How many bytes the segment has: where the next record will begin."""
        return self._size

    def append(self, kind: str, body: str, *, sync: bool = True) -> int:
        """Write one record, wait until it is on disk unless `sync` is False, and return its offset.

        Raises OSError where there is no room; the file is then as it was before. CannotWrite for a record too long.
        """
        line, offset = encode(kind, body), self._size
        if len(line) > LONGEST:
            raise CannotWrite(f"{self.path}: a record of {len(line):,} bytes; a record may have {LONGEST:,}")
        try:
            written = self._file.write(line)
            while written < len(line):  # a disk that fills up takes a part first, and objects only to the rest
                written += self._file.write(line[written:])
            self._size += len(line)
            if sync:
                self.sync()
        except OSError:
            self._size = offset
            self._file.truncate(offset)  # else the next record is glued onto the torn half
            self._file.seek(offset)
            raise
        return offset

    def sync(self) -> None:
        """Wait until all that was appended is on disk. May be called from another thread than `append`."""
        size = self._size
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
