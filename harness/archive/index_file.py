"""The SQLite databases of an index: this process's own, and the file in the user's cache folder; counts of records.

The kept file is read as if a stranger had written it. Whatever does not fit (other tables, rows of other types, places
outside of the run's files, queries without end) raises DoesNotFit: the index is then made anew. It is replaced whole.
"""

import math
import os
import shutil
import sqlite3
import tempfile
import weakref
import zlib
from array import array
from collections.abc import Collection, Generator, Iterable, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, NamedTuple, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from harness.archive.lines import RecordPlace
from harness.archive.run_files import open_file
from harness.core.cost import Cost, cost
from harness.core.errors import CannotWrite
from harness.core.records import BUILT_LATER
from harness.core.user_files import cache_folder

TABLES = """
create table files(id integer primary key, name text unique, seen integer, head integer, tail integer);
create table queries(at integer primary key, id text unique, file integer, offset integer);
create table rollouts(at integer primary key, query text, number integer, file integer, offset integer, status text,
                      failure text, started text, price real, part real, unique(query, number));
create table verdicts(key text primary key, file integer, offset integer) without rowid;
create table sums(queries integer, rollouts integer, last_verdict text, spent real, part real, counts text);
create table judging(fingerprint text, stamps text);
create table cached_groups(query text unique, crc integer, data text);
"""
_NAMES = "create table names(name text primary key, file integer, offset integer) without rowid"
TOTALS = """select (select count(*) from {0}queries), (select count(*) from {0}rollouts join {0}queries on id = query),
                   (select max(key) from {0}verdicts)"""
"""What tells that rows are missing, or bear other names."""
RowOfIndex = TypeVar("RowOfIndex")
"""What a row of the index is read as."""
WORTH_KEEPING = 8_000_000
"""Bytes of segments from which on the index is kept: below, a scan takes a tenth of a second."""
_MEMORY_KB = 4_000
"""What a database of this process's own takes of memory; what is beyond goes to a temporary file."""
_LONGEST_VALUE = 1_000_000
_STEPS = 10_000
"""After so many steps of SQLite the bound on a query is looked at."""
_LEAST_RECORD = 32
"""No record has fewer bytes, so the files bound the rows that an index of them can have."""
_END = 4096
_CACHE_ERRORS = (sqlite3.Error, sqlite3.Warning, ValidationError, OSError, ValueError, OverflowError, MemoryError)
Count = Annotated[int, Field(ge=0)]
Money = Annotated[float, Field(allow_inf_nan=False)] | None
_FILE = TypeAdapter(tuple[int, str, Count, int, int], config=BUILT_LATER)
_TOTALS = TypeAdapter(tuple[int, int, str | None], config=BUILT_LATER)
_SUMS = TypeAdapter(tuple[int, int, str | None, Money, Money, str], config=BUILT_LATER)


class DoesNotFit(Exception):
    """The kept file is no index of these files."""


@contextmanager
def cache_errors() -> Generator[None]:
    """Turn whatever goes wrong with a cache into DoesNotFit."""
    try:
        yield
    except _CACHE_ERRORS as exc:
        raise DoesNotFit(str(exc)) from exc


def usual_caches() -> Path | None:
    """Return the user's folder of caches, by the process's environment; None for a user without a home."""
    try:
        return cache_folder(os.environ)
    except RuntimeError:
        return None


def is_worth_keeping(sizes: Iterable[int]) -> bool:
    """Tell whether the index of segments of these sizes, in bytes, is kept."""
    return sum(sizes) >= WORTH_KEEPING


def private_database(tables: str, *, in_memory: bool = False) -> sqlite3.Connection:
    """Return a database of this process's own: SQLite holds a small one in memory, a large one in a temporary file."""
    base = sqlite3.connect(":memory:" if in_memory else "", isolation_level=None, check_same_thread=False)
    base.executescript(f"pragma journal_mode=off; pragma synchronous=off; pragma cache_size=-{_MEMORY_KB}; {tables}")
    return base


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
    """A kept index, open for reading. Its methods raise DoesNotFit."""

    def __init__(self, path: Path, sizes: Mapping[Path, int]) -> None:
        """Open the index of a run's files, of which `sizes` are in bytes."""
        self._most_rows = sum(sizes.values()) // _LEAST_RECORD
        self._steps_left = 0
        with cache_errors():
            address = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
            self._base = sqlite3.connect(address, uri=True, check_same_thread=False)
        try:
            self._guard()
            self.paths = dict[int, Path]()
            """The run's files, by the numbers that the index gives them."""
            self.seen = dict[Path, int]()
            """How far each file was read."""
            self._check({file_name(segment): segment for segment in sizes}, sizes)
        except BaseException:
            self._base.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._base.close()

    def rows(self, question: str, row: TypeAdapter[RowOfIndex], *values: object) -> list[RowOfIndex]:
        """Return the rows of an answer, each checked."""
        self._steps_left = 20 + self._most_rows
        with cache_errors(), closing(self._base.execute(question, values)) as answer:
            found = answer.fetchmany(self._most_rows + 1)
            if len(found) > self._most_rows:
                raise DoesNotFit("more rows than records")
            return [row.validate_python(each, strict=True) for each in found]

    def _guard(self) -> None:
        """Bound what the file can make SQLite do, and look at its tables before anything is read from one."""
        self._base.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
        self._base.set_progress_handler(self._is_endless, _STEPS)
        self._steps_left = 20
        with cache_errors():
            for pragma in ("trusted_schema=off", "query_only=on", "cell_size_check=on", "mmap_size=0"):
                self._base.execute(f"pragma {pragma}")
            schema = "select type, name, tbl_name, sql from sqlite_master order by name"
            with closing(sqlite3.connect(":memory:")) as model:
                model.executescript(TABLES)
                expected = model.execute(schema).fetchall()
            if self._base.execute(schema).fetchmany(len(expected) + 1) != expected:
                raise DoesNotFit("other tables")

    def _check(self, paths: Mapping[str, Path], sizes: Mapping[Path, int]) -> None:
        """Read what is known of the files; find one that became shorter, went or is another, and rows that are gone."""
        for number, name, *ends in self.rows("select id, name, seen, head, tail from files", _FILE):
            path = paths.get(name)
            if path is None or ends[0] > sizes[path] or FileEnds.of(path, ends[0]) != FileEnds(*ends):
                raise DoesNotFit(f"{name} is another file than it was")
            self.paths[number], self.seen[path] = path, ends[0]
        there = self.rows(TOTALS.format(""), _TOTALS)
        sums = [row for row in self.rows("select * from sums", _SUMS) if row[:3] == there[0]]
        if not sums:
            raise DoesNotFit("rows are missing")
        *_, spent, part, self.counts = sums[0]
        self.spent = cost(spent, part)
        """What the verdicts cost, and the counts of records as they were kept."""

    def _is_endless(self) -> bool:
        self._steps_left -= 1
        return self._steps_left < 0


