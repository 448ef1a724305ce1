"""The index of a run or a comparison: where every record stands, and what must be known of it without reading it.

It is in SQLite: in memory while it is small, else in a temporary file. That of a large run is also kept in the user's
caches (`index_file`): segments only grow, so the next process reads what is new. One that does not fit is made anew.
"""

import json
import sqlite3
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import TypeAdapter

from harness.archive import index_file
from harness.archive.lines import LocatedRecord, RecordPlace, read_lines
from harness.archive.run_files import files_in
from harness.archive.typed_records import QUERY_NAME, ROLLOUT_MARK, SEGMENT_HEAD, VERDICT_MARK, read_record
from harness.core.cost import Cost, cost
from harness.core.errors import ArchiveDamaged
from harness.core.records import BUILT_LATER

INDEXED = ("queries", "rollouts", "verdicts")
"""The folders of a run whose records are found by the index."""
T = TypeVar("T")
_PAGE = 1000
_PLACE = TypeAdapter(tuple[int, int], config=BUILT_LATER)
_NAME = TypeAdapter(tuple[str], config=BUILT_LATER)
_NUMBER = TypeAdapter(tuple[index_file.Count], config=BUILT_LATER)
_ROLLOUT = TypeAdapter(
    tuple[index_file.Count, int, int, Literal["ok", "failed"], str | None, str, index_file.Money, index_file.Money],
    config=BUILT_LATER,
)
_COUNTED = tuple[
    index_file.Count,
    index_file.Count,
    index_file.Count,
    list[str],
    index_file.Count,
    bool,
    index_file.Money,
    index_file.Money,
    tuple[int, int] | None,
]
_COUNTS = TypeAdapter(_COUNTED, config=BUILT_LATER)
_PUT_QUERY = "insert or ignore into {}queries(id, file, offset) {}"
_COLUMNS = "query, number, file, offset, status, failure, started, price, part"
_PUT_ROLLOUT = f"""
insert into {{}}rollouts({_COLUMNS}) {{}} on conflict(query, number)
do update set file = excluded.file, offset = excluded.offset, status = excluded.status, failure = excluded.failure,
              started = excluded.started, price = excluded.price, part = excluded.part
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
    """The places of a folder's records. `spent` is what the verdicts cost."""

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
        kept: index_file.IndexFile | None = None
        try:
            if cache and cache.is_file():
                with suppress(index_file.DoesNotFit):
                    kept = index_file.IndexFile(cache, self._sizes())
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
        except index_file.DoesNotFit:
            self.make_anew()
            return answer()

    def rows(
        self, question: str, row: TypeAdapter[index_file.RowOfIndex], *values: object
    ) -> list[index_file.RowOfIndex]:
        """Return the rows of the kept file, and then those of what was read since. Raises DoesNotFit."""
        try:
            fresh = self._fresh.execute(question, values).fetchall()
        except UnicodeEncodeError:  # no name in a run has a lone surrogate
            return []
        except sqlite3.Error as exc:  # there is no room for the temporary file
            self._in_memory = True
            raise index_file.DoesNotFit(str(exc)) from exc
        return [*self._kept.rows(question, row, *values), *fresh] if self._kept else fresh

    def place(self, file: int, offset: int) -> RecordPlace:
        """Return the place that a row names. Raises DoesNotFit for one outside of what was read."""
        path = self._paths.get(file)
        if path is None or not 0 <= offset < self._ends[path]:
            raise index_file.DoesNotFit(f"no place in the run's files: file {file} at byte {offset}")
        return RecordPlace(path, offset)

    def add(self, places: "Places", name: str, place: RecordPlace) -> None:
        """Note among `places` a record that this process has written; the first of a name counts."""
        try:
            self._put_first(places, name, place)
            self._is_written = True
        except sqlite3.Error:  # there is no room for the temporary file
            self._in_memory = True
            self.make_anew()

    def add_group(self, query: str, crc: int, data: str) -> None:
        """Note what is cached of a group; the last of a query counts. Raises DoesNotFit."""
        with index_file.cache_errors():
            self._fresh.execute(_PUT_GROUP.format("", "values (?, ?, ?)"), (query, crc, data))

    def judging(self) -> tuple[str, str] | None:
        """Return the judging and the stamps of files that the kept groups are of; None where none are kept."""
        with suppress(index_file.DoesNotFit):
            return next(iter(self._kept.rows("select * from judging", _JUDGING)), None) if self._kept else None

    def counts(self) -> index_file.RunCounts:
        """Return how many records there are, and what became of the rollouts; by the kept file where it has it."""
        if self._kept and not self._is_written and self._kept.seen == self._ends:
            with suppress(index_file.DoesNotFit), index_file.cache_errors():
                counts = _COUNTS.validate_json(self._kept.counts)
                queries, rollouts, failed, kinds, fewest, cancelled, usd, part, first = counts
                if failed <= rollouts:
                    place = first and self.place(*first)
                    spent = cost(usd, part)
                    return index_file.RunCounts(
                        queries, rollouts, failed, frozenset(kinds), fewest, cancelled, spent, place
                    )
        return index_file.count_records(self.queries, self.rollouts, self.spent)

    def keep(self, judging: tuple[str, str] | None = None) -> None:
        """Put the index of a large run, with the groups added by a `judging`, in the place of the kept file."""
        sizes = self._sizes()
        if self._cache is None or self._is_written or not index_file.is_worth_keeping(sizes.values()):
            return
        of = index_file.count_records(self.queries, self.rollouts, self.spent)
        first = of.first and (self._number(of.first.path), of.first.offset)
        prices = of.cost.usd, of.cost.at_least
        counted = of.queries, of.rollouts, of.failed, sorted(of.kinds), of.fewest, of.cancelled, *prices, first
        with suppress(index_file.DoesNotFit), index_file.cache_errors():
            with index_file.replaced_index(self._cache, is_there=self._kept is not None) as part:
                if self._kept:
                    copy = index_file.IndexFile(part, sizes)
                    copy.close()
                    if copy.seen not in (self._kept.seen, self._written):
                        raise index_file.DoesNotFit("another process has put its own file in the place of the kept one")
                self._write(part, json.dumps(counted), judging)
            self._written = dict(self._ends)

    def _begin(self, kept: index_file.IndexFile | None) -> None:
        """Go on with what a file holds, and nothing else."""
        self._opened.close()
        self._kept = kept
        self._fresh = index_file.private_database(index_file.TABLES, in_memory=self._in_memory)
        self._opened.callback(self._fresh.close)
        if kept:
            self._opened.callback(kept.close)
        self._paths = dict(kept.paths) if kept else {}
        self._files = {path: number for number, path in self._paths.items()}
        self._ends = dict(kept.seen) if kept else {}
        self.spent = kept.spent if kept else Cost()

    def _read_news(self) -> None:
        """Read what the kept file does not hold, and keep that. Raises ArchiveDamaged."""
        has_news = False
        try:
            for path in self._sizes():
                for located in read_lines(path, self._ends.get(path, 0)):
                    has_news = True
                    self._note(path.parent.name, located)
                    self._ends[path] = located.end
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

    def _note(self, segment: str, located: LocatedRecord) -> None:
        if located.members["kind"] == SEGMENT_HEAD:
            self._number(located.place.path)
        elif segment == "queries":
            self._put_first(self.queries, read_record(located, QUERY_NAME).id, located.place)
        elif segment == "rollouts":
            mark = read_record(located, ROLLOUT_MARK)
            failure = mark.failure.kind if mark.failure else None
            values = mark.status, failure, mark.started_at.isoformat(), mark.price_usd, mark.price_usd_at_least
            self._put(_PUT_ROLLOUT, mark.query, mark.index, *self._at(located.place), *values)
        else:
            verdict = read_record(located, VERDICT_MARK)
            if verdict.status == "ok":
                self._put_first(self.verdicts, verdict.key, located.place)
            if verdict.usage.requests and not verdict.source:  # else paid for in another run
                self.spent += cost(verdict.price_usd, verdict.price_usd_at_least)

    def _put_first(self, places: "Places", name: str, place: RecordPlace) -> None:
        """Note the place of a record, unless one of that name is known."""
        if self._kept is None or name not in places:
            self._put(places.put, name, *self._at(place))

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

    def _write(self, part: Path, counts: str, judging: tuple[str, str] | None) -> None:
        """Add what was read since to a file that holds what the kept one does. Raises sqlite3.Error."""
        base = self._fresh
        files = [
            (n, index_file.file_name(path), *index_file.FileEnds.of(path, self._ends[path]))
            for n, path in self._paths.items()
        ]
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
            sums = self.spent.usd, self.spent.at_least, counts
            base.execute(f"insert into kept.sums {index_file.TOTALS.format('kept.')}, ?, ?, ?", sums)
            base.execute("commit")
        finally:
            if base.in_transaction:
                base.execute("rollback")
            base.execute("detach kept")


