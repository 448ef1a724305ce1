"""Where verdicts are, by key. There are a dozen to a rollout, so those of a large run stay in its index on disk."""

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from harness.archive.lines import RecordPlace


class DoesNotFit(Exception):
    """What is there is no index of these files."""


class KeptVerdicts(Protocol):
    """The places of verdicts on disk. Each question raises DoesNotFit where the file turns out to be no such index."""

    def verdict(self, key: str) -> RecordPlace | None:
        """Return where the verdict of a key is, or None."""
        ...

    def verdicts(self) -> Iterator[tuple[str, RecordPlace]]:
        """Yield keys and places of all verdicts, the oldest first."""
        ...

    def close(self) -> None:
        """Close the file."""
        ...


class VerdictIndex:
    """Looks keys up in the index on disk, and keeps in memory what is not there."""

    def __init__(
        self, file: KeptVerdicts | None = None, again: Callable[[], Mapping[str, RecordPlace]] | None = None
    ) -> None:
        """Look in `file`. `again` finds the places that are there anew, should the file turn out not to fit."""
        self._fresh: dict[str, RecordPlace] = {}
        self._file, self._again = file, again

    def close(self) -> None:
        """Close the file; what was looked up there is no longer known."""
        if self._file:
            self._file.close()
        self._file = None

    def get(self, key: str) -> RecordPlace | None:
        """Return where the verdict of a key is, or None."""
        return self._fresh.get(key) or self._kept(key)

    def setdefault(self, key: str, place: RecordPlace) -> None:
        """Note where a verdict is, unless one of that key is known."""
        if self.get(key) is None:
            self._fresh[key] = place

    def items(self) -> Iterator[tuple[str, RecordPlace]]:
        """Yield keys and places, the oldest first."""
        yield from self._all_kept().items()
        yield from self._fresh.items()

    def streamed(self) -> Iterator[tuple[str, RecordPlace]]:
        """Yield as `items` does, from the disk: none of it stays in memory.

        Raises DoesNotFit where the file turns out not to fit; asked again, it yields all.
        """
        if self._file:
            try:
                yield from self._file.verdicts()
            except DoesNotFit:
                self._give_up()
                raise
        yield from self._fresh.items()

    @property
    def in_memory(self) -> int:
        """How many verdicts are known that are not in the file."""
        return len(self._fresh)

    def __len__(self) -> int:
        """How many verdicts are known."""
        return len(self._all_kept()) + len(self._fresh)

    def __contains__(self, key: str) -> bool:
        """Whether a verdict of that key is known."""
        return self.get(key) is not None

    def __eq__(self, other: object) -> bool:
        """Whether `other` knows the same places."""
        return isinstance(other, VerdictIndex) and dict(self.items()) == dict(other.items())

    __hash__ = None  # pyright: ignore[reportAssignmentType] - as a dict's

    def _kept(self, key: str) -> RecordPlace | None:
        if self._file is None:
            return None
        try:
            return self._file.verdict(key)
        except DoesNotFit:
            self._give_up()
            return self._fresh.get(key)

    def _all_kept(self) -> dict[str, RecordPlace]:
        if self._file is None:
            return {}
        try:
            return dict(self._file.verdicts())
        except DoesNotFit:
            self._give_up()
            return {}

    def _give_up(self) -> None:
        """Do without the file, which is no more than a cache: all it held is in memory from now on."""
        self.close()
        self._fresh = dict(self._again() if self._again else {}) | self._fresh
