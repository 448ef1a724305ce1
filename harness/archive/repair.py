"""Mending a run: damaged lines go into `damaged/`, and nothing is lost."""

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from harness.archive.layout import ASIDE
from harness.archive.lines import decode
from harness.archive.raw_lines import RawLine, data_pieces, raw_lines
from harness.archive.run_files import create_beside, open_file, remove_strange, replaced_file
from harness.archive.validation import Finding
from harness.core.errors import ArchiveDamaged, CannotWrite, UsageError

_START = re.compile(rb'\{"crc":"')


def move_aside(folder: Path, damage: Iterable[Finding]) -> None:
    """Move the lines named into `damaged/`; all other lines stay as they are, byte for byte.

    A record that is whole in what a changed line end glued together is kept. What stands in the place of a page or a
    lock is removed. Raises CannotWrite, ArchiveDamaged.
    """
    by_file: dict[Path, set[int]] = {}
    for finding in damage:
        lines = by_file.setdefault(finding.path, set())
        if finding.line:
            lines.add(finding.line)
    try:
        for path, lines in by_file.items():
            if not lines:
                remove_strange(folder, path)
                continue
            aside = folder / ASIDE / f"{path.parent.name}-{path.name}"
            with open_file(path) as source, replaced_file(path) as good, create_beside(aside) as bad:
                for line in raw_lines(source):
                    if line.number not in lines:
                        _copy(source, line, good)
                        continue
                    if not _copy(source, line, bad):
                        bad.write(b"\n")
                    good.writelines(() if line.fault else _whole_in(line.data))
                bad.flush()
                os.fsync(bad.fileno())  # before the file without these lines takes the place of that with them
    except OSError as exc:
        raise CannotWrite(f"cannot repair {folder}: {exc.strerror}; nothing was lost") from exc


def _copy(source: IO[bytes], line: RawLine, target: IO[bytes]) -> bool:
    """Write a line of any length, and return whether it has a line's end. Holes stay holes."""
    if len(line.data) == line.end - line.start:
        target.write(line.data)
        return line.data.endswith(b"\n")
    base, ended = target.tell() - line.start, False
    for place, piece in data_pieces(source, line.start, line.end):
        target.seek(base + place)
        target.write(piece)
        ended = place + len(piece) == line.end and piece.endswith(b"\n")
    target.seek(base + line.end)
    target.truncate()
    return ended


def _whole_in(line: bytes) -> Iterator[bytes]:
    """Yield the records in a damaged line that are whole but for their line's end."""
    starts = [match.start() for match in _START.finditer(line)]
    if len(starts) < 2:
        starts = [0]
    for start, end in zip(starts, [*starts[1:], len(line)], strict=True):
        record = line[start : end - 1] + b"\n"
        if record != line:  # the line itself was looked at: if its checksum holds, something else is wrong with it
            try:
                decode(record, "")
            except (ArchiveDamaged, UsageError):
                continue
            yield record
