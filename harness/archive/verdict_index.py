"""Where verdicts are, by key. There are a dozen to a rollout, so those of a large run stay in its index on disk."""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Protocol, TypeVar

from harness.archive.lines import RecordPlace
from harness.archive.packed_names import KeyedPlaces

T = TypeVar("T")


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
        self, file: KeptVerdicts | None = None, again: Callable[[], Iterable[tuple[str, RecordPlace]]] | None = None
    ) -> None:
        """Look in `file`. `again` finds the places that are there anew, should the file turn out not to fit."""
        self._fresh = KeyedPlaces()
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
        if self._file is None or self._kept(key) is None:
            self._fresh.setdefault(key, place)

    def items(self) -> Iterator[tuple[str, RecordPlace]]:
        """Yield keys and places, the oldest first."""
        yield from self.made_of_all(dict[str, RecordPlace]).items()

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

    def made_of_all(self, make: Callable[[Iterator[tuple[str, RecordPlace]]], T]) -> T:
        """Return what `make` makes of keys and places, none of which stays in memory.

        It is called again where the file turns out not to fit.
        """
        try:
            return make(self.streamed())
        except DoesNotFit:
            return make(self.streamed())

    @property
    def in_memory(self) -> int:
        """How many verdicts are known that are not in the file."""
        return len(self._fresh)

    def __len__(self) -> int:
        """How many verdicts are known."""
        return self.made_of_all(lambda places: sum(1 for _ in places))

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

    def _give_up(self) -> None:
        """Do without the file, which is no more than a cache: all it held is in memory from now on."""
        self.close()
        fresh, self._fresh = self._fresh, KeyedPlaces()
        for key, place in chain(self._again() if self._again else (), fresh.items()):
            self._fresh.setdefault(key, place)
