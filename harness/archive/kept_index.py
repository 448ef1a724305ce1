"""The index of a large run as a file in the user's cache folder: written whole, and read as far as it fits the run.

Slots outside of the run's files raise DoesNotFit, too: whoever asked makes the index anew.
"""

import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, closing
from datetime import datetime
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, TypeAdapter

from harness.archive.cache_file import CacheFile, new_cache_file
from harness.archive.index import Index
from harness.archive.lines import RecordPlace
from harness.archive.packed_places import RolloutPlace
from harness.archive.run_counts import RolloutSums, RunCounts
from harness.archive.run_files import open_file
from harness.archive.verdict_index import DoesNotFit, VerdictIndex
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


_Count = Annotated[int, Field(ge=0)]
_META = TypeAdapter(tuple[_Count, _Count, _Count, float | None, Literal[0, 1]], config=BUILT_LATER)
_ROLLOUTS = "select query, idx, path, offset, status, kind, started, price from rollouts order by at"
_QUERY = TypeAdapter(tuple[str, str, int], config=BUILT_LATER)
_ROLLOUT = TypeAdapter(
    tuple[str, _Count, str, int, Literal["ok", "failed"], str | None, str, float | None], config=BUILT_LATER
)
_COUNTS = TypeAdapter(
    tuple[_Count, str, _Count, Literal[0, 1], float | None, Literal[0, 1], str | None, int], config=BUILT_LATER
)
_LAST = TypeAdapter(tuple[_Count], config=BUILT_LATER)


def load_index(cache: Path, sizes: Mapping[Path, int]) -> Index | None:
    """Return what the cache holds, or None if it does not fit the files."""
    try:
        file = IndexFile(cache, sizes)
    except DoesNotFit:
        return None
    try:
        return _read(file)
    except DoesNotFit:
        file.close()
        return None


def load_counts(cache: Path, sizes: Mapping[Path, int]) -> RunCounts | None:
    """Return the counts that the cache holds, or None if it does not fit the files, or knows less than they hold."""
    try:
        with closing(IndexFile(cache, sizes)) as file:
            return _counts_in(file) if file.seen == sizes else None
    except DoesNotFit:
        return None


def move_to_disk(cache: Path, index: Index, sizes: Mapping[Path, int]) -> None:
    """Look verdicts up in the cache from now on, which was just written of the index: none of them stays in memory."""
    try:
        file = IndexFile(cache, sizes)
    except DoesNotFit:
        return
    if file.seen == index.seen:
        index.close()
        index.verdicts = _verdicts_on_disk(file, index)
    else:  # another process has put its own in place, which knows less
        file.close()


def _verdicts_on_disk(file: IndexFile, index: Index) -> VerdictIndex:
    return VerdictIndex(file, lambda: _verdicts_in(index.seen))


def _counts_in(file: IndexFile) -> RunCounts:
    """Read the counts alone. Raises DoesNotFit."""
    queries, rollouts, *_ = _meta(file)
    row = file.one("select failed, kinds, fewest, cancelled, usd, unknown, path, offset from counts", _COUNTS)
    if row is None or row[0] > rollouts:
        raise DoesNotFit("no counts")
    failed, kinds, fewest, cancelled, usd, unknown, name, offset = row
    return RunCounts(
        queries=queries,
        rollouts=rollouts,
        failed=failed,
        kinds=frozenset(kinds.split()),
        fewest=fewest,
        cancelled=bool(cancelled),
        usd=None if unknown else _money(usd),
        first=None if name is None else file.place(name, offset),
    )


def _meta(file: IndexFile) -> tuple[int, int, int, float | None, int]:
    if (meta := file.one("select queries, rollouts, verdicts, usd, unknown from meta", _META)) is None:
        raise DoesNotFit("no sums")
    return meta


def _read(file: IndexFile) -> Index:
    """Read all but the verdicts. Raises DoesNotFit."""
    index = Index(seen=dict(file.seen))
    *counts, usd, unknown = _meta(file)
    with file.rows("select id, path, offset from queries order by at", _QUERY) as queries:
        index.queries.update((query, file.place(name, offset)) for query, name, offset in queries)
    noted = 0
    with file.rows(_ROLLOUTS, _ROLLOUT) as rollouts:
        for query, number, name, offset, status, kind, started, price in rollouts:
            noted += 1
            at = RolloutPlace(file.place(name, offset), status, kind, _time(started), _money(price))
            index.rollouts.note(query, number, at)
    last = file.one("select at from verdicts order by at desc limit 1", _LAST) or (0,)
    if counts != [len(index.queries), noted, *last]:
        raise DoesNotFit("rows are missing")
    index.spent = None if unknown else _money(usd)
    index.verdicts = _verdicts_on_disk(file, index)
    return index


def _verdicts_in(paths: Iterable[Path]) -> Iterable[tuple[str, RecordPlace]]:
    """Return the places of the verdicts in segments, read anew."""
    index = Index()
    index.scan(sorted(path for path in paths if path.parent.name == "verdicts"))
    return index.verdicts.items()


def keep_index(cache: Path, index: Index) -> bool:
    """Write the cache anew, and tell whether that could be done: without a place to write, a run is read without."""
    try:
        try:
            _write(cache, index)
        except DoesNotFit:  # what stood in the file that is replaced; from now on that is in memory
            _write(cache, index)
    except (sqlite3.Error, OSError, OverflowError):
        return False
    return True


def _write(cache: Path, index: Index) -> None:
    """Write an index row by row: those of a large run would take as much memory as all else. Raises DoesNotFit."""
    with new_index_file(cache) as base:
        files = ((name_of(path), *FileEnds.of(path, seen)) for path, seen in index.seen.items())
        base.executemany("insert into files values (?, ?, ?, ?)", files)
        queries = ((name, name_of(p.path), p.offset) for name, p in index.queries.items())
        base.executemany("insert into queries(id, path, offset) values (?, ?, ?)", queries)
        base.executemany(
            "insert into rollouts(query, idx, path, offset, status, kind, started, price) values (?,?,?,?,?,?,?,?)",
            _rollout_rows(index, sums := RolloutSums(index)),
        )
        base.execute("insert into counts values (?, ?, ?, ?, ?, ?, ?, ?)", _counts_row(sums.counts))
        verdicts = ((key, name_of(p.path), p.offset) for key, p in index.verdicts.streamed())
        base.executemany("insert into verdicts(key, path, offset) values (?, ?, ?)", verdicts)
        count = "(select count(*) from {})".format
        counts = ", ".join(map(count, ("queries", "rollouts", "verdicts")))
        base.execute(f"insert into meta select {counts}, ?, ?", (index.spent, index.spent is None))


def _rollout_rows(index: Index, sums: RolloutSums) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of all rollouts, and add these to `sums`."""
    for query, places in index.rollouts.items():
        sums.add(query, places)
        for number, (place, *rest) in places.items():
            yield (query, number, name_of(place.path), place.offset, *rest)


def _counts_row(counts: RunCounts) -> tuple[Any, ...]:
    name, offset = (name_of(counts.first.path), counts.first.offset) if counts.first else (None, 0)
    known = counts.usd, counts.usd is None
    return counts.failed, " ".join(sorted(counts.kinds)), counts.fewest, counts.cancelled, *known, name, offset


def _time(started: str) -> str:
    try:
        datetime.fromisoformat(started)
    except ValueError:
        raise DoesNotFit(f"no time: {started!r}") from None
    return started


def _money(usd: float | None) -> float | None:
    if usd is not None and not isfinite(usd):
        raise DoesNotFit("no sum of money")
    return usd
