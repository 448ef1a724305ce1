"""Is an archive whole? Every line, checksum, hash and reference is checked.

Reads the files alone, never the index. harness.pipeline.validation compares what a ranking says with its matches.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from harness.archive.blobs import blob_name
from harness.archive.layout import ASIDE, LOCK, PAGE, SEGMENTS
from harness.archive.lines import LocatedRecord, RecordPlace, decode, refuse_twice_named
from harness.archive.raw_lines import RawLine, raw_lines
from harness.archive.record_faults import group_faults
from harness.archive.run_files import (
    PART,
    files_in,
    open_file,
    strange_things,
)
from harness.archive.run_info import read_info
from harness.archive.typed_records import (
    BLOB,
    FOOTER,
    QUERY,
    RANKED_GROUP,
    RANKING_HEAD,
    ROLLOUT,
    VERDICT_LINE,
    BlobText,
    read_record,
    recorded_settings,
)
from harness.core.errors import ArchiveDamaged, UsageError
from harness.core.rankings import GroupRanking
from harness.core.records import Rollout
from harness.core.verdicts import AnyVerdict, Judged

_KINDS = {
    "blobs": {"header", "blob"},
    "queries": {"header", "query"},
    "rollouts": {"header", "rollout"},
    "verdicts": {"header", "verdict"},
    "rankings": {"header", "group", "footer"},
}
OLD_INDEX = "index.sqlite"
_SHA256 = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True)
class Finding:
    """Something that is not as it should be. A notice is not damage: nothing that counted is lost."""

    kind: Literal["damage", "notice"]
    path: Path
    reason: str
    line: int | None = None
    by_hand: bool = False
    """No repair mends it: a person must."""

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

    def add_blob(self, blob: BlobText) -> None:
        """Note a blob. Raises ArchiveDamaged for a text that does not match its hash."""
        if blob_name(blob.text) != blob.sha256:
            raise ArchiveDamaged(f"the content does not match its hash {blob.sha256}")
        self.blobs.add(bytes.fromhex(blob.sha256))

    def add_verdict(self, verdict: AnyVerdict) -> None:
        """Note a verdict and its blobs. Raises ArchiveDamaged for a blob that is missing."""
        self.use_blobs(verdict.raw_replies)
        if isinstance(verdict, Judged):
            self.verdicts.add(verdict.key)

    def use_blobs(self, names: Iterable[str]) -> None:
        """Note that blobs are referred to. Raises ArchiveDamaged for one that is missing."""
        for name in names:
            _refers(bool(_SHA256.fullmatch(name)), f"blob {name[:80]!r}")
            _refers(bytes.fromhex(name) in self.blobs, f"blob {name}")
            self.used.add(bytes.fromhex(name))

    def check_group(self, group: GroupRanking) -> None:
        """Raise ArchiveDamaged for a query, a rollout or a verdict of a ranked group that is missing."""
        _refers(group.query in self.queries, f"query {group.query!r}")
        if reason := next(group_faults(group, self.rollouts.get(group.query, set())), None):
            raise ArchiveDamaged(reason)
        for key in (key for match in group.matches for key in match.verdicts):
            _refers(key in self.verdicts, f"verdict {key}")


def findings(folder: Path, parts_of: Callable[[str], Iterable[str]]) -> Iterator[Finding]:
    """Yield what is wrong with the run in `folder`. `parts_of` names the blobs that a blob with raw calls refers to."""
    try:
        info, _ = read_info(folder)
        recorded_settings(info.settings, folder / "run.json")
    except (ArchiveDamaged, UsageError) as exc:
        yield Finding("damage", folder / "run.json", _reason(exc, folder / "run.json"), by_hand=True)
    strange = list(_strange_findings(folder))
    yield from strange
    if any(finding.by_hand for finding in strange):
        return  # records refer to each other: they are read once all files can be
    if (folder / OLD_INDEX).is_file():
        yield Finding("notice", folder / OLD_INDEX, "an index of an earlier version, which nothing reads; delete it")
    references = _References(parts_of)
    for segment in SEGMENTS:
        paths = list(files_in(folder / segment))
        for path in paths:
            yield from _file_findings(path, segment, references, newest=path == paths[-1])
    if spare := len(references.blobs - references.used):
        yield Finding("notice", folder / "blobs", f"{spare} texts that no record refers to; they do no harm")


def _strange_findings(folder: Path) -> Iterator[Finding]:
    """Yield what is neither a plain file nor a plain folder, but run.json."""
    try:
        for path, reason, is_folder in strange_things(folder, (*SEGMENTS, ASIDE), (LOCK, PAGE)):
            made_anew = path in {folder / LOCK, folder / PAGE} or path.suffix == PART
            if path != folder / "run.json":
                yield Finding("damage", path, reason, by_hand=is_folder or not made_anew)
    except ArchiveDamaged as exc:
        yield Finding("damage", folder, _reason(exc, folder), by_hand=True)


def _file_findings(path: Path, segment: str, references: _References, *, newest: bool) -> Iterator[Finding]:
    counted: Counter[str] = Counter()
    with open_file(path) as file:
        for line in raw_lines(file):
            if line.torn:
                yield _tail(path, line)
                continue
            try:
                located = _located(line, path)
                counted[located.members["kind"]] += 1
                refuse_twice_named(line.data)
                _check(located, segment, references, counted)
            except (ArchiveDamaged, UsageError) as exc:
                yield Finding("damage", path, _reason(exc, path, line.number), line.number)
    if not counted["header"]:
        yield Finding("notice", path, "it has no header")
    elif segment == "rankings" and not counted["footer"]:
        then = "`harness resume` makes a new one" if newest else "later ones stand in for it"
        yield Finding("notice", path, f"this ranking was cut short; {then}")


def _located(line: RawLine, path: Path) -> LocatedRecord:
    if line.fault:
        raise ArchiveDamaged(line.fault)
    members = decode(line.data, f"{path}:{line.number}")
    return LocatedRecord(RecordPlace(path, line.start), line.end, members, line.number)


def _tail(path: Path, line: RawLine) -> Finding:
    try:
        decode(line.data[:-1] + b"\n", path)
    except (ArchiveDamaged, UsageError):
        reason = "the last line was cut off while it was written; it never counted"
        return Finding("notice", path, reason, line.number)
    return Finding("damage", path, "the line's end was changed", line.number)


def _check(located: LocatedRecord, segment: str, references: _References, counted: Counter[str]) -> None:
    """Check one record and what it refers to. Raises ArchiveDamaged."""
    kind = located.members["kind"]
    _refers(kind in _KINDS[segment], f"a kind of record, {kind!r}")
    if kind == "blob":
        references.add_blob(read_record(located, BLOB))
    elif kind == "query":
        references.queries.add(read_record(located, QUERY).id)
    elif kind == "rollout":
        references.add_rollout(read_record(located, ROLLOUT))
    elif kind == "verdict":
        references.add_verdict(read_record(located, VERDICT_LINE))
    elif kind == "group":
        references.check_group(read_record(located, RANKED_GROUP))
    elif kind == "footer":
        groups = read_record(located, FOOTER).groups
        if groups != counted["group"]:
            raise ArchiveDamaged(f"it counts {groups} groups, and there are {counted['group']}")
    elif segment == "rankings":
        recorded_settings(read_record(located, RANKING_HEAD).settings, located)


def _refers(stored: bool, what: str) -> None:
    if not stored:
        raise ArchiveDamaged(f"it refers to {what}, which is not there")


def _reason(exc: Exception, path: Path, line: int | None = None) -> str:
    """Return what an error says, without the place, which the finding names."""
    return str(exc).removeprefix(str(path)).removeprefix(f":{line}").removeprefix(": ")
