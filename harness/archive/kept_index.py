"""The index of a large run as a file in the user's cache folder: written whole, and read as far as it fits the run."""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from datetime import datetime
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from harness.archive.index import Index
from harness.archive.index_file import FileEnds, IndexFile, name_of, new_index_file
from harness.archive.lines import RecordPlace
from harness.archive.packed_places import RolloutPlace
from harness.archive.run_counts import RolloutSums, RunCounts
from harness.archive.verdict_index import DoesNotFit, VerdictIndex
from harness.core.records import BUILT_LATER

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
