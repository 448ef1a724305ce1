"""One run out of several: the files of records are copied line by line, and then the whole is checked.

Rankings are not copied: of each ranking that all runs have, one file is written.
"""

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from io import BufferedWriter
from pathlib import Path

from harness.archive.folder_store import lock_folder
from harness.archive.lines import disk_errors, raw_lines
from harness.archive.run_files import create_file, files_in, open_file, strange_things
from harness.archive.run_info import SEGMENTS
from harness.archive.store import RankingWriter
from harness.archive.typed_records import RankingHead
from harness.archive.validation import findings
from harness.core.errors import ArchiveDamaged, CannotWrite
from harness.core.rankings import GroupRanking

_COPIED = [segment for segment in SEGMENTS if segment != "rankings"]


@contextmanager
def at_rest(run: Path) -> Generator[None]:
    """Keep every writer out of a run meanwhile, unless nobody can write to it here. Raises ArchiveLocked."""
    try:
        lock = lock_folder(run)
    except CannotWrite:
        yield
        return
    try:
        yield
    finally:
        lock.release()


def copy_records(run: Path, target: Path, names: Iterator[str]) -> dict[Path, Path]:
    """Copy the files of records of a run, rankings aside, into another folder, each under the next of `names`.

    Return which file is a copy of which; a torn last line is left out. Raises ArchiveDamaged, CannotWrite.
    """
    for path, reason, _ in strange_things(run, SEGMENTS, ()):
        if path.parent != run or path.name in SEGMENTS:  # pages, say, are not copied
            raise ArchiveDamaged(f"{path}: {reason}")
    copies: dict[Path, Path] = {}
    for segment in _COPIED:
        for path in files_in(run / segment):
            copy = target / segment / next(names)
            with disk_errors(target.parent), open_file(path) as lines, BufferedWriter(create_file(copy)) as file:
                for line in raw_lines(lines):
                    if line.fault:
                        raise ArchiveDamaged(f"{path}:{line.number}: {line.fault}")
                    if not line.torn:
                        file.write(line.data)
                file.flush()
                os.fsync(file.fileno())
            copies[copy] = path
    return copies


def write_ranking(target: Path, head: RankingHead, groups: Iterable[GroupRanking]) -> Path:
    """Write a whole ranking into the folder of a run, and return its file. Raises CannotWrite."""
    path = target / "rankings" / f"{head.id}.jsonl"
    writer = RankingWriter(path, head)
    try:
        for group in groups:
            writer.add(group)
        writer.finish()
    finally:
        writer.close()
    return path


def refuse_damage(
    folder: Path,
    parts_of: Callable[[str], Iterable[str]],
    copies: Mapping[Path, Path],
    line_in: Callable[[Path, int | None], str],
) -> None:
    """Check every record of a run. Raises ArchiveDamaged naming the file that was copied, or by `line_in` a ranking."""
    for finding in findings(folder, parts_of):
        if finding.kind == "damage":
            line = f":{finding.line}" if finding.line else ""
            source = copies.get(finding.path)
            place = f"{source}{line}" if source else line_in(finding.path, finding.line)
            raise ArchiveDamaged(f"{place}: {finding.reason}")
