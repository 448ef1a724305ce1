"""A folder of the archive, a run's or a comparison's, open for writing: its lock, its segments, texts and verdicts.

The fsync waits for the loop's next turn, so that all who end in this one share it. Where the disk is quick (a fifth of
a millisecond) it is then made on the loop: a hop to a thread costs as much CPU as the rest of archiving a rollout.
Where it has lately been slow, it is made in a worker thread, and all that is written meanwhile shares the next one.
"""

import asyncio
import hashlib
import json
import os
import re
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import anyio
from filelock import FileLock, Timeout

from harness.archive.lines import Appender, RecordPlace, disk_errors
from harness.archive.reader import FolderReader, blob_body, blob_name
from harness.archive.result_files import ResultWriter
from harness.archive.run_files import RECORDS, files_in, held, remove_strange, sync_folder
from harness.archive.run_info import LOCK
from harness.core.errors import ArchiveDamaged, ArchiveLocked, CannotWrite, UsageError, on_a_line, option
from harness.core.rankings import AnyVerdict, Judged, Scored, Unjudged, Unscored
from harness.core.redaction import DEFAULT_REDACTOR, Redactor

SLOW_S = 0.002
"""From here on the loop must not wait for the disk."""


class GroupCommit:
    """Makes what was added durable, by `sync`, which may be called from another thread."""

    def __init__(self, sync: Callable[[], None]) -> None:
        self._sync = sync
        self._added = self._safe = 0
        self._took_s = 0.0
        self._flush: asyncio.Task[None] | None = None

    def add(self) -> None:
        """Something was written, and is not yet safe."""
        self._added += 1

    async def commit(self) -> None:
        """Wait until all that was added before is safe, cancelled or not: it is paid for. Raises OSError for all."""
        mine = self._added
        while self._safe < mine:
            if self._flush is None or self._flush.done():
                self._flush = asyncio.create_task(self._soon())
                # an error that nobody waits for any more is taken note of; the next commit meets it again
                self._flush.add_done_callback(lambda done: done.cancelled() or done.exception())
            flush = self._flush
            with anyio.CancelScope(shield=True):
                await asyncio.wait([flush])
            if not flush.cancelled():  # else somebody cancelled whatever task there was: it is made anew
                flush.result()

    async def _soon(self) -> None:
        await asyncio.sleep(0)
        added = self._added
        if self._took_s < SLOW_S:
            self._timed()
        else:
            await asyncio.to_thread(self._timed)
        self._safe = max(self._safe, added)

    def _timed(self) -> None:
        began = time.perf_counter()
        self._sync()
        self._took_s = 0.5 * self._took_s + 0.5 * (time.perf_counter() - began)


ReaderT = TypeVar("ReaderT", bound=FolderReader)
_STAMP = "%Y%m%dT%H%M%S%f"
_STAMP_LENGTH = len("20260721T140320000000")


