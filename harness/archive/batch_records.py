"""What a run keeps of its batches of judge calls: what was handed in, under which id, and what came back.

The lines of `batches/` come in this order, for each batch: `made` before anything is sent, `uploaded` when its file is
with the provider, `submitted` when the provider has named the batch, a `result` for each line that came back, `ended`.
"""

from datetime import datetime
from typing import Any

from harness.archive.typed_records import RecordType
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


MADE = RecordType("made", BatchMade.model_validate)
UPLOADED = RecordType("uploaded", BatchUploaded.model_validate)
SUBMITTED = RecordType("submitted", BatchSubmitted.model_validate)
RESULT = RecordType("result", BatchResult.model_validate)
ENDED = RecordType("ended", BatchEnded.model_validate)
BatchRecord = BatchMade | BatchUploaded | BatchSubmitted | BatchResult | BatchEnded
KIND_OF: dict[type[BatchRecord], str] = {
    BatchMade: MADE.kind,
    BatchUploaded: UPLOADED.kind,
    BatchSubmitted: SUBMITTED.kind,
    BatchResult: RESULT.kind,
    BatchEnded: ENDED.kind,
}
BATCH_LINES: dict[str, RecordType[Any]] = {line.kind: line for line in (MADE, UPLOADED, SUBMITTED, RESULT, ENDED)}
"""Every kind of line but the header."""
