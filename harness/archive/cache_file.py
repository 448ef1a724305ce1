"""A SQLite file in the user's cache folder, read as if a stranger had written it, and written anew as a whole.

Whatever does not fit (other tables, rows of other types, questions without end) raises DoesNotFit: whoever asked makes
the file anew.
"""

import os
import sqlite3
import tempfile
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from harness.archive.verdict_index import DoesNotFit

_LONGEST_VALUE = 1_000_000
_STEPS = 10_000
"""After so many steps of SQLite's the bound on a question is looked at."""
_MISFITS = (sqlite3.Error, sqlite3.Warning, ValidationError, OSError, ValueError, OverflowError, MemoryError)
Row = TypeVar("Row")


class CacheFile:
    """A cache on disk, open for reading."""

    def __init__(self, path: Path, tables: str, most_rows: int) -> None:
        """Open a file that must have just these `tables`, as SQL makes them. Raises DoesNotFit."""
        self._most_rows = most_rows
        self._steps_left = 0
        with cache_errors():
            address = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
            self._base = sqlite3.connect(address, uri=True, check_same_thread=False)
        try:
            self._guard(tables)
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
        with cache_errors(), closing(self._base.execute(question, values)) as answer:
            yield (row.validate_python(each, strict=True) for each in self._bounded(answer))

    def one(self, question: str, row: TypeAdapter[Row], *values: object) -> Row | None:
        """Return the first row of an answer, or None. Raises DoesNotFit."""
        with self.rows(question, row, *values) as rows:
            return next(rows, None)

    def _bounded(self, answer: Iterable[Row]) -> Iterator[Row]:
        for number, each in enumerate(answer):
            if number > self._most_rows:
                raise DoesNotFit("more rows than records")
            yield each

    def _guard(self, tables: str) -> None:
        """Bound what the file can make SQLite do, and look at its tables before anything is read from one."""
        self._base.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
        self._base.set_progress_handler(self._is_endless, _STEPS)
        with cache_errors():
            for pragma in ("trusted_schema=off", "query_only=on", "cell_size_check=on", "mmap_size=0"):
                self._base.execute(f"pragma {pragma}")
            self._steps_left = 20
            schema = "select type, name, tbl_name, sql from sqlite_master order by name"
            with closing(sqlite3.connect(":memory:")) as model:
                model.executescript(tables)
                expected = model.execute(schema).fetchall()
            if self._base.execute(schema).fetchmany(len(expected) + 1) != expected:
                raise DoesNotFit("other tables")

    def _is_endless(self) -> bool:
        self._steps_left -= 1
        return self._steps_left < 0


@contextmanager
def new_cache_file(path: Path, tables: str) -> Generator[sqlite3.Connection]:
    """Put the `tables` that the block fills in the place of `path` when the block ends well; else nothing changes.

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
            base.executescript(tables)
            yield base
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def cache_errors() -> Generator[None]:
    """Turn whatever goes wrong with a cache into DoesNotFit."""
    try:
        yield
    except _MISFITS as exc:
        raise DoesNotFit(str(exc)) from exc
