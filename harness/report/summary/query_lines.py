"""Lines of queries, packed: a large run has some ten thousand, and objects for all would fill the memory."""

import marshal
from collections.abc import Sequence
from dataclasses import fields
from operator import attrgetter
from typing import overload

from harness.report.summary.group import QueryLine

_VALUES = attrgetter(*(field.name for field in fields(QueryLine)))


class QueryLines(Sequence[QueryLine]):
    """The lines of a ranking's queries, each unpacked when it is asked for: in 300 bytes, where objects take 1,000."""

    def __init__(self) -> None:
        """No line is in it yet."""
        self._packed: list[bytes] = []

    def append(self, line: QueryLine) -> None:
        """Add the next line."""
        self._packed.append(marshal.dumps(_VALUES(line)))

    def __len__(self) -> int:
        """How many lines there are."""
        return len(self._packed)

    @overload
    def __getitem__(self, at: int) -> QueryLine: ...
    @overload
    def __getitem__(self, at: slice) -> list[QueryLine]: ...
    def __getitem__(self, at: int | slice) -> QueryLine | list[QueryLine]:
        """Return one line, or several."""
        return [_unpacked(line) for line in self._packed[at]] if isinstance(at, slice) else _unpacked(self._packed[at])

    def __eq__(self, other: object) -> bool:
        """Whether `other` holds the same lines."""
        return isinstance(other, QueryLines) and list(self) == list(other)

    __hash__ = None  # pyright: ignore[reportAssignmentType] - as a list's


def _unpacked(packed: bytes) -> QueryLine:
    return QueryLine(*marshal.loads(packed))  # noqa: S302 - of this very process
