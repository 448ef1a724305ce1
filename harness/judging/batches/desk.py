"""The desk between judges and batches: replies that came back are picked up here, new questions are left here."""

import json
from collections.abc import Collection
from dataclasses import dataclass, field
from tempfile import TemporaryFile
from typing import IO, Any

from harness.archive.batch_log import BatchLog, BatchOnRecord
from harness.archive.run_store import RunStore
from harness.core.verdicts import Unjudged, Unscored
from harness.endpoints.batch_files import MOST_BATCH_BYTES, MOST_BATCH_REQUESTS
from harness.judging.request_bodies import FORMS, Form

TIER = "batch"
"""The service tier of what a batch brought, in verdicts and prices."""
_MOST_MISSES = 2
"""A question that came back without a reply is asked once more."""
_REFUSALS = {400, 422}


@dataclass
class QuestionState:
    """What became of one question so far."""

    replies: list[BatchOnRecord] = field(default_factory=list[BatchOnRecord])
    """The batches that brought one, the oldest first."""
    misses: int = 0
    """How many batches in a row brought no reply."""
    under_way: bool = False


@dataclass
class RequestFile:
    """Questions for one judge, on their way into a file that vanishes with the process."""

    judge: str
    form: Form
    sampling: tuple[str, ...]
    file: IO[bytes] = field(default_factory=TemporaryFile)
    keys: list[str] = field(default_factory=list[str])

    def has_room(self, line: bytes) -> bool:
        """Whether another line fits a file as providers take it."""
        return len(self.keys) < MOST_BATCH_REQUESTS and self.file.tell() + len(line) <= MOST_BATCH_BYTES


class BatchDesk:
    """Knows of each question whether a reply is at hand, a batch has it, or it is to be asked."""

    def __init__(self, store: RunStore, log: BatchLog, judges: Collection[str]) -> None:
        """Look at what the run holds of batches, and at the verdicts that failed on their replies.

        `judges` are the identities of those that are asked here.
        """
        self.log, self._judges = log, judges
        self.files: list[RequestFile] = []
        self.failed = _failed(store) if any(batch.results for batch in log.batches.values()) else set[str]()
        self._questions = dict[str, QuestionState]()
        self.look()

    def close(self) -> None:
        """Let go of what was left here and not handed in."""
        while self.files:
            self.files.pop().file.close()

    def look(self) -> None:
        """Take note of what came back since the last look."""
        self._questions = {}
        for batch in self.log.batches.values():
            self._look_at(batch)

    def _look_at(self, batch: BatchOnRecord) -> None:
        missing, taught = set(batch.missing), training_queries(batch)
        for key in batch.made.keys:
            question = self._questions.setdefault(key, QuestionState())
            question.under_way = batch.ended is None
            if batch.ended is None:
                continue
            if key not in missing:
                question.replies.append(batch)
                question.misses = 0
            elif not taught and batch.submitted:
                question.misses += 1

    def question(self, key: str) -> QuestionState:
        """Return what became of a question so far."""
        return self._questions.get(key) or QuestionState()

    def is_paid(self, key: str) -> bool:
        """Whether a reply to a question is at hand that no verdict rests on yet."""
        return key not in self.failed and bool(self.question(key).replies)

    def reply(self, key: str, number: int) -> tuple[Form, Any]:
        """Return the form that a reply was asked for in, and its body. Raises ArchiveDamaged."""
        batch = self.question(key).replies[number]
        result = self.log.result(batch.results[key])
        return form_of(batch), json.loads(result.body or "null")

    def may_ask(self, key: str) -> bool:
        """Whether a question may go into another batch."""
        return key not in self.failed and self.question(key).misses < _MOST_MISSES

    @property
    def waits(self) -> bool:
        """Whether anything is left here, or with a provider, that a ranking may wait for."""
        return bool(self.files) or any(batch.made.judge in self._judges for batch in self.log.under_way)

    def leave(self, key: str, line: bytes, judge: str, form: Form, sampling: tuple[str, ...]) -> None:
        """Leave a question for the next batch."""
        file = next((f for f in reversed(self.files) if f.judge == judge), None)
        if file is None or not file.has_room(line):
            file = RequestFile(judge, form, sampling)
            self.files.append(file)
        file.file.write(line)
        file.keys.append(key)
        self._questions.setdefault(key, QuestionState()).under_way = True


def form_of(batch: BatchOnRecord) -> Form:
    """Return the form that a batch asked for."""
    forms: dict[str, Form] = {form: form for form in FORMS}
    return forms.get(batch.made.form, FORMS[-1])


def training_queries(batch: BatchOnRecord) -> bool:
    """Whether a batch showed that its requests' form or sampling is not taken: nothing but refusals came back."""
    refused = sum(status in _REFUSALS for status in batch.errors.values())
    return refused == len(batch.results) > 0


def _failed(store: RunStore) -> set[str]:
    """Return the keys of verdicts that failed although a batch had brought a reply."""
    return {
        verdict.key
        for verdict in store.reader.verdicts()
        if isinstance(verdict, Unjudged | Unscored) and verdict.tier == TIER
    }
