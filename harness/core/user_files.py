"""Files that a user names, whatever stands there: UTF-8 text, read whole or line by line, within bounds.

Every fault raises UsageError in one line that begins with the file's name. A folder, a device and a named pipe are
refused: a device has no end, and a pipe to which nobody writes keeps a command waiting. The pipes of a shell are read:
standard input, and `/dev/fd/63` that stands for `<(command)`.
"""

import io
import os
import stat
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from harness.core.errors import UsageError

_NAME = "arena-harness"


def state_folder(environ: Mapping[str, str]) -> Path:
    """Return where this machine keeps its own record of runs: `$XDG_STATE_HOME/arena-harness`. It may not exist yet."""
    return _folder(environ, "XDG_STATE_HOME", ".local/state")


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Return where caches are: `$XDG_CACHE_HOME/arena-harness`. It may not exist, and may be deleted at any time."""
    return _folder(environ, "XDG_CACHE_HOME", ".cache")


def _folder(environ: Mapping[str, str], variable: str, usual: str) -> Path:
    named = Path(environ.get(variable, ""))
    if named.is_absolute():  # the XDG Base Directory Specification: a relative path is to be ignored
        return named / _NAME
    return home_folder(environ) / usual / _NAME


def home_folder(environ: Mapping[str, str]) -> Path:
    """Return the user's own folder. Raises RuntimeError for a user without one."""
    home = environ.get("HOME")
    return Path(home) if home else Path.home()


MOST_BYTES = 1 << 30
"""Of a file that is read whole."""
LONGEST_LINE = 256 << 20
"""Bytes of a line."""
_FROM_A_SHELL = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")
_MARKS = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}


def is_file(path: Path) -> bool:
    """Return whether there is a file; False also for a path that no file system takes: too long, or with NUL."""
    return os.path.isfile(path)  # noqa: PTH113 - Path.is_file raises OSError for a name that is too long


def is_folder(path: Path) -> bool:
    """Return whether there is a folder, as `is_file`."""
    return os.path.isdir(path)  # noqa: PTH112 - as above


def read_text(path: Path, name: str, *, most: int = MOST_BYTES) -> str:
    """Return a file's text without a byte order mark. Raises UsageError, also for more than `most` bytes."""
    with open_binary(path, name) as file, _readable(name):
        content = file.read(most + 1)
    if len(content) > most:
        raise UsageError(f"{name}: is larger than {most:,} bytes, the most that is read of such a file")
    return _decode(content, name).removeprefix("\ufeff")


def text_lines(path: Path | None, name: str) -> Generator[tuple[int, str]]:
    """Yield the lines of a file with their numbers from 1, each with its line break; None is standard input.

    Only a line feed ends a line: JSON may hold U+2028 and its like. Raises UsageError, also for NUL, which no text has.
    """
    with _standard_input(name) if path is None else open_binary(path, name) as file:
        number = 0
        while True:
            with _readable(name):
                line = file.readline(LONGEST_LINE + 1)
            if not line:
                return
            number += 1
            place = f"{name}:{number}"
            if len(line) > LONGEST_LINE:
                raise UsageError(f"{place}: a line of more than {LONGEST_LINE:,} bytes, the most that is read")
            text = _decode(line, place)
            if "\0" in text:
                raise UsageError(f"{place}: cannot be read: it is not text (character {text.index(chr(0))} is NUL)")
            yield number, text.removeprefix("\ufeff") if number == 1 else text


def open_binary(path: Path, name: str) -> BinaryIO:
    """Open a file for reading. Raises UsageError."""
    with _readable(name):
        kind = os.stat(path).st_mode  # noqa: PTH116 - Path.stat is the same
        if not stat.S_ISREG(kind) and not str(path).startswith(_FROM_A_SHELL):
            kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket"}
            what = kinds.get(stat.S_IFMT(kind), "a device")
            raise UsageError(f"{name}: cannot be read: it is {what}, not a file")
        return path.open("rb")


def _decode(content: bytes, name: str) -> str:
    """Return bytes as text. Raises UsageError for what is no UTF-8."""
    if content[:2] in _MARKS:
        raise UsageError(f"{name}: cannot be read: it is not UTF-8 but {_MARKS[content[:2]]} text; save it as UTF-8")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as exc:
        fault = f"byte {exc.start} is {content[exc.start]:#04x}"
        raise UsageError(f"{name}: cannot be read: it is not UTF-8 text ({fault}); save it as UTF-8") from None


@contextmanager
def _readable(name: str) -> Generator[None]:
    try:
        yield
    except (OSError, ValueError) as exc:  # ValueError: NUL in a path
        raise UsageError(f"{name}: cannot be read ({getattr(exc, 'strerror', None) or exc})") from None


@contextmanager
def _standard_input(name: str) -> Generator[BinaryIO]:
    """Give standard input as bytes: as text, Python may take bytes that are no text for characters."""
    if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison] - a shell's `<&-` closes it
        raise UsageError(f"{name}: standard input is closed")
    stream = getattr(sys.stdin, "buffer", None)  # a text stream that a caller from Python put there has none
    yield stream or io.BytesIO(sys.stdin.read().encode("utf-8", "surrogateescape"))
