"""Which file two rollouts of a run write: an audit hook looks at each file that Python opens for writing.

Python has no way to take an audit hook away again. It is added when the first run begins, and does nothing outside of a
rollout. What child processes write is not seen.
"""

import inspect
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any

import agents

from harness.archive import run_files
from harness.core.errors import on_a_line
from harness.rollouts.lifecycle import set_within

OnWrite = Callable[[str, str], None]
"""Called with the path that is written, and the rollout that writes it."""
_writing: ContextVar[Callable[[str], None] | None] = ContextVar("harness_writing", default=None)
_FOR_WRITING = os.O_WRONLY | os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC
_WITHIN = {
    str(run_files.__file__),
    str(Path(agents.__file__).parent / "sandbox" / "sandboxes" / "_unix_local_file_ops.py"),
}
"""Code that opens files by their names within a folder, which an event does not tell."""
_MOST = 10_000
"""Paths that are remembered: a run's temporary files would only fill the memory."""
_MOST_NOTES = 5


class WrittenFiles:
    """Notes once a path that two rollouts of a run write it."""

    def __init__(self, note: Callable[[str], None], advice: str) -> None:
        """Call `note` with what the user should read; `advice` says how to keep rollouts apart."""
        self._note, self._advice = note, advice
        self._writers: dict[str, str] = {}
        self._noted: set[str] = set()

    def wrote(self, path: str, rollout: str) -> None:
        """Note that a rollout opens a path for writing."""
        first = self._writers.setdefault(path, rollout)
        if len(self._writers) > _MOST:
            self._writers.pop(next(iter(self._writers)), None)
        if first != rollout and path not in self._noted and len(self._noted) < _MOST_NOTES:
            self._noted.add(path)
            self._note(f"rollouts {first} and {rollout} both write {on_a_line(path)}: {self._advice}")


def writes_told(on_write: OnWrite, rollout: str) -> AbstractContextManager[None]:
    """In this task, and in the tasks and threads that it starts, tell `on_write` of each path opened for writing."""
    _add_hook()

    def wrote(path: str) -> None:
        on_write(path, rollout)

    return set_within(_writing, wrote)


@cache
def _add_hook() -> None:
    sys.addaudithook(_look)


def _look(event: str, args: tuple[Any, ...]) -> None:
    if event == "open":
        path, _, flags = args
        is_written = isinstance(flags, int) and flags & _FOR_WRITING
    elif event == "sqlite3.connect":
        path, is_written = args[0], True
    else:
        return
    wrote = _writing.get()
    if not (is_written and wrote) or not isinstance(path, str | bytes | os.PathLike):
        return
    name = os.fsdecode(path)  # pyright: ignore[reportUnknownArgumentType]
    if not name or name.startswith(("/dev/", ":memory:", "file:")):
        return
    frame = inspect.currentframe()
    if not Path(name).is_absolute() and frame and frame.f_back and frame.f_back.f_code.co_filename in _WITHIN:
        return  # the archive's own, or in a workspace, which no other rollout has
    if not (file := Path(name)).is_dir():  # the folder of a temporary file
        wrote(str(file.absolute()))
