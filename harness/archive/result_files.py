"""Files of results, read: header, a line a result, a footer when complete; rankings and comparisons."""

import json
import weakref
from array import array
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar, overload

from harness.archive import lines, typed_records
from harness.archive.record_faults import MOST
from harness.archive.run_files import files_in
from harness.core.judge_profile import JudgeProfile
from harness.core.rankings import GroupRanking
from harness.core.records import Query, Record, to_json
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
        """Name the file, made before the first verdict is asked for. `settle` puts the texts that it names on disk."""
        self._path, self._head, self._results, self._redact = path, redact.record(head), 0, redact
        self._settle = settle
        self._appender: lines.Appender | None = None
        self._is_worth_keeping = False

    def begin(self) -> lines.Appender:
        """Write the header, unless it is written, and return the file, which stays."""
        self._is_worth_keeping = True
        return self.announce()

    def announce(self) -> lines.Appender:
        """Write the header, unless it is written: a kill from now on leaves a trace of what was begun."""
        with lines.disk_errors(self._path.parents[1]):
            if self._appender is None:
                self._appender = lines.Appender(self._path)
                self._appender.append("header", to_json(self._head))
        return self._appender

    def add(self, result: LineT) -> None:
        """Write one result, after the texts that it names."""
        self._settle()
        with lines.disk_errors(self._path.parents[1]):  # it counts with the footer, and costs nothing
            _, body = self._redact.record_and_json(result)
            self.begin().append(self.kind, body, sync=False)
        self._results += self._counts(result)

    def finish(self) -> None:
        """Write the footer: the file is complete and will never change."""
        with lines.disk_errors(self._path.parents[1]):
            self.begin().append("footer", json.dumps({self.counted: self._results} | self._also()))

    def close(self) -> None:
        """Close the file; without a footer it stays as the record of work that was cut short.

        One in which nothing came but its announcement is removed.
        """
        if self._appender:
            self._appender.close()
            if not self._is_worth_keeping:
                with suppress(OSError):
                    self._path.unlink()

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
        record_type: typed_records.RecordType[T],
        through: Callable[[T], T] | None = None,
    ) -> None:
        """Read from `offsets` of a file, where the lines of `queries` begin; each result is changed by `through`."""
        self.queries, self._record_type, self._through = queries, record_type, through
        self._path, self._offsets = path, offsets
        self._files = lines.RecordFiles()
        weakref.finalize(self, self._files.close)

    def place(self, at: int) -> lines.RecordPlace:
        """Return where a result stands."""
        return lines.RecordPlace(self._path, self._offsets[at])

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

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]

    __hash__ = None  # pyright: ignore[reportAssignmentType] - as a list's

    def _read(self, offset: int) -> T:
        result = typed_records.read_at_place(self._files, lines.RecordPlace(self._path, offset), self._record_type)
        return self._through(result) if self._through else result


@dataclass(frozen=True)
class ResultType(Generic[Head, Mark, Brief, T]):
    """The lines of a file of results. `mark` is what a line says of its query, of which `brief` is kept."""

    head: typed_records.RecordType[Head]
    line: typed_records.RecordType[T]
    mark: typed_records.RecordType[Mark]
    brief: Callable[[Mark], Brief]
    footer: typed_records.RecordType[Any]


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


def read_results(path: Path, types: ResultType[Head, Mark, Brief, T]) -> ResultFile[Head, Brief, T] | None:
    """Return the results in a file, of each query the last; None without a header: torn before, or repaired."""
    head: Head | None = None
    rows: dict[str, int] = {}
    offsets, briefs = array("q"), list[Brief]()
    footer: Any = None
    for raw, place in lines.whole_lines(path):
        line = raw.data
        lines.check_sum(line, place)
        kind = types.line.kind if lines.begins_as_written(line, types.line.kind) else lines.decode(line, place)["kind"]
        if kind == types.head.kind:
            head = typed_records.read_line(line, place, types.head)
        elif kind == types.line.kind:
            mark = typed_records.read_line(line, place, types.mark)
            if (row := rows.setdefault(mark.query, len(rows))) == len(briefs):
                offsets.append(place.offset)
                briefs.append(types.brief(mark))
            else:
                offsets[row], briefs[row] = place.offset, types.brief(mark)
        else:
            footer = typed_records.read_line(line, place, types.footer)
    results = ResultsOnDisk(path, offsets, list(rows), types.line)
    return None if head is None else ResultFile(head, results, briefs, rows, footer)


def heads_in(folder: Path, head_type: typed_records.RecordType[DatedHead]) -> list[tuple[DatedHead, Path]]:
    """Return the header of each file of results in a folder, the oldest first."""
    firsts = ((next(lines.read_lines(path), None), path) for path in files_in(folder))
    heads = [
        (typed_records.read_record(at, head_type), path)
        for at, path in firsts
        if at and at.members["kind"] == head_type.kind
    ]
    return sorted(heads, key=lambda pair: pair[0].created_at)


