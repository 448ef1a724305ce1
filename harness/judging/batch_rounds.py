"""A round of batches: what is under way is looked after, and what was left at the desk is handed in."""

import json
import secrets
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, field

from harness.archive.batch_log import (
    BatchEnded,
    BatchLog,
    BatchMade,
    BatchOnRecord,
    BatchRecord,
    BatchResult,
    BatchSubmitted,
    BatchUploaded,
)
from harness.archive.run_store import RunStore
from harness.core.clock import Clock
from harness.core.errors import HarnessError, UsageError
from harness.core.progress import Progress
from harness.core.wording import counted
from harness.endpoints.batch_files import BatchFiles, BatchStatus
from harness.judging.batch_desk import BatchDesk


@dataclass(frozen=True)
class BatchRounds:
    """The batches of one command: the judges' endpoints by the judges' identities."""

    store: RunStore
    log: BatchLog
    desk: BatchDesk
    files: Mapping[str, BatchFiles]
    clock: Clock
    progress: Progress
    states: dict[str, BatchStatus] = field(default_factory=dict[str, BatchStatus])
    """What the provider last said of the batches that are under way."""
    over: list[BatchOnRecord] = field(default_factory=list[BatchOnRecord])
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
                BatchMade(batch=name, at=at, judge=file.judge, form=file.form, sampling=file.sampling, keys=keys)
            )
            uploaded = await files.upload(file.file, f"{name}.jsonl")
            self._keep(BatchUploaded(batch=name, file=uploaded))
            try:
                identity = await files.create(uploaded)
            except UsageError:  # the provider said no
                self._keep(BatchEnded(batch=name, at=self.clock(), outcome="refused"), settle=False)
                raise
            except HarnessError as exc:
                raise HarnessError(f"{exc}; it may have been bought: `harness resume` looks for it") from exc
            self._keep(BatchSubmitted(batch=name, at=self.clock(), id=identity))
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

    def _under_way(self) -> list[BatchOnRecord]:
        return [batch for batch in self.log.under_way if batch.made.judge in self.files]

    async def _collect(self, batch: BatchOnRecord, files: BatchFiles) -> bool:
        name = batch.made.batch
        if not (batch.submitted or await self._adopt(batch, files)) or batch.submitted is None:
            self._keep(BatchEnded(batch=name, at=self.clock(), outcome="lost"))
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
                        result = BatchResult(batch=name, key=key, status=code, body=body, error=line.error)
                        self._keep(result, settle=False)
        self._keep(BatchEnded(batch=name, at=self.clock(), outcome=status.word, error=status.error))
        if batch.missing:
            why = f": {status.error}" if status.error else ""
            self.progress.note(
                f"batch {batch.submitted.id} ({status.word}{why}) brought no reply to {len(batch.missing)} of "
                f"{counted(len(batch.made.keys), 'question')}"
            )
        return True

    async def _adopt(self, batch: BatchOnRecord, files: BatchFiles) -> bool:
        """Find the batch that was made of an uploaded file and never noted; return whether there is one."""
        identity = await files.find_batch(batch.uploaded.file) if batch.uploaded else None
        if identity:
            self._keep(BatchSubmitted(batch=batch.made.batch, at=self.clock(), id=identity))
        return identity is not None

    def _keep(self, record: BatchRecord, *, settle: bool = True) -> None:
        self.log.add(record, self.store.add_batch_record(record))
        if settle:
            self.store.settle()
