"""Records, packed: a large run has some ten thousand of a kind, and objects for all would fill the memory."""

import marshal
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar, overload

T = TypeVar("T")


class Packed(Sequence[T]):
    """Records of one kind, each unpacked when it is asked for. Their members are what JSON can hold, or tuples."""

    def __init__(self, values_of: Callable[[T], Any], make: Callable[[Any], T], records: Iterable[T] = ()) -> None:
        """Pack `records` as they come; `make` makes a record of what `values_of` gave of it."""
        self._values_of, self._make = values_of, make
        self._packed = [marshal.dumps(values_of(record)) for record in records]

    def append(self, record: T) -> None:
        """Add the next record."""
        self._packed.append(marshal.dumps(self._values_of(record)))

    def __len__(self) -> int:
        """How many records there are."""
        return len(self._packed)

    @overload
    def __getitem__(self, at: int) -> T: ...
    @overload
    def __getitem__(self, at: slice) -> list[T]: ...
    def __getitem__(self, at: int | slice) -> T | list[T]:
        """Return one record, or several."""
        if isinstance(at, slice):
            return list(map(self._unpacked, self._packed[at]))
        return self._unpacked(self._packed[at])

    def _unpacked(self, packed: bytes) -> T:
        return self._make(marshal.loads(packed))  # noqa: S302 - of this very process
