"""The cached index on disk, read as if a stranger had written it, and written anew as a whole.

Whatever does not fit (other tables, rows of other types, places outside of the run's files, questions without end)
raises DoesNotFit: whoever asked makes the index anew.
"""

import os
import sqlite3
import tempfile
import zlib
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, NamedTuple, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

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
"""
_LONGEST_VALUE = 1_000_000
_STEPS = 10_000
"""After so many steps of SQLite's the bound on a question is looked at."""
_LEAST_RECORD = 32
"""No record has fewer bytes, so the files bound the rows that an index of them can have."""
_END = 4096
_AHEAD = 64
"""Verdicts whose places are read at once."""
_MISFITS = (sqlite3.Error, sqlite3.Warning, ValidationError, OSError, ValueError, OverflowError, MemoryError)

_FILE: TypeAdapter[tuple[str, int, int, int]] = TypeAdapter(
    tuple[str, Annotated[int, Field(ge=0)], int, int], config=BUILT_LATER
)
_AT_PLACE: TypeAdapter[tuple[int, str, int]] = TypeAdapter(tuple[int, str, int], config=BUILT_LATER)
_KEYED: TypeAdapter[tuple[str, str, int]] = TypeAdapter(tuple[str, str, int], config=BUILT_LATER)
Row = TypeVar("Row")


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


class IndexFile:
    """An index on disk, open for reading."""

    def __init__(self, path: Path, sizes: Mapping[Path, int]) -> None:
        """Open the index of a run's files, of which `sizes` are in bytes. Raises DoesNotFit."""
        self._paths = {name_of(segment): segment for segment in sizes}
        self._most_rows = sum(sizes.values()) // _LEAST_RECORD
        self._steps_left = 0
        self._ahead: dict[str, tuple[str, int]] = {}
        """Of the verdicts after the last one that was looked for, the places by key."""
        self._last_at = 0
        with _misfits():
            address = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
            self._base = sqlite3.connect(address, uri=True, check_same_thread=False)
        try:
            self._guard()
            self.seen: Mapping[Path, int] = dict(self._seen(sizes))
            """How far each file was read."""
        except BaseException:
            self._base.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._base.close()

    @contextmanager
    def rows(self, question: str, row: TypeAdapter[Row], *values: object) -> Generator[Iterator[Row]]:
        """Give the rows of an answer, each checked. Raises DoesNotFit, for what the block does with them, too."""
        self._steps_left = 20 + self._most_rows
        with _misfits(), closing(self._base.execute(question, values)) as answer:
            yield (row.validate_python(each, strict=True) for each in self._bounded(answer))

    def one(self, question: str, row: TypeAdapter[Row], *values: object) -> Row | None:
        """Return the first row of an answer, or None. Raises DoesNotFit."""
        with self.rows(question, row, *values) as rows:
            return next(rows, None)

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

    def _bounded(self, answer: Iterable[Row]) -> Iterator[Row]:
        for number, each in enumerate(answer):
            if number > self._most_rows:
                raise DoesNotFit("more rows than records")
            yield each

    def _seen(self, sizes: Mapping[Path, int]) -> Iterator[tuple[Path, int]]:
        """Yield how far each file was read. Raises DoesNotFit for a file that became shorter, went or is another."""
        with self.rows("select path, seen, head, tail from files", _FILE) as files:
            for name, *ends in files:
                path, seen = self._paths.get(name), ends[0]
                if path is None or seen > sizes[path] or FileEnds.of(path, seen) != FileEnds(*ends):
                    raise DoesNotFit(f"{name} is another file than it was")
                yield path, seen

    def _guard(self) -> None:
        """Bound what the file can make SQLite do, and look at its tables before anything is read from one."""
        self._base.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
        self._base.set_progress_handler(self._is_endless, _STEPS)
        with _misfits():
            for pragma in ("trusted_schema=off", "query_only=on", "cell_size_check=on", "mmap_size=0"):
                self._base.execute(f"pragma {pragma}")
            self._steps_left = 20
            schema = "select type, name, tbl_name, sql from sqlite_master order by name"
            with closing(sqlite3.connect(":memory:")) as model:
                model.executescript(_TABLES)
                expected = model.execute(schema).fetchall()
            if self._base.execute(schema).fetchmany(len(expected) + 1) != expected:
                raise DoesNotFit("other tables")

    def _is_endless(self) -> bool:
        self._steps_left -= 1
        return self._steps_left < 0


def name_of(path: Path) -> str:
    """Return what an index calls a run's file: SEGMENT/NAME."""
    return f"{path.parent.name}/{path.name}"


@contextmanager
def new_index_file(path: Path) -> Generator[sqlite3.Connection]:
    """Put the tables that the block fills in the place of `path` when the block ends well; else nothing changes.

    A reader sees the old or the new file. Raises OSError, sqlite3.Error.
    """
    for folder in (path.parent.parent, path.parent):
        folder.mkdir(0o700, parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=".", suffix=".part", dir=path.parent)  # with the mode 0600
    os.close(descriptor)
    part = Path(name)
    try:
        with closing(sqlite3.connect(part)) as base, base:
            base.execute("pragma journal_mode=off")
            base.executescript(_TABLES)
            yield base
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def _misfits() -> Generator[None]:
    """Turn whatever goes wrong with an index into DoesNotFit."""
    try:
        yield
    except _MISFITS as exc:
        raise DoesNotFit(str(exc)) from exc
