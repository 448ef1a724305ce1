"""The cached index on disk: where each record of a run stands, by the cache's rules of trust and some of its own.

Places outside of the run's files raise DoesNotFit, too: whoever asked makes the index anew.
"""

import sqlite3
import zlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import Field, TypeAdapter

from harness.archive.cache_file import CacheFile, new_cache_file
from harness.archive.lines import RecordPlace
from harness.archive.run_files import open_file
from harness.archive.verdict_index import DoesNotFit
from harness.core.records import BUILT_LATER

_TABLES = """
create table meta(queries integer, rollouts integer, verdicts integer, usd real, unknown integer);
create table files(path text primary key, seen integer, head integer, tail integer);
create table queries(at integer primary key, id text, path text, offset integer);
create table rollouts(at integer primary key, query text, idx integer, path text, offset integer, status text,
                      kind text, started text, price real);
create table verdicts(at integer primary key, key text unique, path text, offset integer);
create table counts(failed integer, kinds text, fewest integer, cancelled integer, usd real, unknown integer,
                    path text, offset integer);
"""
_LEAST_RECORD = 32
"""No record has fewer bytes, so the files bound the rows that an index of them can have."""
_END = 4096
_AHEAD = 64
"""Verdicts whose places are read at once."""

_FILE: TypeAdapter[tuple[str, int, int, int]] = TypeAdapter(
    tuple[str, Annotated[int, Field(ge=0)], int, int], config=BUILT_LATER
)
_AT_PLACE: TypeAdapter[tuple[int, str, int]] = TypeAdapter(tuple[int, str, int], config=BUILT_LATER)
_KEYED: TypeAdapter[tuple[str, str, int]] = TypeAdapter(tuple[str, str, int], config=BUILT_LATER)


class FileEnds(NamedTuple):
    """How far a file was read, and checksums of the first and the last bytes of that: two copies of a run differ."""

    seen: int
    head: int
    tail: int

    @classmethod
    def of(cls, path: Path, seen: int) -> "FileEnds":
        """Look at a file. Raises ArchiveDamaged."""
        with open_file(path) as file:
            head = file.read(min(_END, seen))
            file.seek(max(0, seen - _END))
            return cls(seen, zlib.crc32(head), zlib.crc32(file.read(min(_END, seen))))


class IndexFile(CacheFile):
    """An index on disk, open for reading."""

    def __init__(self, path: Path, sizes: Mapping[Path, int]) -> None:
        """Open the index of a run's files, of which `sizes` are in bytes. Raises DoesNotFit."""
        self._paths = {name_of(segment): segment for segment in sizes}
        self._ahead: dict[str, tuple[str, int]] = {}
        """Of the verdicts after the last one that was looked for, the places by key."""
        self._last_at = 0
        super().__init__(path, _TABLES, sum(sizes.values()) // _LEAST_RECORD)
        try:
            self.seen: Mapping[Path, int] = dict(self._seen(sizes))
            """How far each file was read."""
        except BaseException:
            self.close()
            raise

    def place(self, name: str, offset: int) -> RecordPlace:
        """Return a place in one of the run's files, as far as they were read. Raises DoesNotFit for any other."""
        path = self._paths.get(name)
        if path is None or not 0 <= offset < self.seen.get(path, 0):
            raise DoesNotFit(f"no place in the run's files: {name} at byte {offset}")
        return RecordPlace(path, offset)

    def verdict(self, key: str) -> RecordPlace | None:
        """Return where the verdict of a key is, or None. Raises DoesNotFit."""
        if place := self._ahead.get(key):
            return self.place(*place)
        if (row := self.one("select at, path, offset from verdicts where key = ?", _AT_PLACE, key)) is None:
            return None
        at, name, offset = row
        if 0 < at - self._last_at <= _AHEAD:  # verdicts are mostly asked for in the order in which they were written
            question = "select key, path, offset from verdicts where at > ? and at <= ?"
            with self.rows(question, _KEYED, at, at + _AHEAD) as rows:
                self._ahead = {other: (path, start) for other, path, start in rows}
            at += _AHEAD
        self._last_at = at
        return self.place(name, offset)

    def verdicts(self) -> Iterator[tuple[str, RecordPlace]]:
        """Yield keys and places of all verdicts, the oldest first. Raises DoesNotFit."""
        with self.rows("select key, path, offset from verdicts order by at", _KEYED) as rows:
            for key, name, offset in rows:
                yield key, self.place(name, offset)

    def _seen(self, sizes: Mapping[Path, int]) -> Iterator[tuple[Path, int]]:
        """Yield how far each file was read. Raises DoesNotFit for a file that became shorter, went or is another."""
        with self.rows("select path, seen, head, tail from files", _FILE) as files:
            for name, *ends in files:
                path, seen = self._paths.get(name), ends[0]
                if path is None or seen > sizes[path] or FileEnds.of(path, seen) != FileEnds(*ends):
                    raise DoesNotFit(f"{name} is another file than it was")
                yield path, seen


def name_of(path: Path) -> str:
    """Return what an index calls a run's file: SEGMENT/NAME."""
    return f"{path.parent.name}/{path.name}"


def new_index_file(path: Path) -> AbstractContextManager[sqlite3.Connection]:
    """Put the tables that the block fills in the place of `path`, as `new_cache_file` does."""
    return new_cache_file(path, _TABLES)
