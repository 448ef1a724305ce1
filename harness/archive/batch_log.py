"""The batches of a run as its folder tells them: what is under way, what came back, what never did.

The lines of `batches/` come in this order, for each batch: `made` before anything is sent, `uploaded` when its file is
with the provider, `submitted` when the provider has named the batch, a `result` for each line that came back, `ended`.
"""

from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from harness.archive.lines import LocatedRecord, RecordPlace, read_at, read_lines
from harness.archive.run_files import files_in
from harness.archive.typed_records import SEGMENT_HEAD, RecordType, damaged, read_record
from harness.core.errors import ArchiveDamaged
from harness.core.records import Record

SEGMENT = "batches"
"""The folder of a run that holds them."""


class BatchMade(Record):
    """A file of questions that is about to be handed in."""

    batch: str
    """The run's own name of the batch."""
    at: datetime
    judge: str
    """Who is asked: the identity in the verdicts."""
    form: str
    """How the replies' form is asked for."""
    sampling: tuple[str, ...] = ()
    """The sampling settings that are sent."""
    keys: tuple[str, ...]
    """The keys of the verdicts that are asked for."""


class BatchUploaded(Record):
    """The provider has the file of a batch; nothing is bought yet."""

    batch: str
    file: str
    """The provider's id of the file."""


class BatchSubmitted(Record):
    """The provider has the batch: from here on it is paid for."""

    batch: str
    at: datetime
    id: str
    """The provider's id of the batch."""


class BatchResult(Record):
    """What came back for one question: a reply, or an error."""

    batch: str
    key: str
    status: int | None = None
    """The HTTP status of the reply; None where the provider made none."""
    body: str | None = None
    """The reply as JSON; None without one."""
    error: str | None = None
    """Why there is no reply."""


class BatchEnded(Record):
    """Nothing more comes of a batch."""

    batch: str
    at: datetime
    outcome: str
    """The provider's word (completed, expired, failed, cancelled), else `gone`, `refused` or `lost`."""
    error: str | None = None


BatchRecord = BatchMade | BatchUploaded | BatchSubmitted | BatchResult | BatchEnded
KIND_OF: dict[type[BatchRecord], str] = {
    BatchMade: "made",
    BatchUploaded: "uploaded",
    BatchSubmitted: "submitted",
    BatchResult: "result",
    BatchEnded: "ended",
}
BATCH_LINES: dict[str, RecordType[Any]] = {kind: RecordType(kind, of.model_validate) for of, kind in KIND_OF.items()}
"""Every kind of line but the header."""


@dataclass
class BatchOnRecord:
    """One batch: its records, as far as there are any."""

    made: BatchMade
    uploaded: BatchUploaded | None = None
    submitted: BatchSubmitted | None = None
    ended: BatchEnded | None = None
    results: dict[str, RecordPlace] = field(default_factory=dict[str, RecordPlace])
    """Where the line of each question is that came back; of two the first counts."""
    errors: dict[str, int | None] = field(default_factory=dict[str, int | None])
    """The questions of which the line holds no reply, with the HTTP status."""

    @property
    def missing(self) -> list[str]:
        """The questions without a reply."""
        return [key for key in self.made.keys if key not in self.results or key in self.errors]


class BatchLog:
    """All batches of a run, the oldest first. Texts stay on the disk."""

    def __init__(self, folder: Path) -> None:
        """Read what the run in `folder` holds. Raises ArchiveDamaged."""
        self.batches: dict[str, BatchOnRecord] = {}
        for path in files_in(folder / SEGMENT):
            for located in read_lines(path):
                if located.members["kind"] != SEGMENT_HEAD:
                    self.add(_record(located), located.place)

    def add(self, record: BatchRecord, place: RecordPlace) -> None:
        """Take note of a record that stands, or was just written, at a place. Raises ArchiveDamaged."""
        if isinstance(record, BatchMade):
            self.batches[record.batch] = BatchOnRecord(record)
            return
        if (batch := self.batches.get(record.batch)) is None:
            raise damaged(place, f"no valid record: batch {record.batch!r} was not made before")
        match record:
            case BatchUploaded():
                batch.uploaded = record
            case BatchSubmitted():
                batch.submitted = record
            case BatchEnded():
                batch.ended = record
            case BatchResult() if record.key not in batch.results:
                batch.results[record.key] = place
                if record.body is None or record.status != 200:
                    batch.errors[record.key] = record.status
            case _:
                pass  # a second line of one question

    def result(self, place: RecordPlace) -> BatchResult:
        """Return what came back. Raises ArchiveDamaged."""
        return cast("BatchResult", _record(read_at(place)))

    @property
    def under_way(self) -> list[BatchOnRecord]:
        """The batches that the provider has, or may have."""
        return [batch for batch in self.batches.values() if batch.ended is None]


def with_provider(folder: Path) -> dict[str, str]:
    """Return the ids of the batches that the provider has, by the keys of their questions. Raises ArchiveDamaged."""
    under_way = BatchLog(folder).under_way
    return {key: b.submitted.id for b in under_way if b.submitted for key in b.made.keys}


def futile_batches(folder: Path, since: datetime) -> int:
    """Return how many batches of a run ended after a moment and brought nothing at all. Raises ArchiveDamaged."""
    ended = [batch for batch in BatchLog(folder).batches.values() if batch.ended and batch.ended.at >= since]
    return sum(len(batch.missing) == len(batch.made.keys) for batch in ended)


def _record(located: LocatedRecord) -> BatchRecord:
    line = BATCH_LINES.get(located.members["kind"])
    if line is None:
        raise ArchiveDamaged(f"{located.where}: a record of the kind {located.members['kind']!r} stands among batches")
    return read_record(located, line)
