"""Where records stand, packed: a large run has some ten thousand queries, and objects for all would fill the memory."""

import math
from array import array
from collections.abc import Iterator, Mapping, MutableMapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from harness.archive.lines import RecordPlace

T = TypeVar("T")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class RolloutPlace(NamedTuple):
    """Where a rollout's record begins, and what must be known of it without reading it."""

    place: RecordPlace
    status: str
    kind: str | None
    """What it failed of."""
    started: str
    price: float | None

    @property
    def started_at(self) -> datetime:
        """When it began."""
        return datetime.fromisoformat(self.started)


class _Alike(NamedTuple):
    """What many rollouts have in common."""

    number: int
    path: Path
    status: str
    kind: str | None


class Numbered(Generic[T]):
    """Values that come again and again, each with a number."""

    def __init__(self) -> None:
        """No value has a number yet."""
        self.values: list[T] = []
        self._numbers: dict[T, int] = {}

    def number(self, value: T) -> int:
        """Return the value's number: its place in `values`."""
        number = self._numbers.setdefault(value, len(self.values))
        if number == len(self.values):
            self.values.append(value)
        return number


class QueryPlaces(MutableMapping[str, RecordPlace]):
    """Where the records of queries begin, by their ids, in the order in which they came."""

    def __init__(self) -> None:
        """No query is known yet."""
        self._rows: dict[str, int] = {}
        self._files = Numbered[Path]()
        self._file, self._offset = array("I"), array("q")

    def __getitem__(self, query: str) -> RecordPlace:
        """Return where a query's record begins. Raises KeyError."""
        row = self._rows[query]
        return RecordPlace(self._files.values[self._file[row]], self._offset[row])

    def __setitem__(self, query: str, place: RecordPlace) -> None:
        """Note where a query's record begins."""
        self._rows[query] = len(self._offset)
        self._file.append(self._files.number(place.path))
        self._offset.append(place.offset)

    def __delitem__(self, query: str) -> None:
        """Forget a query. Raises KeyError."""
        del self._rows[query]

    def __iter__(self) -> Iterator[str]:
        """Yield the ids."""
        return iter(self._rows)

    def __len__(self) -> int:
        """How many queries there are."""
        return len(self._rows)

    def __contains__(self, query: object) -> bool:
        """Whether a query is known."""
        return query in self._rows


class RolloutPlaces(Mapping[str, Mapping[int, RolloutPlace]]):
    """Of each query where the records of its rollouts begin, by their indices; the newest record of each.

    It takes 32 bytes for each rollout, and some 100 for each query.
    """

    def __init__(self) -> None:
        """No rollout is known yet."""
        self._newest: dict[str, int] = {}
        """Of each query the row that was noted last."""
        self._alike = Numbered[_Alike]()
        self._alike_of, self._offset, self._price = array("I"), array("q"), array("d")
        self._started, self._times = array("q"), Numbered[str]()
        """Microseconds since 1970 in UTC; below 0, the number of a time that is written otherwise, from -1 down."""
        self._before = array("q")
        """The row of the same query that was noted before; -1 for the first."""

    def note(self, query: str, index: int, at: RolloutPlace) -> None:
        """Note where a rollout's record begins; a later note of the same rollout counts."""
        self._before.append(self._newest.get(query, -1))
        self._newest[query] = len(self._offset)
        self._alike_of.append(self._alike.number(_Alike(index, at.place.path, at.status, at.kind)))
        self._offset.append(at.place.offset)
        self._price.append(math.nan if at.price is None else at.price)
        self._started.append(self._number_of_time(at.started))

    def __getitem__(self, query: str) -> dict[int, RolloutPlace]:
        """Return the rollouts of a query, by index. Raises KeyError."""
        rows, row = list[int](), self._newest[query]
        while row >= 0:
            rows.append(row)
            row = self._before[row]
        return dict(map(self._unpacked, reversed(rows)))

    def __iter__(self) -> Iterator[str]:
        """Yield the ids of the queries that have rollouts."""
        return iter(self._newest)

    def __len__(self) -> int:
        """How many queries have rollouts."""
        return len(self._newest)

    def __contains__(self, query: object) -> bool:
        """Whether a query has rollouts."""
        return query in self._newest

    def _unpacked(self, row: int) -> tuple[int, RolloutPlace]:
        number, path, status, kind = self._alike.values[self._alike_of[row]]
        price = self._price[row]
        place = RecordPlace(path, self._offset[row])
        return number, RolloutPlace(place, status, kind, self._time(row), None if math.isnan(price) else price)

    def _number_of_time(self, started: str) -> int:
        at = datetime.fromisoformat(started)
        if at.tzinfo is UTC and at >= _EPOCH and at.isoformat() == started:
            return (at - _EPOCH) // _MICROSECOND
        return -1 - self._times.number(started)

    def _time(self, row: int) -> str:
        number = self._started[row]
        return self._times.values[-1 - number] if number < 0 else (_EPOCH + number * _MICROSECOND).isoformat()