_Change = Callable[[GroupRanking], GroupRanking]
_OPEN, _PROVISIONAL, _IN_BYTES = 1, 2, 4
"""Flags of a group. In bytes: an index and twice a rank have a byte each, as in nearly all groups."""


@dataclass(frozen=True)
class RankingFile:
    """One ranking of a run: its header, its groups in the order ranked, whether its footer is there."""

    head: typed_records.RankingHead
    groups: Sequence[GroupRanking]
    finished: bool
    path: Path | None = None
    """Its file, whatever its header says of itself; None for one that was not read from a file."""
    incomplete: int = 0
    """How many of the groups are not ranked in full; 0 too for one that was not read from a file."""
    provisional: Collection[str] = ()
    """The queries whose groups were ranked before all were in, and not since (`GroupRanking.provisional`)."""
    profiles: Sequence[JudgeProfile] = ()
    """What its footer says that it has taught of its judges."""
    ranks: Sequence[bytes] = field(default=(), repr=False, compare=False)
    """The ranks in the groups of a file, in their order: packed, as there are many."""
    rows: Mapping[str, int] | None = field(default=None, repr=False, compare=False)
    """Of each query of a file where its group stands among these."""

    def of(self, query: Query | str) -> GroupRanking | None:
        """Return the ranking of the group of a query, or of the query with that id; or None."""
        at = self._places.get(query if isinstance(query, str) else query.id)
        return None if at is None else self.groups[at]

    def stored(self, query: str) -> GroupRanking:
        """Return the ranking of the group of a query that is one of `queries`. Raises KeyError for another."""
        return self.groups[self._places[query]]

    def line_of(self, query: str) -> int | None:
        """Return the number, from 1, of the line that holds the ranking of a query's group; None without a file."""
        groups = self.groups
        return lines.line_number(*groups.place(self._places[query])) if isinstance(groups, ResultsOnDisk) else None

    def ranks_in(self, query: str) -> dict[int, float]:
        """Return the ranks of the rollouts of a query that have one; of groups on disk nothing is read for it."""
        if not isinstance(self.groups, ResultsOnDisk):
            group = self.of(query)
            return {r.index: r.rank for r in group.rollouts if r.rank is not None} if group else {}
        if (at := self._places.get(query)) is None:
            return {}
        flags, packed = self.ranks[at][0], self.ranks[at][1:]
        if flags & _IN_BYTES:
            return {index: half / 2 for index, half in zip(packed[::2], packed[1::2], strict=True)}
        numbers = array("d", packed)
        return {int(index): rank for index, rank in zip(numbers[::2], numbers[1::2], strict=True)}

    def passed_through(self, change: _Change) -> "RankingFile":
        """Return the same ranking with each group changed; one on disk is changed when it is read."""
        groups = self.groups
        changed = groups.passed_through(change) if isinstance(groups, ResultsOnDisk) else tuple(map(change, groups))
        return replace(self, groups=changed)

    @cached_property
    def queries(self) -> Sequence[str]:
        """The ids of the queries of its groups, in their order."""
        groups = self.groups
        return groups.queries if isinstance(groups, ResultsOnDisk) else [group.query for group in groups]

    @cached_property
    def _places(self) -> Mapping[str, int]:
        if self.rows is not None and isinstance(self.groups, ResultsOnDisk):
            return self.rows
        return {name: at for at, name in enumerate(self.queries)}


def read_ranking(path: Path) -> RankingFile | None:
    """Return the ranking in a file, or None for one without a header: torn before that was whole, or repaired."""
    file = read_results(path, _RANKING)
    if file is None:
        return None
    incomplete = sum(brief[0] & _OPEN for brief in file.briefs)
    provisional = frozenset(query for query, at in file.rows.items() if file.briefs[at][0] & _PROVISIONAL)
    profiles: Sequence[JudgeProfile] = file.footer.profiles if file.finished else ()
    of_file = file.head, file.results, file.finished, path
    return RankingFile(*of_file, incomplete, provisional, profiles, file.briefs, file.rows)


def _brief(mark: typed_records.RankedQuery) -> bytes:
    """Pack a byte of flags, and the index and the rank of each rollout that has one."""
    flags = _OPEN * mark.is_open | _PROVISIONAL * mark.provisional
    ranks = [(index, rank) for index, rank in mark.ranks if abs(index) <= MOST]
    halves = [number for index, rank in ranks for number in (index, 2 * rank)]
    if all(0 <= number < 256 and number == int(number) for number in halves):
        return bytes([flags | _IN_BYTES, *map(int, halves)])
    return bytes([flags]) + array("d", chain.from_iterable(ranks)).tobytes()


_RANKING = ResultType(
    typed_records.RANKING_HEAD, typed_records.RANKED_GROUP, typed_records.RANKED_QUERY, _brief, typed_records.FOOTER
)
