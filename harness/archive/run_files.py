"""The files of a run, opened, made, replaced and removed: the only place that does.

A run may come from a stranger. The user names its folder, RUN, which may be a link. Below RUN no link is followed and
only plain files and folders count, at RUN/NAME or RUN/FOLDER/NAME; whatever else stands there is damage. Each function
opens RUN anew and walks down by descriptors.
"""

import fcntl
import os
import secrets
import stat
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from io import BufferedWriter, FileIO
from pathlib import Path
from typing import IO, NamedTuple

from harness.core.errors import ArchiveDamaged, CannotWrite

RECORDS = ".jsonl"
"""How the name of a file of records ends."""
PART = ".part"
"""How the name of a file ends that will take the place of a file of records."""
_BELOW = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
"""How everything below RUN is opened: a link is not followed, a FIFO is not waited for."""
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_BUFFER = 1 << 16
_KINDS = {
    stat.S_IFREG: "a file",
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a link",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class InfoFile(NamedTuple):
    """The file that makes a folder a run or a comparison: its name and its time (ns)."""

    name: str
    time_ns: int


def runs_in(runs_dir: Path, names: Sequence[str]) -> tuple[dict[Path, InfoFile], list[Path]]:
    """Return the folders in `runs_dir` with the first of `names` in each, and apart all links. Raises OSError."""
    runs: dict[Path, InfoFile] = {}
    links: list[Path] = []
    with run_folder(runs_dir) as descriptor, os.scandir(descriptor) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_symlink():
                links.append(runs_dir / entry.name)
                continue
            for name in names:
                if status := _status(descriptor, f"{entry.name}/{name}"):
                    runs[runs_dir / entry.name] = InfoFile(name, status.st_mtime_ns)
                    break
    return runs, sorted(links)


def files_in(folder: Path) -> dict[Path, int]:
    """Return the files of records in RUN/FOLDER by name, with their sizes in bytes. Raises ArchiveDamaged."""
    return {path: status.st_size for path, status in _records_in(folder).items()}


def stamps_in(folder: Path) -> dict[Path, tuple[int, ...]]:
    """Return the files as `files_in` does, with what changes when a file does: size, times (ns) and inode."""
    return {path: (s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino) for path, s in _records_in(folder).items()}


def _records_in(folder: Path) -> dict[Path, os.stat_result]:
    try:
        with _readable(folder), folder_below(folder) as descriptor, os.scandir(descriptor) as entries:
            named = sorted((e for e in entries if e.name.endswith(RECORDS)), key=lambda e: e.name)
            return {folder / e.name: _plain(folder / e.name, e.stat(follow_symlinks=False)) for e in named}
    except FileNotFoundError:
        return {}


def open_file(path: Path) -> IO[bytes]:
    """Open RUN/FOLDER/NAME for reading. Raises ArchiveDamaged if it cannot be read or is not a plain file."""
    with _readable(path, missing=True), folder_below(path.parent) as folder:
        return os.fdopen(_opened(folder, path, os.O_RDONLY), "rb", _BUFFER)


def read_file(path: Path, most: int) -> bytes:
    """Return the content of RUN/NAME. Raises ArchiveDamaged if it cannot be read or has more than `most` bytes."""
    with _readable(path, missing=True), run_folder(path.parent) as run:
        descriptor = _opened(run, path, os.O_RDONLY)
    with os.fdopen(descriptor, "rb") as file:
        size = os.fstat(descriptor).st_size
        if size > most:
            raise ArchiveDamaged(f"{path}: it has more than {most:,} bytes")
        return file.read(size)  # and not `most`: that much memory would be taken first


def create_file(path: Path) -> FileIO:
    """Create RUN/FOLDER/NAME (0600), unbuffered, and FOLDER (0700). Raises FileExistsError, ArchiveDamaged."""
    with folder_below(path.parent, make=True) as folder:
        file = FileIO(os.open(path.name, _NEW, 0o600, dir_fd=folder), "wb")
        os.fsync(folder)
    return file


def create_beside(path: Path) -> IO[bytes]:
    """Create RUN/FOLDER/NAME as `create_file` does, buffered; if the name is taken, under the next free number."""
    free, number = path, 1
    while True:
        try:
            return BufferedWriter(create_file(free))
        except FileExistsError:
            number += 1
            free = path.with_name(f"{path.stem}.{number}{path.suffix}")


@contextmanager
def replaced_file(path: Path) -> Generator[IO[bytes]]:
    """Put what the block writes in the place of RUN/FOLDER/NAME when the block ends well; if not, nothing changes."""
    part = path.with_suffix(PART)
    with folder_below(path.parent) as folder:
        _remove(folder, part)
        try:
            with os.fdopen(os.open(part.name, _NEW, 0o600, dir_fd=folder), "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.rename(part.name, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            _remove(folder, part)
            raise
        os.fsync(folder)


def write_file(path: Path, text: str) -> None:
    """Write RUN/NAME as `replace_in` does, on the disk. Raises CannotWrite, ArchiveDamaged if a folder stands there."""
    try:
        with run_folder(path.parent) as run:
            replace_in(run, path, text.encode(), sync=True)
    except IsADirectoryError:
        raise ArchiveDamaged(f"{path}: {_reason(stat.S_IFDIR, stat.S_IFREG)}") from None
    except OSError as exc:
        raise CannotWrite(f"cannot write {path}: {exc.strerror}") from exc


def replace_in(folder: int, path: Path, data: bytes, *, sync: bool = False) -> None:
    """Write a file (0600) in an open folder, whole or not at all, in the place of a link, too. Raises OSError."""
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(part.name, _NEW, 0o600, dir_fd=folder), "wb") as file:
            file.write(data)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        os.rename(part.name, path.name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        _remove(folder, part)
        raise


def append_to_file(path: Path, text: str) -> None:
    """Append lines to RUN/NAME (made with 0600), on the disk; a last line without its end gets it first.

    Raises CannotWrite; ArchiveDamaged if no plain file stands there.
    """
    try:
        with run_folder(path.parent) as run:
            descriptor = _opened(run, path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
            with os.fdopen(descriptor, "ab") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                size = os.fstat(descriptor).st_size
                torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
                file.write(("\n" * torn + text).encode())
                file.flush()
                os.fsync(descriptor)
    except OSError as exc:
        raise CannotWrite(f"cannot write {path}: {exc.strerror}") from exc


def remove_file(path: Path) -> None:
    """Remove RUN/FOLDER/NAME if it is there. Raises OSError, ArchiveDamaged for a folder."""
    with folder_below(path.parent) as folder:
        _remove(folder, path)


def remove_strange(run: Path, path: Path) -> None:
    """Remove RUN/NAME or RUN/FOLDER/NAME unless it is a plain file. Raises ArchiveDamaged for a folder."""

    def is_strange() -> bool:
        status = _status(folder, path.name)
        return status is not None and not stat.S_ISREG(status.st_mode)

    with run_folder(run) if path.parent == run else folder_below(path.parent) as folder:
        if is_strange():
            fcntl.flock(folder, fcntl.LOCK_EX)  # or two processes could remove the plain file that one of them makes
            if is_strange():
                _remove(folder, path)


def refuse_strange_records(run: Path, folders: Iterable[str]) -> None:
    """Raise ArchiveDamaged unless those of `folders` that are there are plain folders with plain files of records."""
    with _readable(run, missing=True), run_folder(run) as descriptor:
        for folder in folders:
            with suppress(FileNotFoundError), _below(descriptor, run / folder) as below, os.scandir(below) as entries:
                for entry in entries:
                    if entry.name.endswith(RECORDS) and not entry.is_file(follow_symlinks=False):
                        _plain(run / folder / entry.name, entry.stat(follow_symlinks=False))


class StrangeThing(NamedTuple):
    """Something in a run that may not stand there, and why."""

    path: Path
    reason: str
    is_folder: bool


def strange_things(run: Path, folders: Iterable[str], files: Iterable[str]) -> Iterator[StrangeThing]:
    """Yield what may not stand in a run and in its `folders`. Raises ArchiveDamaged if one cannot be read.

    `folders` must be folders and `files` files. What else is there may be either.
    """
    with _readable(run, missing=True), run_folder(run) as descriptor:
        wanted = dict.fromkeys(folders, stat.S_IFDIR) | dict.fromkeys(files, stat.S_IFREG)
        yield from _strange_in(descriptor, run, wanted.get)
        for folder in folders:
            with suppress(FileNotFoundError, ArchiveDamaged), folder_below(run / folder) as below:
                yield from _strange_in(below, run / folder, lambda n: stat.S_IFREG if n.endswith(RECORDS) else None)


def sync_folder(path: Path) -> None:
    """Make the entries of the folder RUN durable."""
    with run_folder(path) as folder:
        os.fsync(folder)


_HELD: dict[Path, int] = {}


@contextmanager
def held(run: Path) -> Generator[None]:
    """Let the path of a run's folder mean this folder, wherever the process may go: a tool may change directory."""
    with run_folder(run) as descriptor:
        _HELD[run] = descriptor
        try:
            yield
        finally:
            del _HELD[run]


def run_folder(run: Path) -> AbstractContextManager[int]:
    """Open a run's folder, which the user named: it may be a link. Raises OSError."""
    there = _HELD.get(run)
    return _closing(os.open(run if there is None else ".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=there))


@contextmanager
def folder_below(path: Path, *, make: bool = False) -> Generator[int]:
    """Open RUN/FOLDER, and `make` it (0700) if it is not there. Raises OSError, ArchiveDamaged for another thing."""
    with run_folder(path.parent) as run:
        if make:
            with suppress(FileExistsError):
                os.mkdir(path.name, 0o700, dir_fd=run)
                os.fsync(run)
        with _below(run, path) as descriptor:
            yield descriptor


def _below(run: int, path: Path) -> AbstractContextManager[int]:
    return _closing(_opened(run, path, os.O_RDONLY | os.O_DIRECTORY))


@contextmanager
def _closing(descriptor: int) -> Generator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _opened(folder: int, path: Path, flags: int) -> int:
    """Open `path`, by its name alone, in an open folder. Raises OSError, ArchiveDamaged for another kind of thing."""
    wanted = stat.S_IFDIR if flags & os.O_DIRECTORY else stat.S_IFREG
    if path.name in {"", ".."}:
        raise ArchiveDamaged(f"{path}: no name of a file")
    try:
        descriptor = os.open(path.name, flags | _BELOW, 0o600, dir_fd=folder)
    except OSError:
        _plain(path, os.stat(path.name, dir_fd=folder, follow_symlinks=False), wanted)
        raise
    try:
        _plain(path, os.fstat(descriptor), wanted)
    except ArchiveDamaged:
        os.close(descriptor)
        raise
    return descriptor


def _status(folder: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None


def _remove(folder: int, path: Path) -> None:
    """Remove what has the name of `path` in an open folder, if it is there. Raises ArchiveDamaged for a folder."""
    try:
        os.unlink(path.name, dir_fd=folder)
    except FileNotFoundError:
        pass
    except OSError:
        _plain(path, os.stat(path.name, dir_fd=folder, follow_symlinks=False))
        raise


def _plain(path: Path, status: os.stat_result, wanted: int = stat.S_IFREG) -> os.stat_result:
    if reason := _reason(status.st_mode, wanted):
        raise ArchiveDamaged(f"{path}: {reason}")
    return status


def _reason(mode: int, wanted: int | None) -> str | None:
    """Say what is wrong with a thing of `mode` where one of the kind `wanted` (None: a file or folder) should be."""
    kind = stat.S_IFMT(mode)
    if kind == wanted or (wanted is None and kind in {stat.S_IFREG, stat.S_IFDIR}):
        return None
    place = "a file or a folder" if wanted is None else _KINDS[wanted]
    return f"{_KINDS.get(kind, 'no plain file')} stands where {place} should be; put a plain copy there, or remove it"


def _strange_in(descriptor: int, folder: Path, wanted: Callable[[str], int | None]) -> Iterator[StrangeThing]:
    with os.scandir(descriptor) as entries:
        for entry in sorted(entries, key=lambda e: e.name):
            mode = entry.stat(follow_symlinks=False).st_mode
            if reason := _reason(mode, wanted(entry.name)):
                yield StrangeThing(folder / entry.name, reason, stat.S_ISDIR(mode))


@contextmanager
def _readable(path: Path, *, missing: bool = False) -> Generator[None]:
    """Turn an error of the disk's into damage; that a file is missing only if `missing`."""
    try:
        yield
    except OSError as exc:
        if isinstance(exc, FileNotFoundError) and not missing:
            raise
        raise ArchiveDamaged(f"{path}: {exc.strerror}") from None
