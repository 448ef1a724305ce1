"""Lines of queries, packed: a large run has some ten thousand, and objects for all would fill the memory."""

from collections.abc import Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any

from harness.core.packed import Packed
from harness.report.summary.group import QueryLine

_VALUES = attrgetter(*(field.name for field in fields(QueryLine)))


class QueryLines(Packed[QueryLine]):
    """The lines of a ranking's queries, each unpacked when it is asked for: in 300 bytes, where objects take 1,000."""

    def __init__(self) -> None:
        """No line is in it yet."""
        super().__init__(_VALUES, _line)

    def __eq__(self, other: object) -> bool:
        """Whether `other` holds the same lines."""
        return isinstance(other, QueryLines) and list(self) == list(other)

    __hash__ = None  # pyright: ignore[reportAssignmentType] - as a list's


def _line(values: Sequence[Any]) -> QueryLine:
    return QueryLine(*values)