class FolderStore(Generic[ReaderT]):
    """What runs and comparisons have in common, open for writing under its lock. Use it as a context manager."""

    costs_nothing: ClassVar[frozenset[str]]
    """The segments of which no record was paid for."""

    def __init__(
        self,
        reader: ReaderT,
        at: datetime,
        *,
        versions: Mapping[str, str],
        accepted: Sequence[str] = (),
        redact: Redactor = DEFAULT_REDACTOR,
    ) -> None:
        """Lock the folder that `reader` reads; all that is written goes through `redact`. Raises as `lock_folder`.

        `versions` (of this process) and what the user `accepted` go into the header of every segment it writes.
        """
        self.folder = folder = reader.folder
        self.reader, self.redact, self._at = reader, redact, at
        self.verdict, self.pair_scores, self.scored = reader.verdict, reader.pair_scores, reader.scored
        self._made_runs_dir = False
        self._head: dict[str, Any] = {"versions": dict(versions), "accepted": list(accepted)}
        self._open = ExitStack()
        self._open.callback(lock_folder(folder).release)
        self._open.enter_context(held(folder))
        self._appenders: dict[str, Appender] = {}
        self._group_commit = GroupCommit(self._sync)
        self._results: ResultWriter[Any, Any] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing has been written that was paid for."""
        return not self._appenders.keys() - self.costs_nothing

    def accept(self, what: str) -> None:
        """Note in the headers of the segments begun from now on what the user was warned of and went on with."""
        self._head["accepted"] = [*self._head["accepted"], what]

    def discard(self) -> None:
        """Remove the folder. Raises RuntimeError for one in which anything was paid for."""
        if not self.is_empty:
            raise RuntimeError("a run with records is never discarded")
        self.close()
        shutil.rmtree(self.folder)
        if self._made_runs_dir:
            with suppress(OSError):  # another process has put a run there
                self.folder.parent.rmdir()

    def put_blob(self, text: str, *, as_is: bool = False) -> str:
        """Keep a large text and return its sha256. It is safe no later than the next record, which may name it."""
        text = text if as_is else self.redact.blob(text)
        name, stored = blob_name(text), self.reader.blobs
        if "blobs" not in self._appenders:
            stored.scan()  # once is enough: nobody else writes to the folder
        if name not in stored:
            place = self._append("blobs", "blob", blob_body(name, text))
            stored.add_place(name, place, self._appenders["blobs"].size)
        return name

    def get_blob(self, name: str) -> str:
        """Return a text that was kept. Raises ArchiveDamaged where there is none of that name."""
        return self.reader.blobs.get(name)

    def expect_verdict(self) -> None:
        """Note that a judge is about to be asked: a kill from here on leaves a trace of what it was asked for."""
        if self._results:
            self._results.announce()

    def add_verdict(self, verdict: AnyVerdict) -> None:
        """Keep a verdict."""
        index = self.reader.index  # built before the line is there, or the line would be found twice
        _, body = self.redact.record_and_json(verdict)
        if self._results:
            self._results.begin()
        place = self._append("verdicts", "verdict", body)
        if isinstance(verdict, Judged | Scored):
            index.add(index.verdicts, verdict.key, place)

    async def commit(self) -> None:
        """Wait until all that was added before is on disk. One fsync serves all who wait; no cancellation cuts it."""
        with disk_errors(self.folder):
            await self._group_commit.commit()

    def close(self) -> None:
        """Close the segments and give the lock back."""
        try:
            self.settle()
        finally:
            for appender in self._appenders.values():
                appender.close()
            self.reader.close()
            self._open.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def settle(self) -> None:
        """Wait until every text put is on disk, record or no record."""
        with disk_errors(self.folder):
            self._sync()

    def _append(self, segment: str, kind: str, body: str) -> RecordPlace:
        with disk_errors(self.folder):
            if segment not in self._appenders:
                self._appenders[segment] = begin_segment(self.folder / segment, self._at, self._head)
            appender = self._appenders[segment]
            place = RecordPlace(appender.path, appender.append(kind, body, sync=False))
        self._group_commit.add()
        return place

    def _sync(self) -> None:
        """Sync what was written; blobs first, for a record must not outlive what it names."""
        for appender in sorted(self._appenders.values(), key=lambda a: a.path.parent.name != "blobs"):
            appender.sync()


def lock_folder(folder: Path) -> FileLock:
    """Return the lock of a folder for one writer. Raises ArchiveLocked where another has it, CannotWrite."""
    lock = FileLock(folder / LOCK, mode=0o600, thread_local=False)  # another thread may close the folder
    try:
        remove_strange(folder, folder / LOCK)
        lock.acquire(timeout=0)
    except Timeout:
        raise ArchiveLocked(f"{folder} is in use by another harness process; wait for it or stop it") from None
    except OSError as exc:
        raise CannotWrite(f"cannot write to {folder}: {exc.strerror}") from None
    return lock


def begin_segment(folder: Path, at: datetime, head: Mapping[str, Any]) -> Appender:
    """Begin a file of this writer's, with its header, in a folder of records. Raises OSError, ArchiveDamaged.

    Its name comes after those that are there, whatever the clock says: the later of two records of one rollout counts.
    """
    stamps = [stamp[0] for p in files_in(folder) if (stamp := re.match(r"[0-9]{8}T[0-9]{12}(?=-)", p.name))]
    last, stamp = max(stamps, default=""), f"{at:{_STAMP}}"
    if last >= stamp:  # a stranger's stamp need not be a time: the digits are counted on
        digits = f"{int(last.replace('T', '')) + 1:020d}"
        stamp = f"{digits[:8]}T{digits[8:]}"
    if len(stamp) > _STAMP_LENGTH:
        raise ArchiveDamaged(f"{folder}: no name of a file comes after {last}; rename that file")
    appender = Appender(folder / _segment_name(stamp))
    appender.append("header", json.dumps({"at": at.isoformat()} | dict(head)))
    return appender


def make_folder(target: Path, name: str, info: str, fill: Callable[[Path], None] = lambda _: None) -> bool:
    """Make the folder RUNS/ID with its file `name` and what `fill` puts there; return whether RUNS was made for it.

    It is made under a dot-name and then renamed: no half folder exists. What processes that were killed left under
    dot-names is removed. Raises UsageError, and what `fill` raises.
    """
    runs_dir, part = target.parent, target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        is_first = not runs_dir.exists()
        runs_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        _remove_leftovers(runs_dir)
        part.mkdir(mode=0o700)
        lock = lock_folder(part)
        try:
            with os.fdopen(os.open(part / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(info.encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
            fill(part)
            sync_folder(part)
            part.rename(target)
        finally:
            lock.release()
        sync_folder(runs_dir)
    except BaseException as exc:
        shutil.rmtree(part, ignore_errors=True)
        if not isinstance(exc, OSError):
            raise
        raise UsageError(
            f"cannot make a run in {on_a_line(runs_dir)}/: {exc.strerror}; choose another with {option('runs_dir')}"
        ) from exc
    return is_first


_LEFTOVER = re.compile(r"\.[A-Za-z0-9].*\.[0-9a-f]{8}")


def _remove_leftovers(runs_dir: Path) -> None:
    """Remove the folders that were begun by processes that are no more: with a lock that nobody holds."""
    with os.scandir(runs_dir) as entries:
        begun = [Path(e.path) for e in entries if _LEFTOVER.fullmatch(e.name) and e.is_dir(follow_symlinks=False)]
    for folder in begun:
        if (folder / LOCK).is_file():
            with suppress(ArchiveLocked, ArchiveDamaged, CannotWrite):
                lock = lock_folder(folder)
                shutil.rmtree(folder, ignore_errors=True)
                lock.release()


def segment_names(at: datetime) -> Iterator[str]:
    """Yield names of segments, each of which comes after the one before."""
    return (_segment_name(f"{at + timedelta(microseconds=number):{_STAMP}}") for number in count())


def _segment_name(stamp: str) -> str:
    return f"{stamp}-{os.getpid()}-{threading.get_native_id()}{RECORDS}"


_SEGMENTS = ("verdicts", "blobs")
_FAILED_KEPT = 1000


class VerdictFolder(FolderStore[FolderReader]):
    """Verdicts on disk without a run, open for writing under the folder's lock."""

    costs_nothing: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, folder: Path, at: datetime, *, redact: Redactor = DEFAULT_REDACTOR) -> None:
        """Open the folder, or make it (0700). Raises ArchiveLocked, CannotWrite, ArchiveDamaged."""
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
