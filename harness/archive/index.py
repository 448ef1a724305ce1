"""The index of a run or a comparison: where every record stands, and what must be known of it without reading it.

There is one, in SQLite: in memory while it is small, else in a temporary file. That of a large run is also kept in the
user's cache folder (`index_file`), never in the run: segments only grow, so the next process reads only what is new. It
may be deleted at any time; one that does not fit the run is made anew.
"""

import json
import sqlite3
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from datetime import datetime
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import TypeAdapter

from harness.archive.index_file import (
    TABLES,
    TOTALS,
    Count,
    DoesNotFit,
    FileEnds,
    IndexFile,
    Money,
    RowOfIndex,
    cache_errors,
    file_name,
    is_worth_keeping,
    private_database,
    replaced_index,
)
from harness.archive.lines import LocatedRecord, RecordPlace, read_lines
from harness.archive.run_counts import RolloutPlace, RunCounts, count_records
from harness.archive.run_files import files_in
from harness.archive.typed_records import QUERY_NAME, ROLLOUT_MARK, SEGMENT_HEAD, VERDICT_MARK, read_record
from harness.core.errors import ArchiveDamaged
from harness.core.records import BUILT_LATER
from harness.core.rounded import sum_if_known

INDEXED = ("queries", "rollouts", "verdicts")
"""The folders of a run whose records are found by the index."""
T = TypeVar("T")
_PAGE = 1000
_PLACE = TypeAdapter(tuple[int, int], config=BUILT_LATER)
_NAME = TypeAdapter(tuple[str], config=BUILT_LATER)
_NUMBER = TypeAdapter(tuple[Count], config=BUILT_LATER)
_ROLLOUT = TypeAdapter(tuple[Count, int, int, Literal["ok", "failed"], str | None, str, Money], config=BUILT_LATER)
_COUNTS = TypeAdapter(
    tuple[Count, Count, Count, list[str], Count, bool, Money, tuple[int, int] | None], config=BUILT_LATER
)
_PUT_QUERY = "insert or ignore into {}queries(id, file, offset) {}"
_COLUMNS = "query, number, file, offset, status, failure, started, price"
_PUT_ROLLOUT = f"""
insert into {{}}rollouts({_COLUMNS}) {{}} on conflict(query, number)
do update set file = excluded.file, offset = excluded.offset, status = excluded.status, failure = excluded.failure,
              started = excluded.started, price = excluded.price
"""
_PUT_VERDICT = "insert or ignore into {}verdicts {}"
_PUT_GROUP = "insert or replace into {}cached_groups(query, crc, data) {}"
_JUDGING = TypeAdapter(tuple[str, str], config=BUILT_LATER)
_COPIED = (
    (_PUT_QUERY, "select id, file, offset from main.queries order by at"),
    (_PUT_ROLLOUT, f"select {_COLUMNS} from main.rollouts where true order by at"),  # noqa: S608 - names of our own
    (_PUT_VERDICT, "select key, file, offset from main.verdicts"),
)


