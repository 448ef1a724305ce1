"""Queries, packed: a large run has some ten thousand, and objects for all would stay in memory as long as it takes."""

import marshal
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import overload

from harness.core.records import Query

_VALUES = attrgetter(*Query.model_fields)


class PackedQueries(Sequence[Query]):
    """Queries of a file, each unpacked when it is asked for: of 40 characters in 130 bytes, where an object takes 800.

    Their items and metadata are what JSON gave: lists, dicts, texts and numbers.
    """

    def __init__(self, queries: Iterable[Query]) -> None:
        """Pack the queries as they come."""
        self._packed = [marshal.dumps(_VALUES(query)) for query in queries]

    def __len__(self) -> int:
        """How many queries there are."""
        return len(self._packed)

    @overload
    def __getitem__(self, at: int) -> Query: ...
    @overload
    def __getitem__(self, at: slice) -> list[Query]: ...
    def __getitem__(self, at: int | slice) -> Query | list[Query]:
        """Return one query, or several."""
        if isinstance(at, slice):
            return list(map(_unpacked, self._packed[at]))
        return _unpacked(self._packed[at])


def _unpacked(packed: bytes) -> Query:
    values = marshal.loads(packed)  # noqa: S302 - of this very process
    return Query.model_construct(**dict(zip(Query.model_fields, values, strict=True)))
