"""The runs that are merged: each is compared with the first and with what the others hold, and then copied."""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from harness.archive.merging import at_rest, copy_records
from harness.archive.reader import RunReader
from harness.core.errors import ArchiveDamaged, UsageError, on_a_line, quoted
from harness.core.verdicts import AnyVerdict, Judged, Scored
from harness.pipeline.merging.likeness import refuse_unlike


def refuse_unfit(folders: Sequence[Path]) -> None:
    """Compare every run with the first before anything is copied.

    Raises UsageError for a run named twice or another agent, judge, rubric or setting; ArchiveLocked for one that is
    being written to; ArchiveDamaged.
    """
    named: set[Path] = set()
    with RunReader(folders[0]) as first:
        for folder in folders:
            if (place := folder.resolve()) in named:
                raise UsageError(f"run {on_a_line(place.name)} is named twice: name each run once")
            named.add(place)
            with at_rest(folder), RunReader(folder) as reader:
                refuse_unlike(first, reader)


@dataclass
class Copying:
    """What has been copied so far, and where each query and each verdict is."""

    target: Path
    names: Iterator[str]
    copies: dict[Path, Path] = field(default_factory=dict[Path, Path])
    """Which file is a copy of which."""
    queries: dict[str, int] = field(default_factory=dict[str, int])
    """Of each query, in which of the runs it is."""
    verdicts: list[NDArray[np.int64]] = field(default_factory=list[NDArray[np.int64]])
    """Of each run its verdicts' keys, shortened and sorted: there are many, and few runs share any."""
    query_count: int = 0
    rollouts: int = 0
    labels: list[str] = field(default_factory=list[str])
    folders: list[Path] = field(default_factory=list[Path])
    contradicted: str | None = None
    """A run that holds another verdict than an earlier run under the same key; None where no run does."""

    def add(self, folder: Path) -> None:
        """Copy a run. Raises UsageError for a query that an earlier run has, ArchiveDamaged, ArchiveLocked."""
        with at_rest(folder), RunReader(folder) as reader:
            self.folders.append(folder)
            self._note_queries(reader)
            self._note_verdicts(reader)
            if text := reader.labels():
                self.labels.append(text if text.endswith("\n") else text + "\n")
            self.copies |= copy_records(folder, self.target, self.names)

    def end(self) -> None:
        """Forget what only a further run would need to be held against."""
        self.queries.clear()
        self.verdicts.clear()

    def _note_queries(self, reader: RunReader) -> None:
        number, index = len(self.folders) - 1, reader.index
        for name in index.queries:
            if (before := self.queries.setdefault(name, number)) != number:
                raise UsageError(
                    f"runs {on_a_line(self.folders[before].name)} and {on_a_line(reader.id)} both hold the query "
                    f"{quoted(name)}: only runs of different queries can be merged"
                )
        self.query_count += len(index.queries)
        for name, places in index.rollouts.items():
            if name not in index.queries:
                place = next(iter(places.values())).place
                raise ArchiveDamaged(f"{place}: it refers to query {quoted(name)}, which is not there")
            self.rollouts += len(places)

    def _note_verdicts(self, reader: RunReader) -> None:
        keys = np.fromiter(map(_short, reader.index.verdicts), np.int64)
        keys.sort()
        for folder, earlier in zip(self.folders, self.verdicts, strict=False):
            if len(shared := np.intersect1d(earlier, keys)):
                self._compare(folder, reader, set(shared.tolist()))
        self.verdicts.append(keys)

    def _compare(self, folder: Path, reader: RunReader, shared: AbstractSet[int]) -> None:
        """Take note if a run holds another verdict than the one in `folder`, under keys that are so in short."""
        keys = [key for key in reader.index.verdicts if _short(key) in shared]
        with RunReader(folder) as before:
            both = (key for key in keys if key in before.index.verdicts)
            if any(_scores(_verdict(before, key)) != _scores(_verdict(reader, key)) for key in both):
                self.contradicted = reader.id


def _short(key: str) -> int:
    """Return 64 bits of a key's hash."""
    return int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), signed=True)


def _verdict(reader: RunReader, key: str) -> AnyVerdict | None:
    return reader.verdict(key) or reader.scored(key)


def _scores(verdict: AnyVerdict | None) -> object:
    match verdict:
        case Judged():
            return verdict.a, verdict.b
        case Scored():
            return verdict.scores
        case _:
            return None
