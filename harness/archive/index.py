"""Where everything in a run is: offsets only, so that memory grows by some hundred bytes a rollout, whatever its size.

For a large run the index is kept in `index.sqlite` beside the segments, as a cache: segments only grow, so what came
since is read and the rest is not; verdicts are looked up there. It may be deleted at any time; what cannot be read or
written is done without.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from harness.archive.lines import LocatedRecord, read_lines
from harness.archive.run_files import files_in
from harness.archive.verdict_index import RecordPlace, VerdictIndex
from harness.core.sums import sum_if_known

CACHE = "index.sqlite"
WORTH_KEEPING = 8_000_000
"""Bytes of segments from which on the cache is written: below, a scan takes a tenth of a second."""
_LAYOUT = 2
_TABLES = """
create table meta(layout integer);
create table files(path text primary key, seen integer);
create table queries(at integer primary key, id text, path text, offset integer);
create table rollouts(at integer primary key, query text, idx integer, path text, offset integer, status text,
                      kind text, started text, price real);
create table verdicts(at integer primary key, key text unique, path text, offset integer);
create table spent(usd real, unknown integer);
"""
_SEGMENTS = ("queries", "rollouts", "verdicts")


class RolloutPlace(NamedTuple):
    """Where a rollout's record begins, and what must be known of it without reading it."""

    path: Path
    offset: int
    status: str
    kind: str | None
    """What it failed of."""
    started: str
    price: float | None

    @property
    def started_at(self) -> datetime:
        """When it began."""
        return datetime.fromisoformat(self.started)


@dataclass
class Index:
    """The places of a run's records. `spent` is what the verdicts cost; None if any price is unknown."""

    queries: dict[str, RecordPlace] = field(default_factory=dict[str, RecordPlace])
    rollouts: dict[str, dict[int, RolloutPlace]] = field(default_factory=dict[str, dict[int, RolloutPlace]])
    verdicts: VerdictIndex = field(default_factory=VerdictIndex)
    spent: float | None = 0.0
    seen: dict[Path, int] = field(default_factory=dict[Path, int])
    """How far each file has been read."""

    def close(self) -> None:
        """Close the cache, if the index stands in one."""
        self.verdicts.close()


def build_index(folder: Path) -> Index:
    """Return the index of the run in `folder`. Raises ArchiveDamaged for a broken line in what the cache lacks."""
    sizes = {path: size for name in _SEGMENTS for path, size in files_in(folder / name).items()}
    index = _cached(folder, sizes) or Index()
    fresh = _scan(index, sizes)
    if sum(sizes.values()) >= WORTH_KEEPING and fresh and _keep(folder, index) and (kept := _cached(folder, sizes)):
        index.close()
        _scan(kept, sizes)  # another process may have put its own in place, which knows less
        return kept  # most of which stays on disk
    return index


def _scan(index: Index, paths: Iterable[Path]) -> bool:
    """Read what is new; tell whether anything was. Closes the index where reading fails."""
    fresh = False
    try:
        for path in paths:
            for at in read_lines(path, index.seen.get(path, 0)):
                fresh = True
                index.seen[path] = at.end
                if at.members["kind"] != "header":
                    _note(index, path.parent.name, at)
    except BaseException:
        index.close()
        raise
    return fresh


def _note(index: Index, segment: str, at: LocatedRecord) -> None:
    members, place = at.members, RecordPlace(at.path, at.offset)
    if segment == "queries":
        index.queries.setdefault(members["id"], place)
    elif segment == "rollouts":
        failure: Any = members.get("failure") or {}
        index.rollouts.setdefault(members["query"], {})[members["index"]] = RolloutPlace(
            *place, members["status"], failure.get("kind"), members["started_at"], members.get("price_usd")
        )
    else:
        if members["status"] == "ok":
            index.verdicts.setdefault(members["key"], place)
        if members.get("usage", {}).get("requests") and not members.get("source"):  # else paid for in another run
            index.spent = sum_if_known((index.spent, members.get("price_usd")))


def _cached(folder: Path, sizes: Mapping[Path, int]) -> Index | None:
    """Return what the cache holds, or None if there is none or it does not fit the files."""
    if not (folder / CACHE).is_file():
        return None
    try:
        with closing(sqlite3.connect(f"file:{folder / CACHE}?mode=ro", uri=True, timeout=1)) as base:
            return _loaded(base, folder, sizes)
    except (sqlite3.Error, OSError, ValueError):
        return None


def _loaded(base: sqlite3.Connection, folder: Path, sizes: Mapping[Path, int]) -> Index | None:
    if base.execute("select layout from meta").fetchone() != (_LAYOUT,):
        return None
    paths = {name: folder / name for (name,) in base.execute("select path from files")}
    seen = {paths[name]: int(size) for name, size in base.execute("select path, seen from files")}
    if any(size > sizes.get(path, -1) for path, size in seen.items()):
        return None  # a file became shorter, or went: it was mended
    index = Index(seen=seen)
    for name, path, offset in base.execute("select id, path, offset from queries order by at"):
        index.queries[name] = RecordPlace(paths[path], offset)
    for query, number, path, *rest in base.execute(
        "select query, idx, path, offset, status, kind, started, price from rollouts order by at"
    ):
        index.rollouts.setdefault(query, {})[number] = RolloutPlace(paths[path], *rest)
    usd, unknown = base.execute("select usd, unknown from spent").fetchone()
    index.spent = None if unknown else usd
    index.verdicts = VerdictIndex(
        folder / CACHE, lambda: _verdicts_in(seen)
    )  # last: what fails before leaves no file open
    return index


def _verdicts_in(paths: Iterable[Path]) -> dict[str, RecordPlace]:
    """Return the places of the verdicts in segments, read anew."""
    index = Index()
    _scan(index, sorted(path for path in paths if path.parent.name == "verdicts"))
    return dict(index.verdicts.items())


def _keep(folder: Path, index: Index) -> bool:
    """Write the cache anew under another name, then put it in place: a reader sees the old or the new one.

    Tells whether that could be done: a folder that cannot be written to is read without a cache.
    """
    part = folder / f".{CACHE}"
    try:
        part.unlink(missing_ok=True)
        part.touch(0o600)
        with closing(sqlite3.connect(part)) as base, base:
            base.executescript(_TABLES)
            base.execute("insert into meta values (?)", (_LAYOUT,))
            base.execute("insert into spent values (?, ?)", (index.spent, index.spent is None))
            files = ((_name(p), size) for p, size in index.seen.items())
            base.executemany("insert into files values (?, ?)", files)
            queries = ((name, _name(p.path), p.offset) for name, p in index.queries.items())
            base.executemany("insert into queries(id, path, offset) values (?, ?, ?)", queries)
            base.executemany(
                "insert into rollouts(query, idx, path, offset, status, kind, started, price) values (?,?,?,?,?,?,?,?)",
                _rollout_rows(index),
            )
            verdicts = ((key, _name(p.path), p.offset) for key, p in index.verdicts.items())
            base.executemany("insert into verdicts(key, path, offset) values (?, ?, ?)", verdicts)
        part.replace(folder / CACHE)
    except (sqlite3.Error, OSError):
        return False
    return True


def _rollout_rows(index: Index) -> Iterator[tuple[Any, ...]]:
    for query, places in index.rollouts.items():
        for number, p in places.items():
            yield (query, number, _name(p.path), p.offset, p.status, p.kind, p.started, p.price)


def _name(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"
