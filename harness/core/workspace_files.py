"""Files that a rollout made, changed or removed in its workspace: their record, and what has become of two states.

Pure: the files are read elsewhere.
"""

import base64
import difflib
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

_LARGEST_DIFF = 1 << 18
"""Bytes of a file of which a diff is made."""


class ChangedFile(BaseModel):
    """What became of one file of a workspace."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    path: Annotated[str, Field(pattern=r"^[^/]")]
    """Within the workspace, with slashes."""
    change: Literal["added", "changed", "removed"]
    workspace: int = Field(default=0, exclude_if=lambda number: not number)
    """Which workspace of the rollout, in the order in which they were made."""
    size: int = 0
    """Bytes that the file has now."""
    diff: str | None = None
    """A unified diff without its head; None where a side is no text, is larger than 256 KB or is not known."""
    blob: str | None = None
    """Blob with the file as it is now: a text, or base64 of its bytes where `binary`."""
    binary: bool = False
    link: str | None = Field(default=None, exclude_if=lambda link: link is None)
    """Where a symbolic link leads: nothing follows it."""

    @field_validator("path")
    @classmethod
    def _stays_inside(cls, path: str) -> str:
        if ".." in path.split("/"):
            raise ValueError("a path within a workspace is expected")
        return path

    @property
    def heading(self) -> str:
        """The file, and what became of it, in words."""
        of = f"workspace {self.workspace + 1}: " if self.workspace else ""
        if self.link is not None:
            return f"{of}{self.path} ({self.change}, a link to {self.link})"
        size = "" if self.change == "removed" else f", {self.size:,} bytes"
        return f"{of}{self.path} ({self.change}{size}{', binary' if self.binary else ''})"


@dataclass(frozen=True)
class FileState:
    """A file at one time. `data` is None where the file is not read, or too large to be remembered."""

    size: int
    sha256: str
    stamp: tuple[int, ...] = field(default=(), compare=False)
    """What is another one when a file was written: times and number of its inode. Empty where the bytes alone tell."""
    data: bytes | None = field(default=None, compare=False)
    link: str | None = None

    @classmethod
    def of(cls, data: bytes, stamp: tuple[int, ...] = ()) -> "FileState":
        """Return the state of a file that holds `data`."""
        return cls(len(data), hashlib.sha256(data).hexdigest(), stamp, data)


@dataclass(frozen=True)
class FileChange:
    """What became of one file, with its bytes."""

    path: str
    before: FileState | None
    after: FileState | None

    def record(self, workspace: int, keep: Callable[[str], str], keep_as_is: Callable[[str], str]) -> ChangedFile:
        """Return the record; a text is kept by `keep`, the base64 of bytes `as is`, and the name of either returned."""
        after, blob, binary = self.after, None, False
        if after and after.data is not None:
            text = _text(after.data)
            binary = text is None
            blob = keep_as_is(base64.b64encode(after.data).decode()) if text is None else keep(text)
        return ChangedFile(
            path=self.path,
            change="removed" if after is None else "changed" if self.before else "added",
            workspace=workspace,
            size=after.size if after else 0,
            diff=None if after and after.link else _diff(self.before, after),
            blob=blob,
            binary=binary,
            link=after.link if after else None,
        )


def changes(before: Mapping[str, FileState], after: Mapping[str, FileState]) -> Iterator[FileChange]:
    """Yield what became of the files of a workspace, by path."""
    for path in sorted({*before, *after}):
        was, is_ = before.get(path), after.get(path)
        if was != is_:
            yield FileChange(path, was, is_)


def files_text(files: Sequence[ChangedFile], named: Callable[[str], str], shown: Callable[[str], str]) -> str:
    """Return files as a text: each with its heading, as `named` writes it, and its diff as `shown` does."""
    blocks = [f"{len(files)} in the workspace {'was' if len(files) == 1 else 'were'} made, changed or removed"]
    for file in files:
        lines = shown(file.diff).removesuffix("\n").split("\n") if file.diff else []
        blocks.append("\n".join([named(file.heading), *(f"| {line}" for line in lines)]))
    return "\n\n".join(blocks)


def bytes_of(file: ChangedFile, get: Callable[[str], str]) -> bytes | None:
    """Return what a file holds, by its record; `get` finds a kept text. None for one that is gone or was not kept.

    Raises ValueError where the text is no base64 and should be.
    """
    if file.blob is None:
        return None
    text = get(file.blob)
    return base64.b64decode(text, validate=True) if file.binary else text.encode("utf-8", "surrogatepass")


def _text(data: bytes) -> str | None:
    try:
        return None if b"\0" in data else data.decode()
    except UnicodeDecodeError:
        return None


def _diff(before: FileState | None, after: FileState | None) -> str | None:
    sides = list[list[str]]()
    for state in (before, after):
        data = b"" if state is None else state.data
        text = None if data is None or len(data) > _LARGEST_DIFF else _text(data)
        if text is None:
            return None
        sides.append(text.splitlines(keepends=True))
    lines = list(difflib.unified_diff(sides[0], sides[1]))[2:]
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
