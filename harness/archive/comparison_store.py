"""A comparison's folder, open for writing: where verdicts and what came of each query go as they happen."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Self

from harness.archive.comparison_reader import ComparisonReader
from harness.archive.comparison_records import ComparisonHead, ComparisonInfo
from harness.archive.folder_store import FolderStore, make_folder
from harness.archive.layout import COMPARISON_FILE
from harness.archive.result_writer import ResultWriter
from harness.core.comparisons import ComparedQuery
from harness.core.redaction import DEFAULT_REDACTOR, Redactor


class ComparisonWriter(ResultWriter[ComparisonHead, ComparedQuery]):
    """Writes what came of a comparison: a line a query."""

    kind = "compared"
    counted = "queries"

    def __init__(self, path: Path, head: ComparisonHead, redact: Redactor, settle: Callable[[], None]) -> None:
        """Name the file; `settle` waits until the texts that a line names are on disk."""
        super().__init__(path, head, redact)
        self._settle = settle

    def add(self, result: ComparedQuery) -> None:
        """Write what came of one query, after the texts that it names."""
        self._settle()
        super().add(result)


class ComparisonStore(FolderStore[ComparisonReader]):
    """A comparison's folder, open for writing under its lock. Use it as a context manager."""

    costs_nothing = frozenset({"blobs"})
    """Texts are copied from the sides' runs. A judge's reply is a text, too, and its verdict follows at once."""

    def __init__(
        self,
        folder: Path,
        at: datetime,
        *,
        versions: Mapping[str, str] | None = None,
        accepted: Sequence[str] = (),
        redact: Redactor = DEFAULT_REDACTOR,
    ) -> None:
        """Lock `folder`, as FolderStore does; `versions` are by default the comparison's.

        Raises ArchiveDamaged if it is no comparison or holds what may not stand there.
        """
        reader = ComparisonReader(folder)  # before the lock, whose file would make the folder
        super().__init__(reader, at, versions=versions or reader.info.versions, accepted=accepted, redact=redact)

    @classmethod
    def create(cls, runs_dir: Path, info: ComparisonInfo, *, redact: Redactor = DEFAULT_REDACTOR) -> Self:
        """Make a comparison's folder, whole or not at all. Raises UsageError where the folder cannot be written."""
        text = redact.secret(info.model_dump_json(indent=1))
        is_first = make_folder(runs_dir / info.id, COMPARISON_FILE, text)
        store = cls(runs_dir / info.id, info.created_at, redact=redact)
        store._made_runs_dir = is_first
        return store

    def open_comparison(self, head: ComparisonHead) -> ComparisonWriter:
        """Start a file beside the ones that are there; it is on disk with its first verdict or its first query."""
        path = self.folder / "comparisons" / f"{head.id}.jsonl"
        self._results = comparison = ComparisonWriter(path, head, self.redact, self.settle)
        return comparison
