"""Files of results, written: header, a line a result, a footer when complete. Rankings and comparisons are such."""

import json
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from harness.archive.lines import Appender, disk_errors
from harness.core.records import Record, to_json
from harness.core.redaction import DEFAULT_REDACTOR, Redactor

HeadT = TypeVar("HeadT", bound=Record)
LineT = TypeVar("LineT", bound=Record)


class ResultWriter(Generic[HeadT, LineT]):
    """One file of results: header, a line a result as it comes, footer when complete."""

    kind: ClassVar[str]
    """Of the lines of results."""
    counted: ClassVar[str]
    """What the footer calls the number of results."""

    def __init__(self, path: Path, head: HeadT, redact: Redactor = DEFAULT_REDACTOR) -> None:
        """Name the file; it is made, with its header, with the first verdict bought or the first result."""
        self._path, self._head, self._results, self._redact = path, redact.record(head), 0, redact
        self._appender: Appender | None = None

    def begin(self) -> None:
        """Write the header, unless it is written."""
        with disk_errors(self._path.parents[1]):
            self._open()

    def add(self, result: LineT) -> None:
        """Write one result."""
        with disk_errors(self._path.parents[1]):  # it counts with the footer, and costs nothing
            _, body = self._redact.record_and_json(result)
            self._open().append(self.kind, body, sync=False)
        self._results += self._counts(result)

    def finish(self) -> None:
        """Write the footer: the file is complete and will never change."""
        with disk_errors(self._path.parents[1]):
            self._open().append("footer", json.dumps({self.counted: self._results} | self._also()))

    def close(self) -> None:
        """Close the file; without a footer it stays as the record of work that was cut short."""
        if self._appender:
            self._appender.close()

    def _also(self) -> dict[str, Any]:
        """Return what else the footer holds."""
        return {}

    def _counts(self, result: LineT) -> bool:
        """Tell whether the footer counts a result."""
        del result
        return True

    def _open(self) -> Appender:
        if self._appender is None:
            self._appender = Appender(self._path)
            self._appender.append("header", to_json(self._head))
        return self._appender
