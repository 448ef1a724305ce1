"""Judging by batch: new questions are left at a desk, handed in by rounds, and picked up when they came back."""

import json
import secrets
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from tempfile import TemporaryFile
from typing import IO, Any

from harness.archive import batch_log
from harness.archive.lines import RecordPlace
from harness.archive.store import RunStore
from harness.core.errors import HarnessError, UsageError, counted
from harness.core.progress import Clock, Progress
from harness.core.rankings import Unjudged, Unscored
from harness.core.settings import Api
from harness.endpoints.batch_files import MOST_BATCH_BYTES, MOST_BATCH_REQUESTS, BatchFiles, BatchStatus
from harness.endpoints.retries import NO_LIMIT, TimeLimit
from harness.judging import judge_model

TIER = "batch"
"""The service tier of what a batch brought, in verdicts and prices."""
MOST_MISSES = 2
"""A question that came back without a reply is asked once more."""
_CUT_OFF = {"expired", "failed", "cancelled"}
"""How a batch ends that may have asked nothing of some questions, or of all: they have no HTTP status then."""
_REFUSALS = {400, 422}


@dataclass
class QuestionState:
    """What became of one question so far."""

    replies: list[batch_log.BatchOnRecord] = field(default_factory=list[batch_log.BatchOnRecord])
    """The batches that brought one, the oldest first."""
    misses: int = 0
    """How many batches in a row brought no reply."""
    missed: RecordPlace | None = None
    """The last line that came in place of a reply."""
    under_way: bool = False


@dataclass
class RequestFile:
    """Questions for one judge, on their way into a file that vanishes with the process."""

    judge: str
    form: judge_model.Form
    sampling: tuple[str, ...]
    file: IO[bytes] = field(default_factory=TemporaryFile)
    keys: list[str] = field(default_factory=list[str])


class BatchDesk:
    """Knows of each question whether its reply is there, a batch has it, or it is to be asked."""

    def __init__(self, store: RunStore, log: batch_log.BatchLog, judges: Collection[str]) -> None:
        """Look at what the run holds of batches; `judges` are the identities of those that are asked here."""
        self.log, self._judges = log, judges
        self.files: list[RequestFile] = []
        self.failed = set[str]()
        """The keys of verdicts that failed although a batch had brought a reply."""
        if any(batch.results for batch in log.batches.values()):
            failed = (v for v in store.reader.verdicts() if isinstance(v, Unjudged | Unscored) and v.tier == TIER)
            self.failed |= {verdict.key for verdict in failed}
        self.look()

    def close(self) -> None:
        """Let go of what was left here and not handed in."""
        while self.files:
            self.files.pop().file.close()

    def look(self) -> None:
        """Take note of what came back since the last look."""
        self._questions = dict[str, QuestionState]()
        for batch in self.log.batches.values():
            missing, refused = set(batch.missing), only_refusals(batch)
            for key in batch.made.keys:
                question = self._questions.setdefault(key, QuestionState())
                question.under_way = batch.ended is None
                if batch.ended is None:
                    continue
                if key not in missing:
                    question.replies.append(batch)
                    question.misses = 0
                elif batch.ended.outcome in _CUT_OFF and batch.errors.get(key) is None:
                    pass  # the provider never asked it
                elif not refused and batch.submitted:
                    question.misses += 1
                    question.missed = batch.results.get(key)

    def question(self, key: str) -> QuestionState:
        """Return what became of a question so far."""
        return self._questions.get(key) or QuestionState()

    def is_paid(self, key: str) -> bool:
        """Whether there is a reply to a question that no verdict rests on yet."""
        return key not in self.failed and bool(self.question(key).replies)

    def reply(self, key: str, number: int) -> tuple[judge_model.Form, Any]:
        """Return the form that a reply was asked for in, and its body. Raises ArchiveDamaged."""
        batch = self.question(key).replies[number]
        result = self.log.result(batch.results[key])
        return batch_form(batch), json.loads(result.body or "null")

    def may_ask(self, key: str) -> bool:
        """Whether a question may go into another batch."""
        return key not in self.failed and self.question(key).misses < MOST_MISSES

    def why_never(self, key: str) -> str | None:
        """Return why a question goes into no batch any more; None for one that may. Raises ArchiveDamaged."""
        if self.may_ask(key):
            return None
        if key in self.failed:
            return "a reply came that cannot be used"
        if (place := self.question(key).missed) is None:
            return "no line came back"
        result = self.log.result(place)
        return f"HTTP {result.status}: {result.error}" if result.status else result.error or "no reply came back"

    @property
    def waits(self) -> bool:
        """Whether anything is left here, or with a provider, that a ranking may wait for."""
        return bool(self.files) or any(batch.made.judge in self._judges for batch in self.log.under_way)

    def leave(self, key: str, line: bytes, judge: str, form: judge_model.Form, sampling: tuple[str, ...]) -> None:
        """Leave a question for the next batch."""
        file = next((f for f in reversed(self.files) if f.judge == judge), None)
        is_full = file and (len(file.keys) >= MOST_BATCH_REQUESTS or file.file.tell() + len(line) > MOST_BATCH_BYTES)
        if file is None or is_full:
            file = RequestFile(judge, form, sampling)
            self.files.append(file)
        file.file.write(line)
        file.keys.append(key)
        self._questions.setdefault(key, QuestionState()).under_way = True


