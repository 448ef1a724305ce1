"""What stands in a folder, byte by byte: to prove that a command changed nothing there."""

import hashlib
import os
import stat
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Entry:
    """A file, folder, link or other thing, as it is; `content` is the sum of a file, or where a link points to."""

    kind: str
    mode: int
    size: int
    content: str


Snapshot = Mapping[str, Entry]
"""Entries by their paths, relative to the folder."""


def snapshot(folder: Path, *, leave_out: Iterable[Path] = ()) -> Snapshot:
    """Return what stands in `folder`, links not followed, without what is below the paths to leave out."""
    left_out = {os.path.normpath(path) for path in leave_out}
    return {os.path.relpath(path, folder): _entry(path) for path in _paths(os.fspath(folder), left_out)}


def changes(before: Snapshot, after: Snapshot) -> list[str]:
    """Return a line for each path that came, went or changed."""
    words = {(True, False): "gone", (False, True): "new", (True, True): "changed"}
    return [
        f"{words[path in before, path in after]}: {path}"
        for path in sorted(before.keys() | after.keys())
        if before.get(path) != after.get(path)
    ]


@contextmanager
def untouched(folder: Path, *, leave_out: Iterable[Path] = ()) -> Generator[None]:
    """Fail where anything in `folder` changes within the block."""
    left_out = tuple(leave_out)
    before = snapshot(folder, leave_out=left_out)
    yield
    if changed := changes(before, snapshot(folder, leave_out=left_out)):
        raise AssertionError(", ".join(changed))


def _paths(folder: str, left_out: set[str]) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda e: e.name):
            if os.path.normpath(entry.path) in left_out:
                continue
            yield entry.path
            if entry.is_dir(follow_symlinks=False):
                yield from _paths(entry.path, left_out)


def _entry(path: str) -> Entry:
    status = os.lstat(path)
    kind = stat.filemode(status.st_mode)[0]
    content = ""
    if stat.S_ISREG(status.st_mode):
        content = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    elif stat.S_ISLNK(status.st_mode):
        content = str(Path(path).readlink())
    # The size of a folder is the file system's own business, and tells nothing of its content.
    size = 0 if stat.S_ISDIR(status.st_mode) else status.st_size
    return Entry(kind, stat.S_IMODE(status.st_mode), size, content)
