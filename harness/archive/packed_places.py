"""Where records stand, packed: a large run has some ten thousand queries, and objects for all would fill the memory."""

import struct
from array import array
from collections.abc import Iterator, Mapping, MutableMapping
from datetime import datetime
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from harness.archive.lines import RecordPlace

T = TypeVar("T")
_ROLLOUT = struct.Struct("<qIqII?dB")
"""Index, file, offset, status, kind, whether the price is told, the price, bytes of the time that follows."""


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
    """Of each query where the records of its rollouts begin, by their indices; the newest record of each."""

    def __init__(self) -> None:
        """No rollout is known yet."""
        self._packed: dict[str, bytes] = {}
        self._files = Numbered[Path]()
        self._words = Numbered[str | None]()
        """Statuses and kinds of failures."""

    def note(self, query: str, index: int, at: RolloutPlace) -> None:
        """Note where a rollout's record begins; a later note of the same rollout counts."""
        started, words = at.started.encode(), self._words
        fixed = _ROLLOUT.pack(
            *(index, self._files.number(at.place.path), at.place.offset, words.number(at.status)),
            *(words.number(at.kind), at.price is not None, at.price or 0.0, len(started)),
        )
        self._packed[query] = self._packed.get(query, b"") + fixed + started

    def __getitem__(self, query: str) -> dict[int, RolloutPlace]:
        """Return the rollouts of a query, by index. Raises KeyError."""
        return dict(self._unpacked(self._packed[query]))

    def __iter__(self) -> Iterator[str]:
        """Yield the ids of the queries that have rollouts."""
        return iter(self._packed)

    def __len__(self) -> int:
        """How many queries have rollouts."""
        return len(self._packed)

    def _unpacked(self, packed: bytes) -> Iterator[tuple[int, RolloutPlace]]:
        at, files, words = 0, self._files.values, self._words.values
        while at < len(packed):
            index, file, offset, status, kind, is_priced, price, length = _ROLLOUT.unpack_from(packed, at)
            at += _ROLLOUT.size + length
            started, place = packed[at - length : at].decode(), RecordPlace(files[file], offset)
            yield index, RolloutPlace(place, words[status] or "", words[kind], started, price if is_priced else None)