def batch_form(batch: batch_log.BatchOnRecord) -> judge_model.Form:
    """Return the form that a batch asked for."""
    forms: dict[str, judge_model.Form] = {form: form for form in judge_model.FORMS}
    return forms.get(batch.made.form, judge_model.FORMS[-1])


def only_refusals(batch: batch_log.BatchOnRecord) -> bool:
    """Whether a batch showed that its requests' form or sampling is not taken: nothing but refusals came back."""
    refused = sum(status in _REFUSALS for status in batch.errors.values())
    return refused == len(batch.results) > 0


class BatchAsk:
    """Asks `model` by batch. Nothing is sent here."""

    given_up: str | None = None

    def __init__(self, desk: BatchDesk, judge: str, model: str, api: Api, extra: Mapping[str, Any]) -> None:
        """Ask as `judge`, the identity in verdicts; `extra` are parameters added to every request."""
        self._desk, self._judge, self._model, self._extra = desk, judge, model, extra
        self._api: Api = api
        self._turns = dict[str, int]()
        at, self._sampling = 0, dict[str, float](judge_model.SAMPLING)
        for batch in desk.log.batches.values():  # what the judge's endpoint has refused is not sent again
            if batch.made.judge != judge or not only_refusals(batch):
                continue
            words = str(desk.log.result(next(iter(batch.results.values()))).error).lower()
            if named := next((n for n in self._sampling if n in words and n in batch.made.sampling), None):
                del self._sampling[named]
            else:
                at = min(judge_model.FORMS.index(batch_form(batch)) + 1, len(judge_model.FORMS) - 1)
        self._form: judge_model.Form = judge_model.FORMS[at]

    async def __call__(self, prompt: judge_model.Question, clock: TimeLimit = NO_LIMIT) -> judge_model.ModelReply:
        """Return the reply that a batch brought. Raises AskFailed where there is none yet, or will be none."""
        del clock
        desk, key = self._desk, prompt.key
        turn = self._turns.get(key, 0) if prompt.repair else 0
        question = desk.question(key)
        if turn < len(question.replies) and desk.may_ask(key):
            self._turns[key] = turn + 1
            form, body = desk.reply(key, turn)
            answer = judge_model.read_reply_body(body, form, tiered=False)
            bill = replace(answer.bill, tier=TIER)
            return judge_model.ModelReply(answer.text, bill, form, answer.raw, answer.withheld, TIER)
        if question.under_way:
            raise judge_model.AskFailed(judge_model.WITH_PROVIDER)
        if not desk.may_ask(key):
            raise judge_model.AskFailed(judge_model.UNANSWERED)
        body = judge_model.request_body(self._api, self._model, prompt, self._form, {**self._extra, **self._sampling})
        request = {"custom_id": key, "method": "POST", "url": f"/v1{judge_model.api_path(self._api)}", "body": body}
        line = json.dumps(request).encode() + b"\n"
        desk.leave(key, line, self._judge, self._form, tuple(self._sampling))
        raise judge_model.AskFailed(judge_model.IN_BATCH)


