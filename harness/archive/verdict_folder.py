"""A folder of verdicts and of the judge's replies alone: what judging outside of a run keeps, to buy nothing twice."""

import hashlib
from datetime import datetime
from pathlib import Path
from typing import ClassVar

from harness.archive.folder_reader import FolderReader
from harness.archive.folder_store import FolderStore
from harness.core.errors import CannotWrite
from harness.core.redaction import DEFAULT_REDACTOR, Redactor
from harness.core.verdicts import AnyVerdict, Unjudged, Unscored

_SEGMENTS = ("verdicts", "blobs")
_FAILED_KEPT = 1000


class VerdictFolder(FolderStore[FolderReader]):
    """Verdicts on disk without a run, open for writing under the folder's lock."""

    costs_nothing: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, folder: Path, at: datetime, *, redact: Redactor = DEFAULT_REDACTOR) -> None:
        """Open the folder, or make it (0700).

        Raises ArchiveLocked if another process writes to it, CannotWrite for one that cannot be made or written, and
        ArchiveDamaged for one that holds what may not stand there.
        """
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as exc:
            raise CannotWrite(f"cannot make a folder of verdicts in {folder}: {exc.strerror}") from None
        name = hashlib.sha256(b"verdicts\0" + str(folder.resolve()).encode("utf-8", "surrogateescape")).hexdigest()
        super().__init__(FolderReader(folder, folder.name, name, _SEGMENTS, None), at, versions={}, redact=redact)
        self.failed: list[Unjudged | Unscored] = []
        """The newest verdicts that failed in this process: why a ranking lacks them."""

    def add_verdict(self, verdict: AnyVerdict) -> None:
        """Keep a verdict."""
        super().add_verdict(verdict)
        if isinstance(verdict, Unjudged | Unscored):
            self.failed = [*self.failed[1 - _FAILED_KEPT :], self.redact.record(verdict)]
