"""The lines of a file, whatever is in it: memory and time are bounded by what stands on the disk."""

import errno
import os
from collections.abc import Iterator
from io import BytesIO
from typing import IO, NamedTuple

LONGEST = 256_000_000
"""How many bytes a line may have."""
_PIECE = 1 << 20


class RawLine(NamedTuple):
    """One line: its number from 1, its bytes from `start` to `end`, and as `data` (of one with a fault, the first)."""

    number: int
    start: int
    end: int
    data: bytes
    fault: str | None = None

    @property
    def torn(self) -> bool:
        """Whether the line has no end: a kill cut it off, and it never counted."""
        return self.fault is None and not self.data.endswith(b"\n")


def raw_lines(file: IO[bytes], start: int = 0, *, longest: int = LONGEST) -> Iterator[RawLine]:
    """Yield the lines of a file from byte `start` on; one of more than `longest` bytes has a fault."""
    file.seek(start)
    number = 0
    while data := file.readline(_PIECE):
        number += 1
        end = start + len(data)
        line = RawLine(number, start, end, data)
        if not data.endswith(b"\n") and len(data) == _PIECE:
            line = _long_line(file, line, longest)
            file.seek(line.end)
        yield line
        start = line.end


def data_pieces(file: IO[bytes], start: int, end: int | None = None) -> Iterator[tuple[int, bytes]]:
    """Yield the bytes of a file with their places, in pieces, past its holes; the file's own position stays."""
    descriptor = file.fileno()
    size = os.fstat(descriptor).st_size
    end = size if end is None else min(end, size)
    while (start := _past_hole(descriptor, start, end)) < end:
        if not (piece := os.pread(descriptor, min(_PIECE, end - start), start)):
            return
        yield start, piece
        start += len(piece)


def _long_line(file: IO[bytes], line: RawLine, longest: int) -> RawLine:
    """Return a line of which the first piece is read; it is held in memory only if it may be a record."""
    whole, end, piece = BytesIO(), line.start, line.data
    while b"\0" not in piece and end + len(piece) - line.start <= longest:
        end += whole.write(piece)
        if not piece or piece.endswith(b"\n"):
            return line._replace(end=end, data=whole.getvalue())  # of which BytesIO makes no copy
        piece = file.readline(_PIECE)
    del whole
    end, ended = os.fstat(file.fileno()).st_size, False
    for place, data in data_pieces(file, line.start):
        if (at := data.find(b"\n")) >= 0:
            end, ended = place + at + 1, True
            break
    if end - line.start > longest:
        return line._replace(end=end, fault=f"a line of more than {longest // 1_000_000} MB")
    return line._replace(end=end, fault="not a whole record" if ended else None)


def _past_hole(descriptor: int, start: int, end: int) -> int:
    """Return where data begins from `start` on; `end` if there are only holes."""
    if start >= end:
        return end
    here = os.lseek(descriptor, 0, os.SEEK_CUR)
    try:
        return min(end, os.lseek(descriptor, start, os.SEEK_DATA))
    except OSError as exc:
        return end if exc.errno == errno.ENXIO else start  # a file system may not know of holes
    finally:
        os.lseek(descriptor, here, os.SEEK_SET)
