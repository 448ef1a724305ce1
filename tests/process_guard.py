"""Refuses to start processes while a test runs that is not marked `process`."""

import platform
import sys
from collections.abc import Generator
from contextlib import contextmanager

_EVENTS = {"subprocess.Popen", "os.exec", "os.fork", "os.forkpty", "os.kill", "os.posix_spawn", "os.spawn", "os.system"}
"""Python's audit events of a process that is started or killed."""


class ProcessRefused(Exception):
    """A test that is not marked `process` started or killed a process."""


class ProcessGuard:
    """An audit hook that refuses processes within `refused`. Audit hooks cannot be removed, so there is one."""

    def __init__(self) -> None:
        self._refusals: list[str] | None = None
        platform.processor()  # the openai client asks once a process, and `uname -p` answers
        sys.addaudithook(self._audit)

    @contextmanager
    def refused(self, *, unless: bool = False) -> Generator[None]:
        """Refuse every process in this block, and raise ProcessRefused even where the block swallowed the refusal."""
        before = self._refusals
        self._refusals = refusals = []
        if unless:
            self._refusals = None
        try:
            yield
        finally:
            self._refusals = before
        if refusals:
            raise ProcessRefused(refusals[0])

    def _audit(self, event: str, args: tuple[object, ...]) -> None:
        if self._refusals is not None and event in _EVENTS:
            self._refusals.append(f"{event}{args[:2]}: mark this test with pytest.mark.process")
            raise ProcessRefused(self._refusals[0])


PROCESSES = ProcessGuard()
