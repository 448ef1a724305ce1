"""The pages of a run's queries: plain files in one folder beside the run's own page, written when they change.

A page may come from a stranger. It is left as it is only if it has just the text that would be written, or if this
machine remembers that it wrote the file, and the file has not been touched since.
"""

import hashlib
import json
import os
import re
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from harness.archive.index_file import usual_caches
from harness.archive.run_files import folder_below, replace_in
from harness.core.errors import ArchiveDamaged, CannotWrite
from harness.core.records import BUILT_LATER

WrittenPage = tuple[str, tuple[int, int, int, int]]
"""Of a page: what it was made of, and inode, size, time of the content and time of the change of its file."""
_Count = Annotated[int, Field(ge=0)]
_MEMORY = TypeAdapter(dict[str, tuple[str, tuple[_Count, _Count, int, int]]], config=BUILT_LATER)
_MOST = 64_000_000
"""Bytes of a file above which the harness did not write it."""


_NAME_LENGTH = 60
_OURS = re.compile(r"\.?[A-Za-z0-9_-]{1,80}-[0-9a-f]{12}\.html(\.[0-9a-f]{8})?")
"""A page of a query, or what a killed process left of one."""


def page_name(query: str) -> str:
    """Return the file name of a query's page: safe whatever the query's id is, and another one for each id."""
    safe = re.sub(r"[^A-Za-z0-9_]+", "-", query[: 4 * _NAME_LENGTH])[:_NAME_LENGTH].strip("-") or "query"
    return f"{safe}-{hashlib.sha256(query.encode()).hexdigest()[:12]}.html"


def pages_folder(target: Path) -> Path:
    """Return the folder of the queries' pages that belongs to an index."""
    return target.with_suffix("") if target.suffix else target.with_name(f"{target.name}-pages")


class PageFolder:
    """The folder RUN/report, open for writing."""

    def __init__(self, path: Path, descriptor: int, memory: Path | None, *, remember: bool) -> None:
        """Take the open folder, and what this machine remembers of it; without `remember` pages are compared."""
        self._path, self._folder, self._memory = path, descriptor, memory
        self._earlier, self._pages = dict[str, WrittenPage](), dict[str, WrittenPage]()
        with suppress(OSError, ValidationError):  # what cannot be read counts as not written by us
            if memory and remember and memory.stat().st_size <= _MOST:
                self._earlier = _MEMORY.validate_json(memory.read_bytes())

    def keeps(self, name: str, made_of: str) -> bool:
        """Keep a page that this machine wrote of the same, and that is untouched; tell whether it could."""
        made, state = self._earlier.get(name, ("", None))
        if made != made_of or state is None or self._state(name) != state:
            return False
        self._pages[name] = (made, state)
        return True

    def write(self, name: str, made_of: str, text: str) -> bool:
        """Write a page, unsynced, unless its text is there; tell whether it was. Raises as `write_file` does."""
        content = text.encode()
        if changed := self._content(name, len(content)) != content:
            try:
                replace_in(self._folder, self._path / name, content)
            except IsADirectoryError:
                reason = "a folder stands where a file should be; remove it"
                raise ArchiveDamaged(f"{self._path / name}: {reason}") from None
            except OSError as exc:
                raise CannotWrite(f"cannot write {self._path / name}: {exc.strerror}") from exc
        if state := self._state(name):
            self._pages[name] = (made_of, state)
        return changed

    def close(self) -> None:
        """Remove the pages that were neither written nor kept, and remember the others."""
        with os.scandir(self._folder) as entries:
            names = [entry.name for entry in entries]
        for name in names:
            if name not in self._pages and _OURS.fullmatch(name):
                with suppress(OSError):  # a folder of that name is somebody's own
                    os.unlink(name, dir_fd=self._folder)
        self._note(self._pages)

    def break_off(self) -> None:
        """Remember what was written so far, and leave all pages where they are."""
        self._note(self._earlier | self._pages)

    def _note(self, pages: dict[str, WrittenPage]) -> None:
        """Remember what was written. Where that cannot be noted, pages are compared the next time."""
        if not self._memory or pages == self._earlier:
            return
        part = self._memory.with_name(f".{self._memory.name}.{secrets.token_hex(4)}")
        with suppress(OSError):
            self._memory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            part.write_text(json.dumps(pages), "utf-8")
            part.replace(self._memory)

    def _state(self, name: str) -> tuple[int, int, int, int] | None:
        """Return what shows that a plain file is untouched; None for anything else."""
        try:
            status = os.stat(name, dir_fd=self._folder, follow_symlinks=False)
        except OSError:
            return None
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
            return None
        return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns

    def _content(self, name: str, size: int) -> bytes | None:
        """Return what a plain file of just this size holds; None for anything else."""
        if (state := self._state(name)) is None or state[1] != size:
            return None
        try:
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=self._folder)
        except OSError:
            return None
        with os.fdopen(descriptor, "rb") as file:
            return file.read(size + 1)


@contextmanager
def opened_pages(path: Path, *, remember: bool, caches: Path | None = None) -> Generator[PageFolder]:
    """Open the folder RUN/report, made (0700) if it is not there; tidy it when the block ends well.

    What was written is remembered in `caches`, by default the user's own. Raises CannotWrite, ArchiveDamaged.
    """
    caches = caches or usual_caches()
    memory = caches / "pages" / f"{hashlib.sha256(os.fsencode(path.absolute())).hexdigest()}.json" if caches else None
    try:
        with folder_below(path, make=True) as descriptor:
            pages = PageFolder(path, descriptor, memory, remember=remember)
            try:
                yield pages
            except BaseException:
                pages.break_off()
                raise
            pages.close()
    except OSError as exc:
        raise CannotWrite(f"cannot write to {path}: {exc.strerror}") from exc


def remove_pages(path: Path) -> None:
    """Remove the pages of queries in RUN/report, and the folder if nothing else is in it. Raises ArchiveDamaged."""
    with suppress(FileNotFoundError), folder_below(path) as descriptor:
        PageFolder(path, descriptor, None, remember=False).close()
    with suppress(OSError):
        path.rmdir()
