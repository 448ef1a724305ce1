"""Reading the files of a workspace, and writing recorded ones into one. No link is followed, and no mount entered."""

import hashlib
import io
import os
import stat
import tarfile
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple

from harness.core.unicode import valid_unicode
from harness.core.workspace_files import ChangedFile, FileState, bytes_of

MOST_BYTES, MOST_FILES = 16 << 20, 2000
"""Of the files that a rollout made or changed, and how many of them there may be."""
MOST_PACKED = 1 << 20
"""Bytes of a tar of them, as it is kept before each model call."""
_MOST_READ = 50_000
"""Files that a workspace may have."""
_REMEMBERED, _MOST_REMEMBERED = 1 << 18, 4096
_remembered: dict[str, bytes] = {}
"""What files held when rollouts began, by hash: the rollouts of a query begin alike."""
_READING = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK


class WorkspaceTooLarge(Exception):
    """A workspace holds more than is kept of one."""


class _Scan:
    """The states of a workspace's files, with those `before`: only what is not as it was then is read, and kept."""

    def __init__(self, before: Mapping[str, FileState] | None) -> None:
        self.states = dict[str, FileState]()
        self._before, self._bytes, self._files = before, 0, 0

    def add(self, path: str, state: Callable[[], FileState], size: int, stamp: tuple[int, ...] = ()) -> None:
        """Take a file. Raises WorkspaceTooLarge."""
        if len(self.states) == _MOST_READ:
            raise WorkspaceTooLarge(f"its workspace has more than {_MOST_READ:,} files")
        was = self._before.get(path) if self._before is not None else None
        if was and stamp and (was.stamp, was.size) == (stamp, size):
            self.states[path] = was
            return
        now = self.states[path] = state()
        if self._before is not None and now != was:
            self._bytes, self._files = self._bytes + size, self._files + 1
            if self._bytes > MOST_BYTES or self._files > MOST_FILES:
                most = f"{MOST_BYTES >> 20} MB, or {MOST_FILES:,} files"
                raise WorkspaceTooLarge(f"in its workspace it made or changed more than {most}, such as {path}")


def scan_folder(
    root: Path, skipped: Collection[str] = (), before: Mapping[str, FileState] | None = None
) -> dict[str, FileState]:
    """Return the files and links in a folder, but for the `skipped` paths in it. Raises WorkspaceTooLarge."""
    found, read, device = _Scan(before), _remember if before is None else _read, root.stat().st_dev
    for folder, names, files, fd in os.fwalk(root):
        inside = PurePosixPath(folder).relative_to(root)
        status = {name: os.stat(name, dir_fd=fd, follow_symlinks=False) for name in [*names, *files]}
        wanted = {name: s for name, s in status.items() if str(inside / name) not in skipped and s.st_dev == device}
        names[:] = [name for name in names if name in wanted]
        for name, s in wanted.items():
            path, stamp = valid_unicode(str(inside / name)), (s.st_mtime_ns, s.st_ctime_ns, s.st_ino)
            if stat.S_ISLNK(s.st_mode):
                link = valid_unicode(os.readlink(name, dir_fd=fd))
                found.add(path, lambda link=link: FileState(0, "", link=link), 0)
            elif stat.S_ISREG(s.st_mode):
                found.add(path, partial(_opened, name, fd, read, stamp), s.st_size, stamp)
    return found.states


def scan_tar(
    file: IO[bytes], skipped: Collection[str] = (), before: Mapping[str, FileState] | None = None
) -> dict[str, FileState]:
    """Return the files and links in a tar of a workspace, as scan_folder does."""
    found, read = _Scan(before), _remember if before is None else _read
    with tarfile.open(fileobj=file) as tar:
        for member in tar:
            path = valid_unicode(str(PurePosixPath(member.name)))
            if member.issym():
                found.add(path, lambda link=member.linkname: FileState(0, "", link=valid_unicode(link)), 0)
            elif member.isfile() and path not in skipped and (content := tar.extractfile(member)):
                found.add(path, partial(read, content, member.size, ()), member.size)
    return found.states


