"""The runs that are merged: each is compared with the first and with what the others hold, and then copied."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.archive import RunReader, at_rest, copy_records
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
    verdicts: dict[bytes, int] = field(default_factory=dict[bytes, int])
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

    def _note_queries(self, reader: RunReader) -> None:
        number, index = len(self.folders) - 1, reader.index
        for name in index.queries:
            if (before := self.queries.setdefault(name, number)) != number:
                raise UsageError(
                    f"runs {on_a_line(self.folders[before].name)} and {on_a_line(reader.id)} both hold the query "
                    f"{quoted(name)}: only runs of different queries can be merged"
                )
        for name, places in index.rollouts.items():
            if name not in index.queries:
                place = next(iter(places.values())).place
                raise ArchiveDamaged(f"{place}: it refers to query {quoted(name)}, which is not there")
            self.rollouts += len(places)

    def _note_verdicts(self, reader: RunReader) -> None:
        number = len(self.folders) - 1
        for key, _place in reader.index.verdicts.items():  # noqa: PERF102 - of a VerdictIndex, which has no keys()
            before = self.verdicts.setdefault(key.encode(), number)
            if before != number and not self._is_in(self.folders[before], reader, key):
                self.contradicted = reader.id

    def _is_in(self, folder: Path, reader: RunReader, key: str) -> bool:
        """Tell whether the run in `folder` holds under a key what `reader` holds."""
        with RunReader(folder) as before:
            return _scores(_verdict(before, key)) == _scores(_verdict(reader, key))


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
