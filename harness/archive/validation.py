"""Is an archive whole? Every line, checksum, hash and reference is checked.

Reads the files alone, never the index. harness.pipeline.validation compares what a ranking says with its matches.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from harness.archive.blobs import blob_name
from harness.archive.index import CACHE
from harness.archive.layout import read_info
from harness.archive.lines import decode
from harness.archive.rankings import RankingHead
from harness.archive.run_files import sync_folder
from harness.core.errors import ArchiveDamaged, CannotWrite, UsageError
from harness.core.rankings import GroupRanking
from harness.core.records import Query, Rollout
from harness.core.verdicts import VERDICT, Judged

SEGMENTS = ("blobs", "queries", "rollouts", "verdicts", "rankings")
ASIDE = "damaged"
_KINDS = {
    "blobs": {"header", "blob"},
    "queries": {"header", "query"},
    "rollouts": {"header", "rollout"},
    "verdicts": {"header", "verdict"},
    "rankings": {"header", "group", "footer"},
}
_START = b'{"crc":"'


@dataclass(frozen=True)
class Finding:
    """Something that is not as it should be. A notice is not damage: nothing that counted is lost."""

    kind: Literal["damage", "notice"]
    path: Path
    reason: str
    line: int | None = None

    def __str__(self) -> str:
        """Return `damage: file:line: reason`."""
        where = f"{self.path}:{self.line}" if self.line else str(self.path)
        return f"{self.kind}: {where}: {self.reason}"


@dataclass
class _References:
    """What the records read so far can be referred to by, and which blobs were referred to."""

    parts_of: Callable[[str], Iterable[str]]
    blobs: set[bytes] = field(default_factory=set[bytes])
    used: set[bytes] = field(default_factory=set[bytes])
    queries: set[str] = field(default_factory=set[str])
    rollouts: dict[str, set[int]] = field(default_factory=dict[str, set[int]])
    verdicts: set[str] = field(default_factory=set[str])

    def add_rollout(self, rollout: Rollout) -> None:
        """Note a rollout and its blobs. Raises ArchiveDamaged for a query or a blob that is missing."""
        _refers(rollout.query in self.queries, f"query {rollout.query!r}")
        if rollout.raw_calls:
            self.use_blobs([rollout.raw_calls])  # first: the parts of a missing blob cannot be read
            self.use_blobs(self.parts_of(rollout.raw_calls))
        self.rollouts.setdefault(rollout.query, set()).add(rollout.index)

    def add_blob(self, members: Mapping[str, Any]) -> None:
        """Note a blob. Raises ArchiveDamaged for a text that does not match its hash."""
        if blob_name(members["text"]) != members["sha256"]:
            raise ArchiveDamaged(f"the content does not match its hash {members['sha256']}")
        self.blobs.add(bytes.fromhex(members["sha256"]))

    def use_blobs(self, names: Iterable[str]) -> None:
        """Note that blobs are referred to. Raises ArchiveDamaged for one that is missing."""
        for name in names:
            _refers(bytes.fromhex(name) in self.blobs, f"blob {name}")
            self.used.add(bytes.fromhex(name))

    def check_group(self, group: GroupRanking) -> None:
        """Raise ArchiveDamaged for a query, a rollout or a verdict of a ranked group that is missing."""
        _refers(group.query in self.queries, f"query {group.query!r}")
        stored = self.rollouts.get(group.query, set())
        for index in {r.index for r in group.rollouts} | {i for m in group.matches for i in (m.a, m.b)}:
            _refers(index in stored, f"rollout {index} of query {group.query!r}")
        for key in (key for match in group.matches for key in match.verdicts):
            _refers(key in self.verdicts, f"verdict {key}")


def findings(folder: Path, parts_of: Callable[[str], Iterable[str]]) -> Iterator[Finding]:
    """Yield what is wrong with the run in `folder`. `parts_of` names the blobs that a blob with raw calls refers to."""
    try:
        read_info(folder)
    except (ArchiveDamaged, UsageError) as exc:
        yield Finding("damage", folder / "run.json", _reason(exc, folder / "run.json"))
    references = _References(parts_of)
    for segment in SEGMENTS:
        paths = sorted((folder / segment).glob("*.jsonl"))
        for path in paths:
            yield from _file_findings(path, segment, references, newest=path == paths[-1])
    if spare := len(references.blobs - references.used):
        yield Finding("notice", folder / "blobs", f"{spare} texts that no record refers to; they do no harm")


def _file_findings(path: Path, segment: str, references: _References, *, newest: bool) -> Iterator[Finding]:
    counted: Counter[str] = Counter()
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                yield _tail(path, number, line)
                continue
            try:
                members = decode(line, str(path))
                _refers(members["kind"] in _KINDS[segment], f"a kind of record, {members['kind']!r}")
                counted[members["kind"]] += 1
                _check(members, segment, references, counted)
            except (ArchiveDamaged, UsageError, ValidationError, ValueError, KeyError) as exc:
                yield Finding("damage", path, _reason(exc, path), number)
    if not counted["header"]:
        yield Finding("notice", path, "it has no header")
    elif segment == "rankings" and not counted["footer"]:
        then = "`harness resume` makes a new one" if newest else "later ones stand in for it"
        yield Finding("notice", path, f"this ranking was cut short; {then}")


def _tail(path: Path, number: int, line: bytes) -> Finding:
    try:
        decode(line[:-1] + b"\n", str(path))
    except (ArchiveDamaged, UsageError, ValueError):
        return Finding("notice", path, "the last line was cut off while it was written; it never counted", number)
    return Finding("damage", path, "the line's end was changed", number)


def _check(members: dict[str, Any], segment: str, references: _References, counted: Counter[str]) -> None:
    """Check one record and what it refers to. Raises ArchiveDamaged, ValidationError."""
    kind = members["kind"]
    if kind == "blob":
        references.add_blob(members)
    elif kind == "query":
        references.queries.add(Query.model_validate(members).id)
    elif kind == "rollout":
        references.add_rollout(Rollout.model_validate(members))
    elif kind == "verdict":
        verdict = VERDICT.validate_python(members)
        references.use_blobs(verdict.raw_replies)
        if isinstance(verdict, Judged):
            references.verdicts.add(verdict.key)
    elif kind == "group":
        references.check_group(GroupRanking.model_validate(members))
    elif kind == "footer":
        if members["groups"] != counted["group"]:
            raise ArchiveDamaged(f"it counts {members['groups']} groups, and there are {counted['group']}")
    elif segment == "rankings":
        RankingHead.model_validate(members)


def _refers(stored: bool, what: str) -> None:
    if not stored:
        raise ArchiveDamaged(f"it refers to {what}, which is not there")


def _reason(exc: Exception, path: Path) -> str:
    if isinstance(exc, ValidationError):
        first = exc.errors()[0]
        return f"no valid record: {'.'.join(map(str, first['loc']))}: {first['msg']}"
    if isinstance(exc, KeyError):
        return f"no valid record: {exc} is missing"
    return str(exc).removeprefix(f"{path}: ")


def move_aside(folder: Path, damage: Iterable[Finding]) -> list[Path]:
    """Move the lines named into `damaged/`; all other lines stay as they are, byte for byte. Return what was written.

    A record that is whole in what a changed line end glued together is kept. Raises CannotWrite.
    """
    by_file: dict[Path, set[int]] = {}
    for finding in damage:
        if finding.line:
            by_file.setdefault(finding.path, set()).add(finding.line)
    try:
        (folder / CACHE).unlink(missing_ok=True)
        return [_moved(folder, path, lines) for path, lines in by_file.items()]
    except OSError as exc:
        raise CannotWrite(f"cannot repair {folder}: {exc.strerror}; nothing was lost") from exc


def _moved(folder: Path, path: Path, lines: set[int]) -> Path:
    (folder / ASIDE).mkdir(mode=0o700, exist_ok=True)
    aside, part = folder / ASIDE / f"{path.parent.name}-{path.name}", path.with_suffix(".part")
    with (
        path.open("rb") as source,
        os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as bad,
        os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as good,
    ):
        for number, line in enumerate(source, 1):
            if number not in lines:
                good.write(line)
                continue
            bad.write(line if line.endswith(b"\n") else line + b"\n")
            good.writelines(_whole_in(line))
        for file in (bad, good):
            file.flush()
            os.fsync(file.fileno())
    sync_folder(folder / ASIDE)
    part.replace(path)
    sync_folder(path.parent)
    return aside


def _whole_in(line: bytes) -> Iterator[bytes]:
    """Yield the records in a damaged line that are whole but for their line's end."""
    starts = [i for i in range(len(line)) if line.startswith(_START, i)] if line.count(_START) > 1 else [0]
    for start, end in zip(starts, [*starts[1:], len(line)], strict=True):
        record = line[start : end - 1] + b"\n"
        if record != line:  # the line itself was looked at: if its checksum holds, something else is wrong with it
            try:
                decode(record, "")
            except (ArchiveDamaged, UsageError, ValueError):
                continue
            yield record
