"""Files of results, read: header, a line a result, a footer when complete. Rankings and comparisons are such files."""

import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, overload

from harness.archive.lines import RecordFiles, RecordPlace, read_lines
from harness.archive.run_files import files_in
from harness.archive.typed_records import RecordType, read_at_place, read_record


class _Dated(Protocol):
    @property
    def created_at(self) -> datetime: ...


class _Mark(Protocol):
    @property
    def query(self) -> str: ...
    @property
    def is_open(self) -> bool: ...


T = TypeVar("T")
Lean = TypeVar("Lean")
Head = TypeVar("Head")
DatedHead = TypeVar("DatedHead", bound=_Dated)
Mark = TypeVar("Mark", bound=_Mark)


class ResultsOnDisk(Sequence[T]):
    """The results of a file, one a query, each read when it is asked for: a large run's do not fit into memory."""

    def __init__(
        self,
        places: Sequence[RecordPlace],
        queries: Sequence[str],
        record_type: RecordType[T],
        through: Callable[[T], T] | None = None,
    ) -> None:
        """Read from `places`, where the lines of `queries` begin; each result is changed by `through`."""
        self.places, self.queries, self._record_type, self._through = places, queries, record_type, through
        self._files = RecordFiles()
        weakref.finalize(self, self._files.close)

    def read_as(self, record_type: RecordType[Lean]) -> "ResultsOnDisk[Lean] | None":
        """Return what another type reads of the same lines; None where results are changed when they are read."""
        return None if self._through else ResultsOnDisk(self.places, self.queries, record_type)

    def passed_through(self, change: Callable[[T], T]) -> "ResultsOnDisk[T]":
        """Return the same results, each changed when it is read."""
        return ResultsOnDisk(self.places, self.queries, self._record_type, change)

    def __len__(self) -> int:
        """How many results there are."""
        return len(self.places)

    @overload
    def __getitem__(self, at: int) -> T: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[T, ...]: ...
    def __getitem__(self, at: int | slice) -> T | tuple[T, ...]:
        """Return one result, or several."""
        if isinstance(at, slice):
            return tuple(self._read(place) for place in self.places[at])
        return self._read(self.places[at])

    def __iter__(self) -> Iterator[T]:
        """Yield the results in the order written."""
        return (self._read(place) for place in self.places)

    def __eq__(self, other: object) -> bool:
        """Whether `other` is a sequence of the same results."""
        return isinstance(other, Sequence) and tuple(self) == tuple(other)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]

    __hash__ = None  # pyright: ignore[reportAssignmentType] - as a list's

    def _read(self, place: RecordPlace) -> T:
        result = read_at_place(self._files, place, self._record_type)
        return self._through(result) if self._through else result


@dataclass(frozen=True)
class ResultType(Generic[Head, Mark, T]):
    """The lines of a file of results. `mark` is what a line says of its query, and whether something of it is open."""

    head: RecordType[Head]
    line: RecordType[T]
    mark: RecordType[Mark]
    footer: RecordType[Any]


@dataclass(frozen=True)
class ResultFile(Generic[Head, Mark, T]):
    """A file of results: its header, the results, what each says of itself, and whether its footer is there."""

    head: Head
    results: ResultsOnDisk[T]
    marks: Sequence[Mark]
    footer: Any = None
    """The record of its last line; None where the file is not complete."""

    @property
    def finished(self) -> bool:
        """Whether its footer is there."""
        return self.footer is not None

    @property
    def incomplete(self) -> int:
        """How many of the results are open."""
        return sum(mark.is_open for mark in self.marks)


def read_results(path: Path, lines: ResultType[Head, Mark, T]) -> ResultFile[Head, Mark, T] | None:
    """Return the results in a file, or None for one without a header: torn before that was whole, or repaired.

    Of several lines of one query the last counts.
    """
    head: Head | None = None
    places: dict[str, RecordPlace] = {}
    marks: dict[str, Mark] = {}
    footer: Any = None
    for located in read_lines(path):
        kind = located.members["kind"]
        if kind == lines.head.kind:
            head = read_record(located, lines.head)
        elif kind == lines.line.kind:
            mark = read_record(located, lines.mark)
            places[mark.query] = located.place
            marks[mark.query] = mark
        else:
            footer = read_record(located, lines.footer)
    results = ResultsOnDisk(list(places.values()), list(places), lines.line)
    return None if head is None else ResultFile(head, results, list(marks.values()), footer)


def heads_in(folder: Path, head_type: RecordType[DatedHead]) -> list[tuple[DatedHead, Path]]:
    """Return the header of each file of results in a folder, the oldest first."""
    heads = [(head, path) for path in files_in(folder) if (head := _head_of(path, head_type))]
    return sorted(heads, key=lambda pair: pair[0].created_at)


def _head_of(path: Path, head_type: RecordType[Head]) -> Head | None:
    first = next(read_lines(path), None)
    return read_record(first, head_type) if first and first.members["kind"] == head_type.kind else None
