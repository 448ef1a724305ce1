"""Files of results, read: header, a line a result, a footer when complete. Rankings and comparisons are such files."""

import json
import weakref
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar, overload

from harness.archive.lines import (
    Appender,
    RecordFiles,
    RecordPlace,
    begins_as_written,
    check_sum,
    decode,
    disk_errors,
    read_lines,
    whole_lines,
)
from harness.archive.run_files import files_in
from harness.archive.typed_records import RecordType, read_at_place, read_line, read_record
from harness.core.records import Record, to_json
from harness.core.redaction import DEFAULT_REDACTOR, Redactor

HeadT = TypeVar("HeadT", bound=Record)
LineT = TypeVar("LineT", bound=Record)


class ResultWriter(Generic[HeadT, LineT]):
    """One file of results: header, a line a result as it comes, footer when complete."""

    kind: ClassVar[str]
    """Of the lines of results."""
    counted: ClassVar[str]
    """What the footer calls the number of results."""

    def __init__(
        self, path: Path, head: HeadT, redact: Redactor = DEFAULT_REDACTOR, settle: Callable[[], None] = lambda: None
    ) -> None:
        """Name the file, made with the first verdict or result. `settle` puts the texts that it names on disk."""
        self._path, self._head, self._results, self._redact = path, redact.record(head), 0, redact
        self._settle = settle
        self._appender: Appender | None = None

    def begin(self) -> Appender:
        """Write the header, unless it is written, and return the file."""
        with disk_errors(self._path.parents[1]):
            if self._appender is None:
                self._appender = Appender(self._path)
                self._appender.append("header", to_json(self._head))
        return self._appender

    def add(self, result: LineT) -> None:
        """Write one result, after the texts that it names."""
        self._settle()
        with disk_errors(self._path.parents[1]):  # it counts with the footer, and costs nothing
            _, body = self._redact.record_and_json(result)
            self.begin().append(self.kind, body, sync=False)
        self._results += self._counts(result)

    def finish(self) -> None:
        """Write the footer: the file is complete and will never change."""
        with disk_errors(self._path.parents[1]):
            self.begin().append("footer", json.dumps({self.counted: self._results} | self._also()))

    def close(self) -> None:
        """Close the file; without a footer it stays as the record of work that was cut short."""
        if self._appender:
            self._appender.close()

    def _also(self) -> dict[str, Any]:
        return {}

    def _counts(self, result: LineT) -> bool:
        del result
        return True


class _Dated(Protocol):
    @property
    def created_at(self) -> datetime: ...


class _Mark(Protocol):
    @property
    def query(self) -> str: ...


T = TypeVar("T")
Brief = TypeVar("Brief")
Head = TypeVar("Head")
DatedHead = TypeVar("DatedHead", bound=_Dated)
Mark = TypeVar("Mark", bound=_Mark)


class ResultsOnDisk(Sequence[T]):
    """The results of a file, one a query, each read when it is asked for: a large run's do not fit into memory."""

    def __init__(
        self,
        path: Path,
        offsets: Sequence[int],
        queries: Sequence[str],
        record_type: RecordType[T],
        through: Callable[[T], T] | None = None,
    ) -> None:
        """Read from `offsets` of a file, where the lines of `queries` begin; each result is changed by `through`."""
        self.queries, self._record_type, self._through = queries, record_type, through
        self._path, self._offsets = path, offsets
        self._files = RecordFiles()
        weakref.finalize(self, self._files.close)

    def place(self, at: int) -> RecordPlace:
        """Return where a result stands."""
        return RecordPlace(self._path, self._offsets[at])

    def passed_through(self, change: Callable[[T], T]) -> "ResultsOnDisk[T]":
        """Return the same results, each changed when it is read."""
        return ResultsOnDisk(self._path, self._offsets, self.queries, self._record_type, change)

    def __len__(self) -> int:
        return len(self._offsets)

    @overload
    def __getitem__(self, at: int) -> T: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[T, ...]: ...
    def __getitem__(self, at: int | slice) -> T | tuple[T, ...]:
        if isinstance(at, slice):
            return tuple(map(self._read, self._offsets[at]))
        return self._read(self._offsets[at])

    def __iter__(self) -> Iterator[T]:
        return map(self._read, self._offsets)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]

    __hash__ = None  # pyright: ignore[reportAssignmentType] - as a list's

    def _read(self, offset: int) -> T:
        result = read_at_place(self._files, RecordPlace(self._path, offset), self._record_type)
        return self._through(result) if self._through else result


@dataclass(frozen=True)
class ResultType(Generic[Head, Mark, Brief, T]):
    """The lines of a file of results. `mark` is what a line says of its query, of which `brief` is kept."""

    head: RecordType[Head]
    line: RecordType[T]
    mark: RecordType[Mark]
    brief: Callable[[Mark], Brief]
    footer: RecordType[Any]


@dataclass(frozen=True)
class ResultFile(Generic[Head, Brief, T]):
    """A file of results: its header, the results, what each says of itself in brief, its footer if that is there."""

    head: Head
    results: ResultsOnDisk[T]
    briefs: Sequence[Brief]
    """In the order of the results."""
    rows: Mapping[str, int]
    """Where the result of each query stands in that order."""
    footer: Any = None
    """The record of its last line; None where the file is not complete."""

    @property
    def finished(self) -> bool:
        """Whether its footer is there."""
        return self.footer is not None


def read_results(path: Path, lines: ResultType[Head, Mark, Brief, T]) -> ResultFile[Head, Brief, T] | None:
    """Return the results in a file, of each query the last; None without a header: torn before, or repaired."""
    head: Head | None = None
    rows: dict[str, int] = {}
    offsets, briefs = array("q"), list[Brief]()
    footer: Any = None
    for raw, place in whole_lines(path):
        line = raw.data
        check_sum(line, place)
        kind = lines.line.kind if begins_as_written(line, lines.line.kind) else decode(line, place)["kind"]
        if kind == lines.head.kind:
            head = read_line(line, place, lines.head)
        elif kind == lines.line.kind:
            mark = read_line(line, place, lines.mark)
            if (row := rows.setdefault(mark.query, len(rows))) == len(briefs):
                offsets.append(place.offset)
                briefs.append(lines.brief(mark))
            else:
                offsets[row], briefs[row] = place.offset, lines.brief(mark)
        else:
            footer = read_line(line, place, lines.footer)
    results = ResultsOnDisk(path, offsets, list(rows), lines.line)
    return None if head is None else ResultFile(head, results, briefs, rows, footer)


def heads_in(folder: Path, head_type: RecordType[DatedHead]) -> list[tuple[DatedHead, Path]]:
    """Return the header of each file of results in a folder, the oldest first."""
    firsts = ((next(read_lines(path), None), path) for path in files_in(folder))
    heads = [(read_record(at, head_type), path) for at, path in firsts if at and at.members["kind"] == head_type.kind]
    return sorted(heads, key=lambda pair: pair[0].created_at)
