"""Reading a comparison: `compare.json`, and what came of each query."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

from harness.archive.comparison_records import (
    COMPARED_MARK,
    COMPARED_QUERY,
    COMPARISON_FOOTER,
    COMPARISON_HEAD,
    ComparisonHead,
    ComparisonInfo,
    read_comparison_info,
)
from harness.archive.folder_reader import FolderReader
from harness.archive.layout import COMPARISON_FILE, COMPARISON_SEGMENTS
from harness.archive.result_files import ResultType, heads_in, read_results
from harness.archive.typed_records import recorded_settings
from harness.core.comparisons import ComparedQuery
from harness.core.settings import Settings

_COMPARISON = ResultType(COMPARISON_HEAD, COMPARED_QUERY, COMPARED_MARK, attrgetter("is_open"), COMPARISON_FOOTER)


@dataclass(frozen=True)
class ComparisonFile:
    """What one file of a comparison says: its header, the queries as compared, whether its footer is there."""

    head: ComparisonHead
    queries: Sequence[ComparedQuery]
    """Each is read when it is asked for."""
    finished: bool
    """Whether all queries are in it. Matches may be open all the same: a verdict failed."""
    path: Path
    incomplete: int
    """How many of the queries have a match that is open."""


class ComparisonReader(FolderReader):
    """A comparison as it is on disk now. Use it as a context manager, or close it: it keeps its files open."""

    def __init__(self, folder: Path, caches: Path | None = None) -> None:
        """Read `compare.json`; the other files are opened when they are needed.

        The index of a large comparison is kept in `caches`, by default the user's own. Raises NeedsUpgrade. Raises
        ArchiveDamaged without compare.json, or where a link or the like stands among the files of records.
        """
        self.info: ComparisonInfo
        self.info, sha256 = read_comparison_info(folder)
        super().__init__(folder, self.info.id, sha256, COMPARISON_SEGMENTS, caches)

    @property
    def settings(self) -> Settings:
        """The settings that the comparison began with. Raises ArchiveDamaged if they are none."""
        return recorded_settings(self.info.settings, self.folder / COMPARISON_FILE)

    def newest(self) -> ComparisonFile | None:
        """Return the newest of the comparison's files, finished or not; None before there is one."""
        heads = heads_in(self.folder / "comparisons", COMPARISON_HEAD)
        return read_comparison(heads[-1][1]) if heads else None

    def files(self) -> list[ComparisonFile]:
        """Return all of the comparison's files, the oldest first: each resuming makes one."""
        heads = heads_in(self.folder / "comparisons", COMPARISON_HEAD)
        return [file for _, path in heads if (file := read_comparison(path))]

    def queries(self) -> Iterator[ComparedQuery]:
        """Yield the queries of the newest file, in the order compared; none before there is one."""
        newest = self.newest()
        yield from newest.queries if newest else ()


def read_comparison(path: Path) -> ComparisonFile | None:
    """Return a comparison's file, or None for one without a header: torn before that was whole, or repaired."""
    file = read_results(path, _COMPARISON)
    return file and ComparisonFile(file.head, file.results, file.finished, path, sum(file.briefs))
