"""The index of a large run, kept in the user's cache folder: segments only grow, so only what came since is read.

It is never more than a cache, and never in the run, which may come from a stranger. It may be deleted at any time; one
that does not fit the run is made anew, and what cannot be read or written is done without.
"""

import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from harness.archive.index import INDEXED, Index, RolloutPlace
from harness.archive.index_file import DoesNotFit, FileEnds, IndexFile, name_of, new_index_file
from harness.archive.lines import RecordPlace
from harness.archive.run_files import files_in
from harness.archive.verdict_index import VerdictIndex
from harness.core.errors import ArchiveDamaged
from harness.core.user_folders import cache_folder

WORTH_KEEPING = 8_000_000
"""Bytes of segments from which on the index is kept: below, a scan takes a tenth of a second."""

_Count = Annotated[int, Field(ge=0)]
_META = TypeAdapter(tuple[_Count, _Count, _Count, float | None, Literal[0, 1]])
_ROLLOUTS = "select query, idx, path, offset, status, kind, started, price from rollouts order by at"
_QUERY = TypeAdapter(tuple[str, str, int])
_ROLLOUT = TypeAdapter(tuple[str, _Count, str, int, Literal["ok", "failed"], str | None, str, float | None])
_LAST = TypeAdapter(tuple[_Count])


def usual_caches() -> Path | None:
    """Return the user's folder of caches; None for a user without a home.

    This reads the process's environment, for whoever opens a run without naming a folder: where a cache is changes
    nothing that a command prints, and every function that opens a run would have to pass the folder on.
    """
    try:
        return cache_folder(os.environ)
    except RuntimeError:
        return None


def build_index(folder: Path, cache: Path | None, *, anew: bool = False) -> tuple[Index, bool]:
    """Return the index of the run in `folder`, and whether any of it comes from the file `cache`, unless made `anew`.

    Raises ArchiveDamaged for a broken line that the cache does not pass over.
    """
    sizes = _sizes(folder)
    cached = None if anew or cache is None else _loaded(cache, sizes)
    index = cached or Index()
    try:
        fresh = _scanned(index, sizes)
    except ArchiveDamaged:
        if cached is None:
            raise
        return build_index(folder, cache, anew=True)
    if cache and fresh and sum(sizes.values()) >= WORTH_KEEPING and _keep(cache, index):
        sizes = _sizes(folder)
        if kept := _loaded(cache, sizes):  # most of which stays on disk
            index.close()
            _scanned(kept, sizes)  # another process may have put its own in place, which knows less
            return kept, cached is not None
    return index, cached is not None


def _sizes(folder: Path) -> dict[Path, int]:
    return {path: size for name in INDEXED for path, size in files_in(folder / name).items()}


def _scanned(index: Index, paths: Iterable[Path]) -> bool:
    """Read what is new; tell whether anything was. The index is closed where reading fails."""
    try:
        return index.scan(paths)
    except BaseException:
        index.close()
        raise


def _loaded(cache: Path, sizes: Mapping[Path, int]) -> Index | None:
    """Return what the cache holds, or None if there is none or it does not fit the files."""
    if not cache.is_file():
        return None
    try:
        file = IndexFile(cache, sizes)
    except DoesNotFit:
        return None
    try:
        return _read(file)
    except DoesNotFit:
        file.close()
        return None


def _read(file: IndexFile) -> Index:
    """Read all but the verdicts. Raises DoesNotFit."""
    index = Index(seen=dict(file.seen))
    if (meta := file.one("select queries, rollouts, verdicts, usd, unknown from meta", _META)) is None:
        raise DoesNotFit("no sums")
    *counts, usd, unknown = meta
    with file.rows("select id, path, offset from queries order by at", _QUERY) as queries:
        index.queries.update((query, file.place(name, offset)) for query, name, offset in queries)
    with file.rows(_ROLLOUTS, _ROLLOUT) as rollouts:
        for query, number, name, offset, status, kind, started, price in rollouts:
            at = RolloutPlace(file.place(name, offset), status, kind, _time(started), _money(price))
            index.rollouts.setdefault(query, {})[number] = at
    last = file.one("select at from verdicts order by at desc limit 1", _LAST) or (0,)
    if counts != [len(index.queries), sum(map(len, index.rollouts.values())), *last]:
        raise DoesNotFit("rows are missing")
    index.spent = None if unknown else _money(usd)
    index.verdicts = VerdictIndex(file, lambda: _verdicts_in(index.seen))
    return index


def _verdicts_in(paths: Iterable[Path]) -> dict[str, RecordPlace]:
    """Return the places of the verdicts in segments, read anew."""
    index = Index()
    index.scan(sorted(path for path in paths if path.parent.name == "verdicts"))
    return dict(index.verdicts.items())


def _keep(cache: Path, index: Index) -> bool:
    """Write the cache anew, and tell whether that could be done: without a place to write, a run is read without."""
    try:
        verdicts = [(key, name_of(p.path), p.offset) for key, p in index.verdicts.items()]
        rollouts = list(_rollout_rows(index))
        sums = (len(index.queries), len(rollouts), len(verdicts), index.spent, index.spent is None)
        with new_index_file(cache) as base:
            base.execute("insert into meta values (?, ?, ?, ?, ?)", sums)
            files = ((name_of(path), *FileEnds.of(path, seen)) for path, seen in index.seen.items())
            base.executemany("insert into files values (?, ?, ?, ?)", files)
            queries = ((name, name_of(p.path), p.offset) for name, p in index.queries.items())
            base.executemany("insert into queries(id, path, offset) values (?, ?, ?)", queries)
            base.executemany(
                "insert into rollouts(query, idx, path, offset, status, kind, started, price) values (?,?,?,?,?,?,?,?)",
                rollouts,
            )
            base.executemany("insert into verdicts(key, path, offset) values (?, ?, ?)", verdicts)
    except (sqlite3.Error, OSError, OverflowError):
        return False
    return True


def _rollout_rows(index: Index) -> Iterator[tuple[Any, ...]]:
    for query, places in index.rollouts.items():
        for number, (place, *rest) in places.items():
            yield (query, number, name_of(place.path), place.offset, *rest)


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
