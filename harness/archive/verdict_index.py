"""Where verdicts are, by key. There are a dozen to a rollout, so those of a large run stay in its cache on disk."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple


class RecordPlace(NamedTuple):
    """Where a record begins."""

    path: Path
    offset: int


class VerdictIndex:
    """Looks keys up in the cache, and keeps in memory what is not there."""

    def __init__(self, cache: Path | None = None, again: Callable[[], dict[str, RecordPlace]] | None = None) -> None:
        """Look in the table `verdicts` of `cache`, whose paths are relative to its folder.

        `again` finds the places anew should the cache turn out to be unreadable. Raises sqlite3.Error.
        """
        self._fresh: dict[str, RecordPlace] = {}
        self._folder, self._again = cache.parent if cache else Path(), again
        self._base: sqlite3.Connection | None = None
        if cache:
            self._base = sqlite3.connect(f"file:{cache}?mode=ro", uri=True, timeout=1, check_same_thread=False)

    def close(self) -> None:
        """Close the cache; what was looked up there is no longer known."""
        if self._base:
            self._base.close()
        self._base = None

    def get(self, key: str) -> RecordPlace | None:
        """Return where the verdict of a key is, or None."""
        return self._fresh.get(key) or self._kept(key)

    def setdefault(self, key: str, place: RecordPlace) -> None:
        """Note where a verdict is, unless one of that key is known."""
        if self.get(key) is None:
            self._fresh[key] = place

    def items(self) -> Iterator[tuple[str, RecordPlace]]:
        """Yield keys and places, the oldest first."""
        for key, path, offset in self._ask("select key, path, offset from verdicts order by at"):
            yield key, RecordPlace(self._folder / path, offset)
        yield from self._fresh.items()

    def __len__(self) -> int:
        """How many verdicts are known."""
        kept = sum(int(number) for (number,) in self._ask("select count(*) from verdicts"))
        return kept + len(self._fresh)

    def __contains__(self, key: str) -> bool:
        """Whether a verdict of that key is known."""
        return self.get(key) is not None

    def __eq__(self, other: object) -> bool:
        """Whether `other` knows the same places."""
        return isinstance(other, VerdictIndex) and dict(self.items()) == dict(other.items())

    __hash__ = None  # pyright: ignore[reportAssignmentType] - as a dict's

    def _kept(self, key: str) -> RecordPlace | None:
        if self._base is None:
            return None
        try:
            row = self._base.execute("select path, offset from verdicts where key = ?", (key,)).fetchone()
        except sqlite3.Error:
            self._give_up()
            return self._fresh.get(key)
        return RecordPlace(self._folder / row[0], row[1]) if row else None

    def _ask(self, question: str) -> Iterator[tuple[Any, ...]]:
        """Yield what the cache says; nothing where it cannot be read."""
        try:
            if self._base:
                with closing(self._base.execute(question)) as rows:
                    yield from rows
        except sqlite3.Error:
            self._give_up()

    def _give_up(self) -> None:
        """Do without the cache, which is no more than that: all it held is in memory from now on."""
        self.close()
        self._fresh = (self._again() if self._again else {}) | self._fresh