@dataclass(frozen=True)
class BatchRounds:
    """The batches of one command: the judges' endpoints by the judges' identities."""

    store: RunStore
    log: batch_log.BatchLog
    desk: BatchDesk
    files: Mapping[str, BatchFiles]
    clock: Clock
    progress: Progress
    states: dict[str, BatchStatus] = field(default_factory=dict[str, BatchStatus])
    """What the provider last said of the batches that are under way."""
    over: list[batch_log.BatchOnRecord] = field(default_factory=list[batch_log.BatchOnRecord])
    """The batches that this command has found to be over."""

    @property
    def waits_on(self) -> bool:
        """Whether there is nothing to do but wait: no batch is over of those that were under way."""
        return bool(self._under_way()) and not self.over

    async def check(self) -> None:
        """Find out whether the endpoints have batches, unless the run has shown it. Raises Refused."""
        shown = {batch.made.judge for batch in self.log.batches.values() if batch.submitted}
        for judge, files in self.files.items():
            if judge not in shown:
                await files.check()

    async def collect(self) -> None:
        """Keep what came back of the batches that are over. Raises HarnessError."""
        for batch in self._under_way():
            if await self._collect(batch, self.files[batch.made.judge]):
                self.over.append(batch)
        self.desk.look()

    async def hand_in(self) -> None:
        """Hand in what was left at the desk, file by file. Raises HarnessError; what was handed in before is kept."""
        while self.desk.files:
            file = self.desk.files[0]
            name, files = f"{self.clock():%Y%m%dT%H%M%S}-{secrets.token_hex(3)}", self.files[file.judge]
            keys, at = tuple(file.keys), self.clock()
            # noted before each step: a kill leaves no batch that nobody knows of
            self._keep(
                batch_log.BatchMade(
                    batch=name, at=at, judge=file.judge, form=file.form, sampling=file.sampling, keys=keys
                )
            )
            uploaded = await files.upload(file.file, f"{name}.jsonl")
            self._keep(batch_log.BatchUploaded(batch=name, file=uploaded))
            try:
                identity = await files.create(uploaded)
            except UsageError:  # the provider said no
                self._keep(batch_log.BatchEnded(batch=name, at=self.clock(), outcome="refused"), settle=False)
                raise
            except HarnessError as exc:
                raise HarnessError(f"{exc}; it may have been bought: `harness resume` looks for it") from exc
            self._keep(batch_log.BatchSubmitted(batch=name, at=self.clock(), id=identity))
            self.desk.files.pop(0).file.close()

    def describe(self) -> str | None:
        """Return in words what the provider has; None where that is nothing."""
        said = list[str]()
        for batch in self._under_way():
            asked = len(batch.made.keys)
            what = f"{asked} question{'s' if asked > 1 else ''} to {batch.made.judge}"
            if batch.submitted is None:
                said.append(f"{what}: not handed in yet")
                continue
            seconds = max(0, int((self.clock() - batch.submitted.at).total_seconds()))
            hours, minutes = divmod(seconds // 60, 60)
            since = f"{hours} h {minutes} min" if hours else f"{minutes} min" if minutes else f"{seconds} s"
            status = self.states.get(batch.made.batch)
            done = f", {status.done} done ({status.word})" if status else ""
            said.append(f"{what} in batch {batch.submitted.id}{done}, with the provider for {since}")
        return "; ".join(said) or None

    def why_never(self, keys: Iterable[str]) -> str | None:
        """Return in words why some of the questions with these keys go into no batch any more; None if all may."""
        reasons = Counter(why for key in keys if (why := self.desk.why_never(key)))
        if not reasons:
            return None
        ((why, times),) = reasons.most_common(1)
        most = "" if len(reasons) == 1 else f", {times:,} of them"
        asked = counted(reasons.total(), "question")
        return f"{asked} got no usable reply by batch, and no batch asks again ({why}{most})"

    def _under_way(self) -> list[batch_log.BatchOnRecord]:
        return [batch for batch in self.log.under_way if batch.made.judge in self.files]

    async def _collect(self, batch: batch_log.BatchOnRecord, files: BatchFiles) -> bool:
        name = batch.made.batch
        if not (batch.submitted or await self._adopt(batch, files)) or batch.submitted is None:
            self._keep(batch_log.BatchEnded(batch=name, at=self.clock(), outcome="lost"))
            lost = f"a batch of {counted(len(batch.made.keys), 'question')}"
            handed_in = "being handed in when the run was stopped, and may have been bought" if batch.uploaded else None
            self.progress.note(f"{lost} was {handed_in or 'not handed in when the run was stopped'}; it is asked again")
            return True
        status = self.states[name] = await files.status(batch.submitted.id)
        if not status.is_over:
            return False
        asked = set(batch.made.keys)
        for file in status.files:
            async with aclosing(files.lines(file)) as lines:
                async for line in lines:
                    if line.custom_id in asked and line.custom_id not in batch.results:
                        body = None if line.body is None else json.dumps(line.body)
                        key, code = line.custom_id, line.status
                        result = batch_log.BatchResult(batch=name, key=key, status=code, body=body, error=line.error)
                        self._keep(result, settle=False)
        self._keep(batch_log.BatchEnded(batch=name, at=self.clock(), outcome=status.word, error=status.error))
        if batch.missing:
            why = f": {status.error}" if status.error else ""
            self.progress.note(
                f"batch {batch.submitted.id} ({status.word}{why}) brought no reply to {len(batch.missing)} of "
                f"{counted(len(batch.made.keys), 'question')}"
            )
        return True

    async def _adopt(self, batch: batch_log.BatchOnRecord, files: BatchFiles) -> bool:
        """Find the batch that was made of an uploaded file and never noted; return whether there is one."""
        identity = await files.find_batch(batch.uploaded.file) if batch.uploaded else None
        if identity:
            self._keep(batch_log.BatchSubmitted(batch=batch.made.batch, at=self.clock(), id=identity))
        return identity is not None

    def _keep(self, record: batch_log.BatchRecord, *, settle: bool = True) -> None:
        self.log.add(record, self.store.add_batch_record(record))
        if settle:
            self.store.settle()
