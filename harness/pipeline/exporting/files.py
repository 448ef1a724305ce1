"""The files of an export: under temporary names until all of them are whole, and renamed then, the card last."""

import fcntl
import hashlib
import os
import re
import secrets
from collections import defaultdict
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from io import RawIOBase
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from harness.core.errors import CannotWrite, UsageError, on_a_line
from harness.formats.training.candidates import RankedGroup
from harness.formats.training.card import PARQUET_TABLES, ExportedFile, parquet_rows

CARD = "README.md"


class ExportFiles:
    """Files of lines in one folder. Use it as a context manager: without `commit` nothing of it is left."""

    def __init__(self, folder: Path, *, force: bool) -> None:
        """Make the folder. Raises UsageError for one that holds anything, unless `force`; CannotWrite."""
        self._folder = folder
        self._parts: dict[str, _PartFile] = {}
        self._mark = secrets.token_hex(4)
        with _writing(folder):
            self._made = not folder.exists()
            folder.mkdir(parents=True, exist_ok=True)
            taken = [path for path in folder.iterdir() if not _remove_leftover(path)]
        if taken and not force:
            raise UsageError(f"{on_a_line(folder)} is there already and holds files; --force writes over them")

    def write(self, name: str, text: str) -> int:
        """Add a text of one line, with its line break, to a file, and return the number of the line from 1."""
        self.write_bytes(name, text.encode())
        self._parts[name].lines += 1
        return self._parts[name].lines

    def write_bytes(self, name: str, data: bytes) -> None:
        """Add bytes to a file, which are no line. Raises CannotWrite."""
        with _writing(self._folder / name):
            if name not in self._parts:
                self._parts[name] = _PartFile(self._folder / f".{name}.{self._mark}.part")
            self._parts[name].write(data)

    def is_table(self, name: str, table: str, rows: int) -> None:
        """Say which table a file is that was written as bytes, and how many rows it holds."""
        self._parts[name].table, self._parts[name].lines = table, rows

    def written(self, name: str, split: str, *, heading: bool = False) -> ExportedFile:
        """Return what a file holds so far; a heading is no line of data."""
        part = self._parts[name]
        return ExportedFile(name, split, part.lines - heading, part.sha256.hexdigest(), part.table)

    def lines(self, name: str) -> Iterator[str]:
        """Yield the lines of a file as they stand there now."""
        with _writing(self._folder / name):
            self._parts[name].file.flush()
        with self._parts[name].path.open(encoding="utf-8") as file:
            yield from file

    def join(self, names: Sequence[str], name: str) -> None:
        """Make one file of those of several that are there; they are none of the export's afterwards."""
        for each in (each for each in names if each in self._parts):
            for line in self.lines(each):
                self.write(name, line)
            self._parts.pop(each).drop()

    def commit(self, card: str) -> None:
        """Give all files their names, the card last. Raises CannotWrite."""
        self.write(CARD, card)
        with _writing(self._folder):
            for part in self._parts.values():
                part.settle()
            for name in sorted(self._parts, key=lambda name: name == CARD):
                self._parts[name].path.replace(self._folder / name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Remove what was not committed, and the folder if it was made here and is empty."""
        for part in self._parts.values():
            part.drop()
        if self._made and not any(self._folder.iterdir()):
            self._folder.rmdir()


class _PartFile:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.file: IO[bytes] = path.open("xb")
        with suppress(OSError):  # some file systems have no locks
            fcntl.flock(self.file, _MINE)
        self.lines = 0
        self.table = "default"
        self.sha256 = hashlib.sha256()

    def write(self, data: bytes) -> None:
        self.file.write(data)
        self.sha256.update(data)

    def settle(self) -> None:
        self.file.flush()
        os.fsync(self.file.fileno())

    def drop(self) -> None:
        with suppress(OSError):  # it writes what it still holds, and a full disk takes nothing
            self.file.close()
        self.path.unlink(missing_ok=True)


_MINE = fcntl.LOCK_EX | fcntl.LOCK_NB
_PART = re.compile(r"\..+\.[0-9a-f]{8}\.part")


def _remove_leftover(path: Path) -> bool:
    """Remove a part that an export left which was killed; return whether it was one, and nobody writes it."""
    if not _PART.fullmatch(path.name) or path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        try:
            fcntl.flock(file, _MINE)
        except OSError:
            return False
        path.unlink()
    return True


@contextmanager
def _writing(path: Path) -> Generator[None]:
    """Raise CannotWrite for what the disk says, or for a name that no file can have."""
    try:
        yield
    except (OSError, ValueError) as exc:  # ValueError: a NUL in the name
        raise CannotWrite(f"cannot write {on_a_line(path)}: {getattr(exc, 'strerror', None) or exc}") from None


_ROWS_AT_ONCE = 2000


class ParquetFiles:
    """The tables of an export; close them before the files that they are written to."""

    def __init__(self, files: ExportFiles) -> None:
        self._files = files
        self._tables: dict[str, _TableFile] = {}

    def write(self, group: RankedGroup, split: str) -> Mapping[str, int]:
        """Add the rows of a group; return how many rows each file of its part holds now."""
        rows: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
        for table, row in parquet_rows(group):
            rows[table].append(row)
        names = {f"{split}-{table}.parquet": table for table in PARQUET_TABLES}
        for name, table in names.items():
            if name not in self._tables:
                self._tables[name] = _TableFile(self._files, name, table)
            self._tables[name].add(rows[table])
        return {name: self._tables[name].rows for name in names}

    def finish(self) -> None:
        """Write what is not written yet, and the end of each file."""
        for file in self._tables.values():
            file.finish()

    def close(self) -> None:
        """Let pyarrow go of files that are not finished: they are removed."""
        for file in self._tables.values():
            file.drop()


class _TableFile(RawIOBase):
    """A file that is being written; pyarrow takes it for an open file."""

    def __init__(self, files: ExportFiles, name: str, table: str) -> None:
        arrow: Any = import_module("pyarrow")
        self._files, self._name, self._table = files, name, table
        self._waiting: list[Mapping[str, Any]] = []
        columns = PARQUET_TABLES[table]
        self._from_rows = arrow.RecordBatch.from_pylist
        self._schema = arrow.schema([(column, arrow.type_for_alias(kind)) for column, kind in columns.items()])
        self.rows, self._at, self._dropped = 0, 0, False
        self._writer = import_module("pyarrow.parquet").ParquetWriter(self, self._schema, compression="zstd")

    def add(self, rows: list[Mapping[str, Any]]) -> None:
        self.rows += len(rows)
        self._waiting += rows
        if len(self._waiting) >= _ROWS_AT_ONCE:
            self._write_waiting()

    def _write_waiting(self) -> None:
        self._writer.write_batch(self._from_rows(self._waiting, schema=self._schema))
        self._waiting.clear()

    def finish(self) -> None:
        if self._waiting:
            self._write_waiting()
        self._writer.close()
        self._files.is_table(self._name, self._table, self.rows)

    def drop(self) -> None:
        """Let nothing more be written: pyarrow ends a file that it lets go of."""
        self._dropped = True
        if self._writer.is_open:
            self._writer.close()

    def write(self, data: Any) -> int:
        if not self._dropped:
            self._files.write_bytes(self._name, bytes(data))
        self._at += len(data)
        return len(data)

    def tell(self) -> int:
        return self._at

    def writable(self) -> bool:
        return True
