"""What rankings and summaries take of a large run's groups, kept in its index: to rank it anew, no text is read.

It holds for the very files that it was made of, and for one judging. What does not fit is passed over, and made anew.
"""

import json
import zlib
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Self

from pydantic import Field, TypeAdapter

from harness.archive.index import Index
from harness.archive.index_file import Count, DoesNotFit, cache_errors
from harness.core.group_cache import CachedGroup, CachedRollout, CachedVerdict
from harness.core.records import BUILT_LATER, Role

Stamps = dict[str, tuple[int, ...]]
"""Of each file of records, by FOLDER/NAME, what changes when the file does."""
_VERSION = 4
"""Of the form of the groups."""
_Real = Annotated[float, Field(allow_inf_nan=False)]
_Names = tuple[str, ...]
_Known = _Real | None
_Text = str | None
_Rollout = tuple[
    Count, Role, str, _Text, str, _Known, Count, int | None, _Known, _Real, _Real, _Names, _Names, _Text, bool, _Known
]
_Verdict = tuple[Count, Count, Count, str, str, _Real, _Real, bool, bool, bool, _Text, _Real, _Real]
"""As `CachedRollout` and `CachedVerdict`: plain tuples are checked in a third of the time."""
_DATA = TypeAdapter(
    tuple[str, dict[str, int | _Real | str], str, list[_Rollout], list[list[_Verdict]]], config=BUILT_LATER
)
_ROW = TypeAdapter(tuple[str, int, str], config=BUILT_LATER)


class GroupCache:
    """The cached groups of a run by one judging: those kept from before, and those made now, kept when it is left."""

    def __init__(self, index: Index | None = None, fingerprint: str = "", stamps: Stamps | None = None) -> None:
        """Take the run's index (None: nothing is cached), the judging's fingerprint, and the run's files now."""
        self._index = index
        self._judging = fingerprint, json.dumps([_VERSION, stamps], sort_keys=True)
        self._is_kept = index is not None and index.judging() == self._judging
        self._has_news = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        """Keep what was made, unless an error ended the block."""
        if self._index and self._has_news and error is None:
            self._index.keep(self._judging)

    def of(self, query: str) -> CachedGroup | None:
        """Return what was kept of a query's group, or None."""
        return self.several([query])[0]

    def several(self, queries: Sequence[str]) -> list[CachedGroup | None]:
        """Return for each query what was kept of its group, or None; many at once take two thirds of the time."""
        if self._index is None or not self._is_kept:
            return [None] * len(queries)
        places = ", ".join("?" * len(queries))
        question = f"select query, crc, data from cached_groups where query in ({places})"  # noqa: S608 - question marks alone
        try:
            kept = {row[0]: _decoded(*row) for row in self._index.rows(question, _ROW, *queries)}
        except DoesNotFit:
            self._is_kept, kept = False, dict[str, CachedGroup]()
        return [kept.get(query) for query in queries]

    def add(self, group: CachedGroup) -> None:
        """Cache a group; of two of one query the later counts."""
        if self._index is None:
            return
        with suppress(DoesNotFit):
            rest = group.basis, group.rollouts, [*group.verdicts.values()]
            data = json.dumps([group.title, dict(group.metadata), *rest])
            self._index.add_group(group.query, _checksum(group.query, data), data)
            self._has_news = True


def _checksum(query: str, data: str) -> int:
    return zlib.crc32(f"{query}\0{data}".encode())


def _decoded(query: str, crc: int, data: str) -> CachedGroup:
    """Return a group that was kept. Raises DoesNotFit for what is none."""
    with cache_errors():
        if _checksum(query, data) != crc:
            raise DoesNotFit("a group was changed, or is another query's")
        title, metadata, basis, rollouts, verdicts = _DATA.validate_json(data, strict=True)
    return CachedGroup(
        query=query,
        title=title,
        metadata=metadata,
        basis=basis,
        rollouts=tuple(map(CachedRollout._make, rollouts)),
        verdicts={of_order[0][:3]: tuple(map(CachedVerdict._make, of_order)) for of_order in verdicts if of_order},
    )
