"""The Parquet files of an export, a file a table and part of the split, written some thousand rows at a time."""

from collections import defaultdict
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from types import TracebackType
from typing import Any, Self

from harness.core.errors import UsageError
from harness.formats.training.candidates import RankedGroup
from harness.formats.training.parquet_rows import PARQUET_TABLES, parquet_rows
from harness.pipeline.exporting.files import ExportFiles

_ROWS_AT_ONCE = 2000


def check_pyarrow() -> None:
    """Raise UsageError, naming what to install, where pyarrow is missing."""
    if find_spec("pyarrow") is None:
        raise UsageError("writing Parquet needs pyarrow: pip install 'arena-harness[parquet]'")


class ParquetFiles:
    """Use it as a context manager, within that of the files that it writes to."""

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

    def __enter__(self) -> Self:
        """Return the files themselves."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Let pyarrow go of files that are not finished: they are removed."""
        for file in self._tables.values():
            file.drop()


class _TableFile:
    """A file that is being written; pyarrow takes it for an open file."""

    def __init__(self, files: ExportFiles, name: str, table: str) -> None:
        arrow: Any = import_module("pyarrow")
        self._files, self._name, self._table = files, name, table
        self._waiting: list[Mapping[str, Any]] = []
        columns = PARQUET_TABLES[table]
        self._from_rows = arrow.RecordBatch.from_pylist
        self._schema = arrow.schema([(column, arrow.type_for_alias(kind)) for column, kind in columns.items()])
        self.rows, self._at, self._dropped, self.closed = 0, 0, False, False
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

    # What pyarrow asks of a file

    def write(self, data: Any) -> int:
        if not self._dropped:
            self._files.write_bytes(self._name, bytes(data))
        self._at += len(data)
        return len(data)

    def tell(self) -> int:
        return self._at

    def flush(self) -> None:
        """Do nothing: the files of an export are flushed when they get their names."""

    def close(self) -> None:
        self.closed = True

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False