class Places(Mapping[str, RecordPlace]):
    """Where the records of one kind begin, by their names."""

    put: str
    """The statement that notes a place."""
    _find: str
    _count: str

    def __init__(self, index: Index) -> None:
        self._index = index

    def __getitem__(self, name: str) -> RecordPlace:
        index = self._index
        if places := index.ask(lambda: [index.place(*row) for row in index.rows(self._find, _PLACE, name)]):
            return places[0]
        raise KeyError(name)

    def __len__(self) -> int:
        return sum(count for (count,) in self._index.ask(lambda: self._index.rows(self._count, _NUMBER)))


class QueryPlaces(Places):
    """Where the records of queries begin, by their ids, in the order in which they came."""

    put = _PUT_QUERY

    _find = "select file, offset from queries where id = ?"
    _count = "select count(*) from queries"

    def __iter__(self) -> Iterator[str]:
        rows = self._index.ask(lambda: self._index.rows("select id from queries order by at", _NAME))
        return (name for (name,) in rows)


class VerdictPlaces(Places):
    """Where the records of verdicts that came out begin, by their keys, in the order of these."""

    put = _PUT_VERDICT

    _find = "select file, offset from verdicts where key = ?"
    _count = "select count(*) from verdicts"

    def __iter__(self) -> Iterator[str]:
        """Yield the keys; a large run's do not fit into memory."""
        question, last = "select key from verdicts where key > ? order by key limit ?", ""
        while page := self._index.ask(partial(self._index.rows, question, _NAME, last, _PAGE)):
            for (last,) in sorted(page)[:_PAGE]:
                yield last


class RolloutPlaces(Mapping[str, Mapping[int, index_file.RolloutPlace]]):
    """Of each query where the records of its rollouts begin, by their indices; the newest record of each."""

    def __init__(self, index: Index) -> None:
        self._index = index

    def __getitem__(self, query: str) -> dict[int, index_file.RolloutPlace]:
        if not (places := self._index.ask(lambda: self._places(query))):
            raise KeyError(query)
        return places

    def __iter__(self) -> Iterator[str]:
        question = "select query from rollouts group by query order by min(at)"
        rows = self._index.ask(lambda: self._index.rows(question, _NAME))
        return iter(dict.fromkeys(name for (name,) in rows))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _places(self, query: str) -> dict[int, index_file.RolloutPlace]:
        index = self._index
        question = "select number, file, offset, status, failure, started, price, part from rollouts where query = ?"
        places = dict[int, index_file.RolloutPlace]()
        for number, file, offset, status, failure, started, *price in index.rows(question, _ROLLOUT, query):
            with index_file.cache_errors():
                began = datetime.fromisoformat(started)
            places[number] = index_file.RolloutPlace(index.place(file, offset), status, failure, began, cost(*price))
        return dict(sorted(places.items()))
