"""Rankings files, written: header, a line a group, a footer when complete."""

import json
from pathlib import Path

from harness.archive.lines import Appender, disk_errors
from harness.archive.typed_records import RankingHead
from harness.core.rankings import GroupRanking
from harness.core.records import to_json
from harness.core.redaction import DEFAULT_REDACTOR, Redactor


class RankingWriter:
    """One rankings file: header, a line a group as it is ranked, footer when complete."""

    def __init__(self, path: Path, head: RankingHead, redact: Redactor = DEFAULT_REDACTOR) -> None:
        """Name the file; it is made, with its header, with the first verdict bought or group ranked."""
        self._path, self._head, self._groups, self._redact = path, redact.record(head), 0, redact
        self._appender: Appender | None = None

    def begin(self) -> None:
        """Write the header, unless it is written."""
        with disk_errors(self._path.parents[1]):
            self._open()

    def add(self, group: GroupRanking) -> None:
        """Write one group's ranking."""
        with disk_errors(self._path.parents[1]):  # it counts with the footer, and costs nothing
            _, body = self._redact.record_and_json(group)
            self._open().append("group", body, sync=False)
        self._groups += 1

    def finish(self) -> None:
        """Write the footer: the ranking is complete and will never change."""
        with disk_errors(self._path.parents[1]):
            self._open().append("footer", json.dumps({"groups": self._groups}))

    def close(self) -> None:
        """Close the file; without a footer it stays as the record of a ranking that was cut short."""
        if self._appender:
            self._appender.close()

    def _open(self) -> Appender:
        if self._appender is None:
            self._appender = Appender(self._path)
            self._appender.append("header", to_json(self._head))
        return self._appender
