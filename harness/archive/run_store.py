"""A run's folder, open for writing: where rollouts, verdicts and rankings go as they happen."""

import json
import os
import re
import shutil
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from filelock import FileLock, Timeout

from harness.archive.blobs import blob_body, blob_name
from harness.archive.group_commit import GroupCommit
from harness.archive.layout import LOCK, RunInfo
from harness.archive.lines import Appender, RecordPlace, disk_errors
from harness.archive.ranking_writer import RankingWriter
from harness.archive.reader import RunReader
from harness.archive.run_files import files_in, remove_strange, sync_folder
from harness.archive.typed_records import RankingHead
from harness.core.errors import ArchiveDamaged, ArchiveLocked, CannotWrite, UsageError
from harness.core.records import Query, Rollout, to_json
from harness.core.redaction import DEFAULT_REDACTOR, Redactor
from harness.core.verdicts import AnyVerdict, Judged, Scored
from harness.core.wording import option

_STAMP = "%Y%m%dT%H%M%S%f"
_STAMP_LENGTH = len("20260721T140320000000")


class RunStore:
    """A run's folder, open for writing under its lock. Use it as a context manager."""

    def __init__(
        self,
        folder: Path,
        at: datetime,
        *,
        versions: Mapping[str, str] | None = None,
        accepted: Sequence[str] = (),
        redact: Redactor = DEFAULT_REDACTOR,
    ) -> None:
        """Lock `folder`. All that is written goes through `redact`.

        `versions` (of this process) and what the user `accepted` go into the header of every segment it writes.
        Raises ArchiveDamaged if it is no run or holds what may not stand there, ArchiveLocked if another process
        writes to it, CannotWrite for a folder that is read-only.
        """
        self.folder = folder
        self._made_runs_dir = False
        self.reader = RunReader(folder)  # before the lock, whose file would make the folder of a run that is not there
        self._at = at
        self._head: dict[str, Any] = {
            "versions": dict(versions or self.reader.info.versions),
            "accepted": list(accepted),
        }
        self.redact = redact
        self._lock = FileLock(folder / LOCK, mode=0o600)
        try:
            remove_strange(folder, folder / LOCK)
            self._lock.acquire(timeout=0)
        except Timeout:
            raise ArchiveLocked(f"{folder} is in use by another harness process; wait for it or stop it") from None
        except OSError as exc:
            raise CannotWrite(f"cannot write to {folder}: {exc.strerror}") from None
        self._appenders: dict[str, Appender] = {}
        self._group_commit = GroupCommit(self._sync)
        self._ranking: RankingWriter | None = None

    @classmethod
    def create(
        cls, runs_dir: Path, info: RunInfo, queries: Sequence[Query] = (), *, redact: Redactor = DEFAULT_REDACTOR
    ) -> Self:
        """Make a run's folder: under a dot-name with run.json inside, then renamed, so that no half run exists.

        `queries` are in it from the beginning, so that whoever resumes the run knows them all.
        Raises UsageError where the folder cannot be written.
        """
        part, target = runs_dir / f".{info.id}", runs_dir / info.id
        first_run = not runs_dir.exists()
        try:
            runs_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            part.mkdir(mode=0o700)
            with os.fdopen(os.open(part / "run.json", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(redact.secret(info.model_dump_json(indent=1)).encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
            if queries:
                _write_queries(part, info, queries, redact)
            sync_folder(part)
            part.rename(target)
            sync_folder(runs_dir)
        except OSError as exc:
            raise UsageError(
                f"cannot make a run in {runs_dir}/: {exc.strerror}; choose another with {option('runs_dir')}"
            ) from exc
        store = cls(target, info.created_at, redact=redact)
        store._made_runs_dir = first_run
        return store

    @property
    def is_empty(self) -> bool:
        """Whether no rollout and no verdict has been written: nothing was paid for."""
        return not self._appenders.keys() - {"queries"}

    def accept(self, what: str) -> None:
        """Note in the headers of the segments begun from now on what the user was warned of and went on with."""
        self._head["accepted"] = [*self._head["accepted"], what]

    def discard(self) -> None:
        """Remove the run's folder. Raises RuntimeError for a run in which anything was paid for."""
        if not self.is_empty:
            raise RuntimeError("a run with records is never discarded")
        self.close()
        shutil.rmtree(self.folder)
        if self._made_runs_dir:
            with suppress(OSError):  # another process has put a run there
                self.folder.parent.rmdir()

    def put_blob(self, text: str) -> str:
        """Keep a large text and return its sha256. It is safe no later than the next record, which may name it."""
        text = self.redact.blob(text)
        name, stored = blob_name(text), self.reader.blobs
        if "blobs" not in self._appenders:
            stored.scan()  # once is enough: nobody else writes to the run
        if name not in stored:
            segment = self._segment("blobs")
            with disk_errors(self.folder):
                place = RecordPlace(segment.path, segment.append("blob", blob_body(name, text), sync=False))
            stored.add_place(name, place, segment.size)
            self._group_commit.add()
        return name

    def add_query(self, query: Query) -> None:
        """Keep a query, unless it is there."""
        if query.id not in self.reader.index.queries:
            body = to_json(_redacted(query, self.redact))
            self.reader.index.queries[query.id] = self._append("queries", "query", body)

    def add_rollout(self, rollout: Rollout) -> Rollout:
        """Keep a rollout, and return it as it is kept: redacted."""
        kept, body = self.redact.record_and_json(rollout)
        self._append("rollouts", "rollout", body)
        return kept

    def add_verdict(self, verdict: AnyVerdict) -> None:
        """Keep a verdict."""
        places = self.reader.index.verdicts  # built before the line is there, or the line would be found twice
        _, body = self.redact.record_and_json(verdict)
        if self._ranking:
            self._ranking.begin()  # else a kill before the first group would leave no trace of what it was bought for
        place = self._append("verdicts", "verdict", body)
        if isinstance(verdict, Judged | Scored):
            places.setdefault(verdict.key, place)

    def verdict(self, key: str) -> Judged | None:
        """Return the verdict that was bought under `key`, now or in an earlier process, or None."""
        return self.reader.verdict(key)

    def scored(self, key: str) -> Scored | None:
        """Return the listwise verdict that was bought under `key`, now or in an earlier process, or None."""
        return self.reader.scored(key)

    async def commit(self) -> None:
        """Wait until all that was added before is on disk. One fsync serves all who wait; no cancellation cuts it."""
        with disk_errors(self.folder):
            await self._group_commit.commit()

    def open_ranking(self, head: RankingHead) -> RankingWriter:
        """Start a ranking beside the ones that are there; it is on disk with its first verdict or its first group."""
        self._ranking = RankingWriter(self.folder / "rankings" / f"{head.id}.jsonl", head, self.redact)
        return self._ranking

    def close(self) -> None:
        """Close the segments and give the lock back."""
        try:
            with disk_errors(self.folder):
                self._sync()
        finally:
            for appender in self._appenders.values():
                appender.close()
            self.reader.close()
            self._lock.release()

    def __enter__(self) -> Self:
        """Return the store itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def settle(self) -> None:
        """Wait until every text put is on disk, record or no record."""
        with disk_errors(self.folder):
            self._sync()

    def _append(self, segment: str, kind: str, body: str) -> RecordPlace:
        with disk_errors(self.folder):
            appender = self._segment(segment)
            place = RecordPlace(appender.path, appender.append(kind, body, sync=False))
        self._group_commit.add()
        return place

    def _sync(self) -> None:
        """Sync what was written; blobs first, for a record must not outlive what it names."""
        for appender in sorted(self._appenders.values(), key=lambda a: a.path.parent.name != "blobs"):
            appender.sync()

    def _segment(self, name: str) -> Appender:
        if name not in self._appenders:
            path = _new_segment(self.folder / name, self._at)
            with disk_errors(self.folder):
                self._appenders[name] = _begun(path, {"at": self._at.isoformat()} | self._head)
        return self._appenders[name]


def _new_segment(folder: Path, at: datetime) -> Path:
    """Name a segment of this writer's so that it comes after those that are there, whatever the clock says.

    Of two records of one rollout that in the later segment counts.
    """
    stamps = [stamp[0] for p in files_in(folder) if (stamp := re.match(r"[0-9]{8}T[0-9]{12}(?=-)", p.name))]
    last, stamp = max(stamps, default=""), f"{at:{_STAMP}}"
    if last >= stamp:  # a stranger's stamp need not be a time: the digits are counted on
        digits = f"{int(last.replace('T', '')) + 1:020d}"
        stamp = f"{digits[:8]}T{digits[8:]}"
    if len(stamp) > _STAMP_LENGTH:
        raise ArchiveDamaged(f"{folder}: no name of a file comes after {last}; rename that file")
    return folder / f"{stamp}-{os.getpid()}-{threading.get_native_id()}.jsonl"


def _begun(path: Path, head: Mapping[str, Any]) -> Appender:
    appender = Appender(path)
    appender.append("header", json.dumps(head))
    return appender


def _write_queries(folder: Path, info: RunInfo, queries: Sequence[Query], redact: Redactor) -> None:
    head: dict[str, Any] = {"at": info.created_at.isoformat(), "versions": dict(info.versions), "accepted": []}
    appender = _begun(_new_segment(folder / "queries", info.created_at), head)
    for query in queries:
        appender.append("query", to_json(_redacted(query, redact)), sync=False)
    appender.sync()
    appender.close()


def _redacted(query: Query, redact: Redactor) -> Query:
    kept = redact.record(query)
    return kept if kept == query else kept.model_copy(update={"redacted": True})