class PackedFiles(NamedTuple):
    """What a workspace holds that is not as it began."""

    tar: bytes
    gone: tuple[str, ...]
    """The files that are no longer there."""

    @property
    def names(self) -> set[str]:
        """Of all that is in the tar."""
        with tarfile.open(fileobj=io.BytesIO(self.tar)) as tar:
            return {valid_unicode(str(PurePosixPath(name))) for name in tar.getnames()}


def pack_changes(root: Path, skipped: Collection[str], before: Mapping[str, FileState]) -> PackedFiles:
    """Return what a folder holds that is not as it was `before`, by the times of files, but for the `skipped` paths.

    Raises WorkspaceTooLarge, and ValueError for a link that leads out of it, which the SDK does not put back.
    """
    file, there = io.BytesIO(), set[str]()
    with tarfile.open(fileobj=file, mode="w") as tar:

        def changed(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
            getattr(tar, "inodes").clear()  # noqa: B009 - else a second name of a file would be a link to the first
            name = str(PurePosixPath(member.name))
            path, s = valid_unicode(name), (root / name).lstat()
            if path in skipped or not (member.isfile() or member.isdir() or member.issym()):
                return None
            leads = os.path.normpath(PurePosixPath(name).parent / member.linkname) if member.issym() else ""
            if leads.startswith(("/", "..")):
                raise ValueError(f"its link {path} leads out of it")
            there.add(path)
            was = before.get(path)
            if member.isfile() and was and was.stamp == (s.st_mtime_ns, s.st_ctime_ns, s.st_ino):
                return None
            if file.tell() + member.size > MOST_PACKED:
                raise WorkspaceTooLarge(f"what changed in it takes more than {MOST_PACKED >> 20} MB")
            return member

        tar.add(root, arcname=".", filter=changed)
    return PackedFiles(file.getvalue(), tuple(sorted({*before} - there)))


def _opened(name: str, at: int, read: Callable[[IO[bytes], int, tuple[int, ...]], FileState], stamp: Any) -> FileState:
    with os.fdopen(os.open(name, _READING, dir_fd=at), "rb") as file:
        return read(file, os.fstat(file.fileno()).st_size, stamp)


def _read(file: IO[bytes], size: int, stamp: tuple[int, ...]) -> FileState:
    return _remember(file, size, stamp) if size > MOST_BYTES else FileState.of(file.read(MOST_BYTES), stamp)


def _remember(file: IO[bytes], size: int, stamp: tuple[int, ...]) -> FileState:
    """Return a file's state as rollouts begin, with what it holds while there is room for that."""
    if size > _REMEMBERED:
        sha256 = hashlib.sha256()
        while piece := file.read(_REMEMBERED):
            sha256.update(piece)
        return FileState(size, sha256.hexdigest(), stamp)
    state = FileState.of(file.read(_REMEMBERED), stamp)
    if state.sha256 not in _remembered and len(_remembered) == _MOST_REMEMBERED:
        return replace(state, data=None)
    return replace(state, data=_remembered.setdefault(state.sha256, state.data or b""))


def restore(root: Path, files: Iterable[ChangedFile], get: Callable[[str], str]) -> None:
    """Make a workspace what it was at a rollout's end, but for links; `get` finds a kept text.

    Raises ValueError for a file whose folder is a link that leads out of the workspace, or whose text is no base64.
    """
    for file in files:
        target = root / file.path
        if not target.parent.resolve().is_relative_to(root.resolve()):
            raise ValueError(f"{file.path} would lie outside of the workspace")
        data = bytes_of(file, get)
        if file.change == "removed":
            target.unlink(missing_ok=True)
        elif data is not None:
            target.parent.mkdir(parents=True, exist_ok=True)
            if target.is_symlink():
                target.unlink()
            target.write_bytes(data)
