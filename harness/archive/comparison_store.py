"""A comparison's folder, open for writing: where verdicts and what came of each query go as they happen."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Self

from harness.archive.comparison_reader import ComparisonReader
from harness.archive.comparison_records import ComparisonHead, ComparisonInfo
from harness.archive.folder_store import FolderStore, make_folder
from harness.archive.layout import COMPARISON_FILE
from harness.archive.result_writer import ResultWriter
from harness.core.comparisons import ComparedQuery, ComparedSide
from harness.core.redaction import DEFAULT_REDACTOR, Redactor


class ComparisonWriter(ResultWriter[ComparisonHead, ComparedQuery]):
    """Writes what came of a comparison: a line a query."""

    kind = "compared"
    counted = "queries"


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

    def open_comparison(self, file_id: str, at: datetime, sides: Sequence[ComparedSide]) -> ComparisonWriter:
        """Start a file beside the ones that are there, with the sides as they are now.

        It is on disk with the first verdict bought, or its first query.
        """
        head = ComparisonHead(id=file_id, created_at=at, sides=tuple(sides))
        path = self.folder / "comparisons" / f"{file_id}.jsonl"
        self._results = comparison = ComparisonWriter(path, head, self.redact)
        return comparison
