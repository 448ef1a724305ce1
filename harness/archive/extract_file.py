"""Extracts of a run's groups, kept in the user's cache folder: to rank the run anew, nobody need read it again.

They are never more than a cache. They hold for the very files that they were made of, by size, times and inode, and for
one way of judging; each has a checksum over its query's name, too. What does not fit is passed over, and made anew.
"""

import json
import sqlite3
import zlib
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Annotated, Self

from pydantic import Field, TypeAdapter

from harness.archive.cache_file import CacheFile, cache_errors, new_cache_file
from harness.archive.extracts import Extracts
from harness.archive.verdict_index import DoesNotFit
from harness.core.extracts import GroupExtract, RolloutExtract, VerdictExtract
from harness.core.records import BUILT_LATER, Role

Stamps = dict[str, tuple[int, ...]]
"""Of each file of records, by FOLDER/NAME, what changes when the file does."""
_TABLES = """
create table head(version integer, way text, files text);
create table extracts(at integer primary key, query text unique, crc integer, data text);
"""
_INSERT = "insert or replace into extracts(query, crc, data) values (?, ?, ?)"
_VERSION = 2
"""Of the extracts' form."""
_MOST_ROWS = 100_000_000
_CANNOT = (sqlite3.Error, OSError, OverflowError, ValueError, DoesNotFit)

_Whole = Annotated[int, Field(ge=0)]
_Number = Annotated[float, Field(allow_inf_nan=False)]
_Names = tuple[str, ...]
_Known = _Number | None
_Text = str | None
_Rollout = tuple[
    _Whole, Role, str, _Text, str, _Known, _Whole, int | None, _Known, _Number, _Number, _Names, _Names, _Text, bool
]
_Verdict = tuple[_Whole, _Whole, _Whole, str, str, _Number, _Number, bool, bool, bool, _Text, _Number, _Number]
"""As `RolloutExtract` and `VerdictExtract`: plain tuples are checked in a third of the time."""
_DATA = TypeAdapter(
    tuple[str, dict[str, int | _Number | str], str, list[_Rollout], list[list[_Verdict]]], config=BUILT_LATER
)
_HEAD = TypeAdapter(tuple[int, str, str], config=BUILT_LATER)
_COPY = TypeAdapter(tuple[str, int, str], config=BUILT_LATER)


class KeptExtracts(Extracts):
    """The extracts of a run by one way of judging: those kept from before, and those made now, kept at the end.

    Nothing that is wrong with the cache is an error: it is done without.
    """

    def __init__(self, cache: Path, way: str, stamps: Stamps) -> None:
        """Take the cache's file, the name of the way of judging, and the run's files now."""
        self._cache: Path | None = cache
        self._way, self._stamps = way, stamps
        self._old: CacheFile | None = None
        self._new: sqlite3.Connection | None = None
        self._writing = ExitStack()

    def __enter__(self) -> Self:
        """Open what was kept, if it fits."""
        with suppress(DoesNotFit):
            self._old = self._fitting()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Keep what was made, unless an error ended the block."""
        with suppress(*_CANNOT):
            self._writing.__exit__(kind, error, trace)
        self._close_old()

    def several(self, queries: Sequence[str]) -> list[GroupExtract | None]:
        """Return for each query what was kept of its group, or None. All are None where one does not fit."""
        if self._old is None:
            return [None] * len(queries)
        places = ", ".join("?" * len(queries))
        question = f"select query, crc, data from extracts where query in ({places})"  # noqa: S608 - question marks alone
        try:
            with self._old.rows(question, _COPY, *queries) as rows:
                kept = {row[0]: _decoded(*row) for row in rows}
        except DoesNotFit:
            self._close_old()
            kept = dict[str, GroupExtract]()
        return [kept.get(query) for query in queries]

    def add(self, extract: GroupExtract) -> None:
        """Keep an extract; of two of one query the later counts."""
        if self._cache is None:
            return
        try:
            data = _encoded(extract)
            self._begun(self._cache).execute(_INSERT, (extract.query, _checksum(extract.query, data), data))
        except _CANNOT as exc:
            self._cache = None
            with suppress(*_CANNOT):
                self._writing.__exit__(type(exc), exc, exc.__traceback__)

    def _fitting(self) -> CacheFile | None:
        """Return the file that was kept, or None. Raises DoesNotFit for one of another way or of other files."""
        if self._cache is None or not self._cache.is_file():
            return None
        file = CacheFile(self._cache, _TABLES, _MOST_ROWS)
        if file.one("select version, way, files from head", _HEAD) != self._head():
            file.close()
            raise DoesNotFit("made of other files, or in another way")
        return file

    def _head(self) -> tuple[int, str, str]:
        return _VERSION, self._way, json.dumps(self._stamps, sort_keys=True)

    def _begun(self, cache: Path) -> sqlite3.Connection:
        """Return the new file, with all that was kept in the old one."""
        if self._new is None:
            self._new = self._writing.enter_context(new_cache_file(cache, _TABLES))
            self._new.execute("insert into head values (?, ?, ?)", self._head())
            if self._old:
                with suppress(DoesNotFit), self._old.rows("select query, crc, data from extracts", _COPY) as rows:
                    self._new.executemany(_INSERT, rows)
        return self._new

    def _close_old(self) -> None:
        if self._old:
            self._old.close()
        self._old = None


def _encoded(extract: GroupExtract) -> str:
    of = extract
    return json.dumps([of.title, dict(of.metadata), of.basis, of.rollouts, [*of.verdicts.values()]])


def _checksum(query: str, data: str) -> int:
    return zlib.crc32(f"{query}\0{data}".encode())


def _decoded(query: str, crc: int, data: str) -> GroupExtract:
    """Return an extract that was kept. Raises DoesNotFit for what is none."""
    with cache_errors():
        if _checksum(query, data) != crc:
            raise DoesNotFit("an extract was changed, or is another query's")
        title, metadata, basis, rollouts, verdicts = _DATA.validate_json(data, strict=True)
    return GroupExtract(
        query=query,
        title=title,
        metadata=metadata,
        basis=basis,
        rollouts=tuple(map(RolloutExtract._make, rollouts)),
        verdicts={of_order[0][:3]: tuple(map(VerdictExtract._make, of_order)) for of_order in verdicts if of_order},
    )
