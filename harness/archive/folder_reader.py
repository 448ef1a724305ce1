"""Reading a folder of the archive, a run or a comparison: its texts and verdicts, and where things are in it."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Self, TypeVar

from harness.archive.blobs import Blobs
from harness.archive.index import INDEXED, Index
from harness.archive.index_file import usual_caches
from harness.archive.lines import RecordFiles, RecordPlace, read_lines
from harness.archive.run_files import files_in, refuse_strange_records
from harness.archive.typed_records import PAIR_SCORES, SEGMENT_HEAD, VERDICT_LINE, damaged, read_at_place, read_record
from harness.core.errors import ArchiveDamaged
from harness.core.verdicts import AnyVerdict, Judged, PairScores, Scored

T = TypeVar("T")
_RECENT = 256
"""So many verdicts' scores, of 3 KB each, are kept in case that they are looked up again."""


class FolderReader:
    """What runs and comparisons have in common, as it is on disk now. Never blocks a writer.

    Use it as a context manager, or close it: it keeps the files that it reads open.
    """

    def __init__(self, folder: Path, name: str, sha256: str, segments: Sequence[str], caches: Path | None) -> None:
        """Take the folder's id, and the sha256 of the file that says so; other files are opened when they are needed.

        The index of a large folder is kept in `caches`, by default the user's own. Raises ArchiveDamaged where a link
        or the like stands among the files of records: before anything is paid for, whichever of them is needed.
        """
        self.folder = folder
        self.id = name
        self.info_sha256 = sha256
        refuse_strange_records(folder, segments)
        self.blobs = Blobs(folder / "blobs")
        self._caches = caches = caches or usual_caches()
        self._cache = caches / "index" / f"{sha256}.sqlite" if caches else None
        self._indexed = [name for name in INDEXED if name in segments]
        self._index: Index | None = None
        self._files = RecordFiles()
        self._scores: dict[str, PairScores] = {}
        """What was read last."""

    def close(self) -> None:
        """Close the files and the index; further reading opens them again."""
        self._files.close()
        if self._index is not None:
            self._index.close()
            self._index = None

    def __enter__(self) -> Self:
        """Return the reader itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the reader."""
        self.close()

    def verdict(self, key: str) -> Judged | None:
        """Return the verdict bought under `key`, or None."""
        verdict = self._ask(lambda index: self._bought(index, key))
        return verdict if isinstance(verdict, Judged) else None

    def pair_scores(self, key: str) -> PairScores | None:
        """Return what rankings take of the verdict on a pair bought under `key`, or None."""
        if scores := self._scores.get(key):  # a group is ranked, and then summed up
            return scores
        if scores := self._ask(lambda index: self._scores_at(index, key)):
            if len(self._scores) == _RECENT:
                self._scores.clear()
            self._scores[key] = scores
        return scores

    def scored(self, key: str) -> Scored | None:
        """Return the listwise verdict bought under `key`, or None."""
        verdict = self._ask(lambda index: self._bought(index, key))
        return verdict if isinstance(verdict, Scored) else None

    def verdicts(self) -> Iterator[AnyVerdict]:
        """Yield every verdict, failed and listwise ones too, in the order they were written."""
        for path in files_in(self.folder / "verdicts"):
            for located in read_lines(path):
                if located.members["kind"] != SEGMENT_HEAD.kind:
                    yield read_record(located, VERDICT_LINE)

    @property
    def index(self) -> Index:
        """Where every record is; built at first use, for a large run from its cache."""
        if self._index is None:
            self._index = Index(self.folder, self._indexed, self._cache)
        return self._index

    def _ask(self, question: Callable[[Index], T]) -> T:
        """Answer a question by the index. Before what a cache says counts as damage, the index is made anew."""
        try:
            return question(self.index)
        except ArchiveDamaged:
            if not self.index.from_cache:
                raise
            self._files.close()
            self.index.make_anew()
            return question(self.index)

    def _scores_at(self, index: Index, key: str) -> PairScores | None:
        place = index.verdicts.get(key)
        if place is None:
            return None
        scores = read_at_place(self._files, place, PAIR_SCORES)
        return expected(place, scores, scores.key == key)

    def _bought(self, index: Index, key: str) -> Judged | Scored | None:
        place = index.verdicts.get(key)  # of those that came out: a pair's, or a list's
        if place is None:
            return None
        verdict = read_at_place(self._files, place, VERDICT_LINE)
        bought = verdict if isinstance(verdict, Judged | Scored) else None
        return expected(place, bought, bought is not None and bought.key == key)


def expected(place: RecordPlace, record: T, fits: bool) -> T:
    """Return a record that is what was looked for. Raises ArchiveDamaged."""
    if not fits:
        raise damaged(place, "another record than the one looked for")
    return record