class Index:
    """The places of a folder's records. `spent` is what the verdicts cost; None if any price is unknown."""

    def __init__(self, folder: Path, segments: Sequence[str] = INDEXED, cache: Path | None = None) -> None:
        """Read what the file `cache` of an earlier process does not hold. Raises ArchiveDamaged for a broken line."""
        self.queries, self.rollouts, self.verdicts = QueryPlaces(self), RolloutPlaces(self), VerdictPlaces(self)
        self.times_made = 1
        """How often it was made of all records, or of the kept file."""
        self.from_cache = False
        """Whether a part of it was read by an earlier process."""
        self._folder, self._segments, self._cache = folder, segments, cache
        self._in_memory = self._is_written = False
        self._written: dict[Path, int] | None = None
        """How far the files were read that are in the kept file that this process wrote."""
        self._opened = ExitStack()
        weakref.finalize(self, self._opened.close)
        kept: IndexFile | None = None
        try:
            if cache and cache.is_file():
                with suppress(DoesNotFit):
                    kept = IndexFile(cache, self._sizes())
            self._begin(kept)
            self.from_cache = kept is not None
            self._read_news()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the databases."""
        self._opened.close()

    def make_anew(self) -> None:
        """Read all records again: what was kept, or the temporary file, is of no use. Raises ArchiveDamaged."""
        self.times_made += 1
        self.from_cache = self._is_written = False
        self._begin(None)
        self._read_news()

    def ask(self, answer: Callable[[], T]) -> T:
        """Return an answer; where the kept file turns out not to fit, that of an index made anew."""
        try:
            return answer()
        except DoesNotFit:
            self.make_anew()
            return answer()

    def rows(self, question: str, row: TypeAdapter[RowOfIndex], *values: object) -> list[RowOfIndex]:
        """Return the rows of the kept file, and then those of what was read since. Raises DoesNotFit."""
        try:
            fresh = self._fresh.execute(question, values).fetchall()
        except UnicodeEncodeError:  # no name in a run has a lone surrogate
            return []
        except sqlite3.Error as exc:  # there is no room for the temporary file
            self._in_memory = True
            raise DoesNotFit(str(exc)) from exc
        return [*self._kept.rows(question, row, *values), *fresh] if self._kept else fresh

    def place(self, file: int, offset: int) -> RecordPlace:
        """Return the place that a row names. Raises DoesNotFit for one outside of what was read."""
        path = self._paths.get(file)
        if path is None or not 0 <= offset < self._ends[path]:
            raise DoesNotFit(f"no place in the run's files: file {file} at byte {offset}")
        return RecordPlace(path, offset)

    def add_query(self, name: str, place: RecordPlace) -> None:
        """Note a query that this process has written."""
        self._add(_PUT_QUERY, self.queries, name, place)

    def add_verdict(self, key: str, place: RecordPlace) -> None:
        """Note a verdict that this process has written; the first of a key counts."""
        self._add(_PUT_VERDICT, self.verdicts, key, place)

    def add_group(self, query: str, crc: int, data: str) -> None:
        """Note what is cached of a group; the last of a query counts. Raises DoesNotFit."""
        with cache_errors():
            self._fresh.execute(_PUT_GROUP.format("", "values (?, ?, ?)"), (query, crc, data))

    def judging(self) -> tuple[str, str] | None:
        """Return the judging and the stamps of files that the kept groups are of; None where none are kept."""
        with suppress(DoesNotFit):
            return next(iter(self._kept.rows("select * from judging", _JUDGING)), None) if self._kept else None

    def counts(self) -> RunCounts:
        """Return how many records there are, and what became of the rollouts.

        Where the kept file holds them, none of its places are read for that.
        """
        if self._kept and not self._is_written and self._kept.seen == self._ends:
            with suppress(DoesNotFit):
                return self._kept_counts(self._kept)
        return count_records(self.queries, self.rollouts, self.spent)

    def keep(self, judging: tuple[str, str] | None = None) -> None:
        """Put the index of a large run, with the groups added by a `judging`, in the place of the kept file.

        Where nothing can be written, the next process does without. What this process wrote is left to the next one.
        """
        sizes = self._sizes()
        if self._cache is None or self._is_written or not is_worth_keeping(sizes.values()):
            return
        counts = self._packed_counts()
        with suppress(DoesNotFit), cache_errors():
            with replaced_index(self._cache, is_there=self._kept is not None) as part:
                if self._kept:
                    self._refuse_other(part, sizes)
                self._write(part, counts, judging)
            self._written = dict(self._ends)

    def _begin(self, kept: IndexFile | None) -> None:
        """Go on with what a file holds, and nothing else."""
        self._opened.close()
        self._kept = kept
        self._fresh = private_database(TABLES, in_memory=self._in_memory)
        self._opened.callback(self._fresh.close)
        if kept:
            self._opened.callback(kept.close)
        self._paths = dict(kept.paths) if kept else {}
        self._files = {path: number for number, path in self._paths.items()}
        self._ends = dict(kept.seen) if kept else {}
        self.spent: float | None = kept.spent if kept else 0.0

    def _read_news(self) -> None:
        """Read what the kept file does not hold, and keep that. Raises ArchiveDamaged."""
        try:
            has_news = self._scan()
        except ArchiveDamaged:
            if not self.from_cache:
                raise
            self.make_anew()
        except sqlite3.Error:  # there is no room for the temporary file
            if self._in_memory:
                raise
            self._in_memory = True
            self.make_anew()
        else:
            if has_news:
                self.keep()

    def _scan(self) -> bool:
        has_news = False
        for path in self._sizes():
            for located in read_lines(path, self._ends.get(path, 0)):
                has_news = True
                self._note(path.parent.name, located)
                self._ends[path] = located.end
        return has_news

    def _note(self, segment: str, located: LocatedRecord) -> None:
        if located.members["kind"] == SEGMENT_HEAD.kind:
            self._number(located.place.path)
        elif segment == "queries":
            self._put_first(_PUT_QUERY, self.queries, read_record(located, QUERY_NAME).id, located.place)
        elif segment == "rollouts":
            mark = read_record(located, ROLLOUT_MARK)
            failure = mark.failure.kind if mark.failure else None
            values = mark.status, failure, mark.started_at.isoformat(), mark.price_usd
            self._put(_PUT_ROLLOUT, mark.query, mark.index, *self._at(located.place), *values)
        else:
            verdict = read_record(located, VERDICT_MARK)
            if verdict.status == "ok":
                self._put_first(_PUT_VERDICT, self.verdicts, verdict.key, located.place)
            if verdict.usage.requests and not verdict.source:  # else paid for in another run
                self.spent = sum_if_known((self.spent, verdict.price_usd))

    def _add(self, statement: str, places: "_Places", name: str, place: RecordPlace) -> None:
        try:
            self._put_first(statement, places, name, place)
            self._is_written = True
        except sqlite3.Error:  # there is no room for the temporary file
            self._in_memory = True
            self.make_anew()

    def _put_first(self, statement: str, places: "_Places", name: str, place: RecordPlace) -> None:
        """Note the place of a record, unless one of that name is known."""
        if self._kept is None or name not in places:
            self._put(statement, name, *self._at(place))

    def _put(self, statement: str, *values: object) -> None:
        self._fresh.execute(statement.format("", f"values ({', '.join('?' * len(values))})"), values)

    def _at(self, place: RecordPlace) -> tuple[int, int]:
        path, offset = place
        self._ends[path] = max(self._ends.get(path, 0), offset + 1)
        return self._number(path), offset

    def _number(self, path: Path) -> int:
        """Return the number of a file in the rows."""
        if path not in self._files:
            self._files[path] = number = max(self._paths, default=0) + 1
            self._paths[number] = path
        return self._files[path]

    def _sizes(self) -> dict[Path, int]:
        return {path: size for name in self._segments for path, size in files_in(self._folder / name).items()}

    def _refuse_other(self, part: Path, sizes: Mapping[Path, int]) -> None:
        """Raise DoesNotFit where another process has put its own file in the place of the kept one."""
        copy = IndexFile(part, sizes)
        copy.close()
        if self._kept is None or copy.seen not in (self._kept.seen, self._written):
            raise DoesNotFit("another process's index")

    def _write(self, part: Path, counts: str, judging: tuple[str, str] | None) -> None:
        """Add what was read since to a file that holds what the kept one does. Raises sqlite3.Error."""
        base = self._fresh
        files = [(n, file_name(path), *FileEnds.of(path, self._ends[path])) for n, path in self._paths.items()]
        base.execute("attach ? as kept", (str(part),))
        try:
            base.execute("pragma kept.journal_mode=off")
            base.execute("begin")
            base.executemany("insert or replace into kept.files values (?, ?, ?, ?, ?)", files)
            for statement, columns in _COPIED:
                base.execute(statement.format("kept.", columns))
            if base.execute("select * from kept.judging").fetchall() != [judging]:
                base.execute("delete from kept.cached_groups")
            base.execute("delete from kept.judging")
            base.executemany("insert into kept.judging values (?, ?)", [judging] if judging else [])
            base.execute(_PUT_GROUP.format("kept.", "select query, crc, data from main.cached_groups"))
            base.execute("delete from kept.sums")
            base.execute(f"insert into kept.sums {TOTALS.format('kept.')}, ?, ?", (self.spent, counts))
            base.execute("commit")
        finally:
            if base.in_transaction:
                base.execute("rollback")
            base.execute("detach kept")

    def _packed_counts(self) -> str:
        of = count_records(self.queries, self.rollouts, self.spent)
        first = of.first and (self._number(of.first.path), of.first.offset)
        return json.dumps(
            [of.queries, of.rollouts, of.failed, sorted(of.kinds), of.fewest, of.cancelled, of.usd, first]
        )

    def _kept_counts(self, kept: IndexFile) -> RunCounts:
        """Return the counts that a file holds. Raises DoesNotFit."""
        with cache_errors():
            queries, rollouts, failed, kinds, fewest, cancelled, usd, first = _COUNTS.validate_json(kept.counts)
        if failed > rollouts:
            raise DoesNotFit("no counts")
        place = first and kept.place(*first)
        return RunCounts(queries, rollouts, failed, frozenset(kinds), fewest, cancelled, usd, place)


class _Places(Mapping[str, RecordPlace]):
    """Where the records of one kind begin, by their names."""

    _find: str
    """The query for the place of a name."""
    _count: str

    def __init__(self, index: Index) -> None:
        self._index = index

    def __getitem__(self, name: str) -> RecordPlace:
        if (place := self._index.ask(lambda: self._place(name))) is None:
            raise KeyError(name)
        return place

    def __len__(self) -> int:
        return sum(count for (count,) in self._index.ask(lambda: self._index.rows(self._count, _NUMBER)))

    def _place(self, name: str) -> RecordPlace | None:
        rows = self._index.rows(self._find, _PLACE, name)
        return self._index.place(*rows[0]) if rows else None


class QueryPlaces(_Places):
    """Where the records of queries begin, by their ids, in the order in which they came."""

    _find = "select file, offset from queries where id = ?"
    _count = "select count(*) from queries"

    def __iter__(self) -> Iterator[str]:
        rows = self._index.ask(lambda: self._index.rows("select id from queries order by at", _NAME))
        return (name for (name,) in rows)


class VerdictPlaces(_Places):
    """Where the records of verdicts that came out begin, by their keys, in the order of these."""

    _find = "select file, offset from verdicts where key = ?"
    _count = "select count(*) from verdicts"

    def __iter__(self) -> Iterator[str]:
        """Yield the keys; a large run's do not fit into memory."""
        last = ""
        while page := self._keys_after(last):
            for (last,) in page:
                yield last

    def _keys_after(self, last: str) -> list[tuple[str]]:
        question = "select key from verdicts where key > ? order by key limit ?"
        return sorted(self._index.ask(lambda: self._index.rows(question, _NAME, last, _PAGE)))[:_PAGE]


class RolloutPlaces(Mapping[str, Mapping[int, RolloutPlace]]):
    """Of each query where the records of its rollouts begin, by their indices; the newest record of each."""

    def __init__(self, index: Index) -> None:
        self._index = index

    def __getitem__(self, query: str) -> dict[int, RolloutPlace]:
        if not (places := self._index.ask(lambda: self._places(query))):
            raise KeyError(query)
        return places

    def __iter__(self) -> Iterator[str]:
        question = "select query from rollouts group by query order by min(at)"
        rows = self._index.ask(lambda: self._index.rows(question, _NAME))
        return iter(dict.fromkeys(name for (name,) in rows))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _places(self, query: str) -> dict[int, RolloutPlace]:
        index = self._index
        question = "select number, file, offset, status, failure, started, price from rollouts where query = ?"
        places = dict[int, RolloutPlace]()
        for number, file, offset, status, failure, started, price in index.rows(question, _ROLLOUT, query):
            with cache_errors():
                began = datetime.fromisoformat(started)
            places[number] = RolloutPlace(index.place(file, offset), status, failure, began, price)
        return dict(sorted(places.items()))