def file_name(path: Path) -> str:
    """Return what an index calls a run's file: SEGMENT/NAME."""
    return f"{path.parent.name}/{path.name}"


class NamePlaces:
    """Where the record of each name begins, or only which names there are, of as many names as there may be."""

    def __init__(self) -> None:
        self._base = private_database(_NAMES)
        weakref.finalize(self, self._base.close)
        self._paths: list[Path] = []

    def add(self, name: str, place: RecordPlace | None = None) -> None:
        """Note a name and where its record begins, unless it is noted. Raises CannotWrite where there is no room."""
        path, offset = place or (None, None)
        if path and path not in self._paths[-1:]:
            self._paths.append(path)
        try:
            self._base.execute("insert or ignore into names values (?, ?, ?)", (name, len(self._paths) - 1, offset))
        except sqlite3.Error as exc:
            raise CannotWrite(f"cannot write a temporary file: {exc}") from None

    def get(self, name: str) -> RecordPlace | None:
        """Return where the record of a name begins; None for a name that is not in it."""
        row = self._base.execute("select file, offset from names where name = ?", (name,)).fetchone()
        return row and RecordPlace(self._paths[row[0]], row[1])

    def __contains__(self, name: str) -> bool:
        return self._base.execute("select 1 from names where name = ?", (name,)).fetchone() is not None

    def __len__(self) -> int:
        return self._base.execute("select count(*) from names").fetchone()[0]


@contextmanager
def replaced_index(path: Path, *, is_there: bool) -> Generator[Path]:
    """Put the file that the block fills in the place of `path` when the block ends well; else nothing changes.

    The file begins as a copy of `path` where that `is_there`, else with empty tables. Raises OSError, sqlite3.Error.
    """
    for folder in (path.parent.parent, path.parent):
        folder.mkdir(0o700, parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=".", suffix=".part", dir=path.parent)  # with the mode 0600
    part = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if is_there:
                with path.open("rb") as old:
                    shutil.copyfileobj(old, file)
        if not is_there:
            with closing(sqlite3.connect(part)) as base:
                base.executescript(TABLES)
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


class RolloutPlace(NamedTuple):
    """Where a rollout's record begins, and what must be known of it without reading it."""

    place: RecordPlace
    status: str
    kind: str | None
    """What it failed of."""
    started_at: datetime
    cost: Cost


@dataclass(frozen=True)
class RunCounts:
    """How many records a run has, and what became of its rollouts; of a rollout the newest record counts."""

    queries: int
    rollouts: int
    failed: int
    kinds: frozenset[str]
    """What rollouts failed of."""
    fewest: int
    """Rollouts of the query that has the fewest; 0 without a query."""
    cancelled: bool
    """Whether a rollout of one of the queries was cancelled."""
    cost: Cost
    """What rollouts and verdicts cost."""
    first: RecordPlace | None
    """Where the record of the first rollout of the first query that has any begins."""


def count_records(
    queries: Collection[str], rollouts: Mapping[str, Mapping[int, RolloutPlace]], spent: Cost
) -> RunCounts:
    """Count the records, one query after the other: the places of a large run do not fit into memory."""
    begun = count = failed = 0
    fewest, cancelled, first, prices, all_exact = 0, False, None, array("d"), spent.exact
    kinds = set[str]()
    for query, places in rollouts.items():
        of_query = {place.kind for place in places.values() if place.kind is not None}
        prices.extend(place.cost.known for place in places.values())
        all_exact &= all(place.cost.exact for place in places.values())
        count += len(places)
        failed += sum(place.status == "failed" for place in places.values())
        kinds |= of_query
        first = first or places[min(places)].place
        if query in queries:
            fewest = min(fewest, len(places)) if begun else len(places)
            begun += 1
            cancelled |= "cancelled" in of_query
    return RunCounts(
        queries=len(queries),
        rollouts=count,
        failed=failed,
        kinds=frozenset(kinds),
        fewest=fewest if begun == len(queries) else 0,
        cancelled=cancelled,
        cost=Cost(math.fsum([*prices, spent.known]), all_exact),
        first=first,
    )
