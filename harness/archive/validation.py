"""Is a run or a comparison whole, by the files alone? And mending: damaged lines go into `damaged/`."""

import os
import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO, Literal

from harness.archive import lines, run_files, run_info, typed_records
from harness.archive.batch_log import BATCH_LINES
from harness.archive.checkpoints import CHECKPOINT_LINES, read_checkpoint
from harness.archive.comparison_reader import COMPARED_QUERY, COMPARISON_FOOTER, COMPARISON_HEAD, read_comparison_info
from harness.archive.index_file import NamePlaces
from harness.archive.reader import blob_name
from harness.archive.record_faults import group_faults
from harness.core.errors import ArchiveDamaged, CannotWrite, TooOld, UsageError, counted
from harness.core.rankings import GroupRanking, Judged
from harness.core.records import Rollout

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
        where = f"{self.path}:{self.line}" if self.line else str(self.path)
        return f"{self.kind}: {where}: {self.reason}"


class FolderCheck:
    """Looks at the records of a folder in their order, and keeps what the later ones refer to."""

    segments: Sequence[str]
    """The folders with files of records, each after those that its records refer to."""
    results: str
    """The one of them with files of results: a footer ends each of those."""

    def __init__(self) -> None:
        self.blobs = NamePlaces()
        self.used = NamePlaces()
        self.verdicts = NamePlaces()

    @abstractmethod
    def check(self, located: lines.LocatedRecord, segment: str, counted: Counter[str]) -> None:
        """Check a record that is no text, no verdict and no segment's header. Raises ArchiveDamaged."""

    def findings(self, folder: Path, info_file: str) -> Iterator[Finding]:
        """Yield what is wrong with a folder, apart from the file that is written once."""
        strange = list(_strange_findings(folder, self.segments, folder / info_file))
        yield from strange
        if any(finding.by_hand for finding in strange):
            return  # records refer to each other: they are read once all files can be
        for segment in self.segments:
            paths = list(run_files.files_in(folder / segment))
            for path in paths:
                yield from self._file_findings(path, segment, newest=path == paths[-1])
        if spare := len(self.blobs) - len(self.used):  # none is used that is not there
            harm = "it does no harm" if spare == 1 else "they do no harm"
            yield Finding("notice", folder / "blobs", f"{counted(spare, 'text')} that no record refers to; {harm}")

    def use_blobs(self, names: Iterable[str]) -> None:
        """Note that blobs are referred to. Raises ArchiveDamaged for one that is missing."""
        for name in names:
            refers(bool(_SHA256.fullmatch(name)), f"blob {name[:80]!r}")
            refers(name in self.blobs, f"blob {name}")
            self.used.add(name)

    def _file_findings(self, path: Path, segment: str, *, newest: bool) -> Iterator[Finding]:
        kinds: Counter[str] = Counter()
        with run_files.open_file(path) as file:
            for line in lines.raw_lines(file):
                if line.torn:
                    yield _tail(path, line)
                    continue
                try:
                    if line.fault:
                        raise ArchiveDamaged(line.fault)  # noqa: TRY301
                    members = lines.decode(line.data, f"{path}:{line.number}")
                    located = lines.LocatedRecord(lines.RecordPlace(path, line.start), line.end, members, line.number)
                    kinds[located.members["kind"]] += 1
                    lines.refuse_twice_named(line.data)
                    self._check(located, segment, kinds)
                except (ArchiveDamaged, UsageError) as exc:
                    yield Finding("damage", path, error_reason(exc, path, line.number), line.number)
        if not kinds["header"]:
            unread = f", so this {segment[:-1]} is not read" if segment == self.results and kinds else ""
            yield Finding("notice", path, f"it has no header{unread}")
        elif segment == self.results and not kinds["footer"]:
            then = "`harness resume` makes a new one" if newest else "later ones stand in for it"
            yield Finding("notice", path, f"this {segment[:-1]} was cut short; {then}")

    def _check(self, located: lines.LocatedRecord, segment: str, counted: Counter[str]) -> None:
        kind = located.members["kind"]
        if (segment, kind) == ("blobs", "blob"):
            blob = typed_records.read_record(located, typed_records.BLOB)
            if blob_name(blob.text) != blob.sha256:
                raise ArchiveDamaged(f"the content does not match its hash {blob.sha256}")
            self.blobs.add(blob.sha256)
        elif (segment, kind) == ("verdicts", "verdict"):
            verdict = typed_records.read_record(located, typed_records.VERDICT_LINE)
            self.use_blobs(verdict.raw_replies)
            if isinstance(verdict, Judged):
                self.verdicts.add(verdict.key)
        elif kind != typed_records.SEGMENT_HEAD or segment == self.results:
            self.check(located, segment, counted)


def refers(stored: bool, what: str) -> None:
    """Raise ArchiveDamaged unless what a record refers to is stored."""
    if not stored:
        raise ArchiveDamaged(f"it refers to {what}, which is not there")


def unknown_kind(located: lines.LocatedRecord) -> ArchiveDamaged:
    """Return the error for a record of a kind that has no place where it stands."""
    return ArchiveDamaged(f"it refers to a kind of record, {located.members['kind']!r}, which is not there")


def check_count(stated: int, counted: int, what: str) -> None:
    """Raise ArchiveDamaged for a footer that counts other than what is there."""
    if stated != counted:
        raise ArchiveDamaged(f"it counts {stated} {what}, and there are {counted}")


def error_reason(exc: Exception, path: Path, line: int | None = None) -> str:
    """Return what an error says, without the place, which the finding names."""
    return str(exc).removeprefix(str(path)).removeprefix(f":{line}").removeprefix(": ")


def _strange_findings(folder: Path, segments: Sequence[str], info_file: Path) -> Iterator[Finding]:
    """Yield what is neither a plain file nor a plain folder, but the file that is written once."""
    try:
        for path, reason, is_folder in run_files.strange_things(
            folder, (*segments, run_info.ASIDE, run_info.PAGES), (run_info.LOCK, run_info.PAGE)
        ):
            made_anew = (
                path in {folder / run_info.LOCK, folder / run_info.PAGE}
                or path.suffix == run_files.PART
                or path.parent.name == run_info.PAGES
            )
            if path != info_file:
                yield Finding("damage", path, reason, by_hand=is_folder or not made_anew)
    except ArchiveDamaged as exc:
        yield Finding("damage", folder, error_reason(exc, folder), by_hand=True)


def _tail(path: Path, line: lines.RawLine) -> Finding:
    try:
        lines.decode(line.data[:-1] + b"\n", path)
    except (ArchiveDamaged, UsageError):
        reason = "the last line was cut off while it was written; it never counted"
        return Finding("notice", path, reason, line.number)
    return Finding("damage", path, "the line's end was changed", line.number)


def findings(folder: Path, parts_of: Callable[[str], Iterable[str]]) -> Iterator[Finding]:
    """Yield what is wrong with the run in `folder`. `parts_of` names the blobs that a blob with raw calls refers to."""
    try:
        info, _ = run_info.read_info(folder)
        typed_records.recorded_settings(info.settings, folder / run_info.RUN_FILE)
    except TooOld:
        raise
    except (ArchiveDamaged, UsageError) as exc:
        yield Finding("damage", folder / run_info.RUN_FILE, error_reason(exc, folder / run_info.RUN_FILE), by_hand=True)
    yield from _RunCheck(parts_of).findings(folder, run_info.RUN_FILE)


class _RunCheck(FolderCheck):
    """Looks at the records of a run."""

    segments = run_info.SEGMENTS
    results = "rankings"

    def __init__(self, parts_of: Callable[[str], Iterable[str]]) -> None:
        super().__init__()
        self._parts_of = parts_of
        self._rollouts = dict[str, frozenset[int]]()
        """Of each query the indices of its rollouts."""
        self._alike = dict[frozenset[int], frozenset[int]]()
        """One of each set of indices, for most queries have the same."""
        self._provisional = set[str]()
        """Queries of the file that is looked at whose last line so far is provisional."""

    def check(self, located: lines.LocatedRecord, segment: str, counted: Counter[str]) -> None:
        """Check one record and what it refers to. Raises ArchiveDamaged."""
        match segment, located.members["kind"]:
            case "queries", "query":
                self._rollouts.setdefault(typed_records.read_record(located, typed_records.QUERY).id, frozenset())
            case "rollouts", "rollout":
                self._add_rollout(typed_records.read_record(located, typed_records.ROLLOUT))
            case "rankings", "header":
                typed_records.recorded_settings(
                    typed_records.read_record(located, typed_records.RANKING_HEAD).settings, located
                )
                self._provisional.clear()
            case "rankings", "group":
                group = typed_records.read_record(located, typed_records.RANKED_GROUP)
                counted["provisional"] += group.provisional
                (self._provisional.add if group.provisional else self._provisional.discard)(group.query)
                self._check_group(group)
            case "rankings", "footer":
                final = counted["group"] - counted["provisional"]
                check_count(typed_records.read_record(located, typed_records.FOOTER).groups, final, "groups")
                if self._provisional:
                    raise ArchiveDamaged(f"query {min(self._provisional)!r} is provisional, and the ranking complete")
            case "probes", "probed":
                self._check_verdicts(typed_records.read_record(located, typed_records.PROBED_JUDGE).verdicts)
            case "batches", _ if located.members["kind"] in BATCH_LINES:
                typed_records.read_record(located, BATCH_LINES[located.members["kind"]])
            case "checkpoints", _ if located.members["kind"] in CHECKPOINT_LINES:
                read_checkpoint(located)
            case _:
                raise unknown_kind(located)

    def _add_rollout(self, rollout: Rollout) -> None:
        """Note a rollout and its blobs. Raises ArchiveDamaged for a query or a blob that is missing."""
        refers(rollout.query in self._rollouts, f"query {rollout.query!r}")
        if rollout.raw_calls:
            self.use_blobs([rollout.raw_calls])  # first: the parts of a missing blob cannot be read
            self.use_blobs(self._parts_of(rollout.raw_calls))
        names = (file.blob for file in rollout.trajectory.files), (call.snapshot for call in rollout.calls)
        self.use_blobs(name for name in (rollout.turns, rollout.sampled_tokens, *chain(*names)) if name)
        indices = self._rollouts[rollout.query] | {rollout.index}
        self._rollouts[rollout.query] = self._alike.setdefault(indices, indices)

    def _check_group(self, group: GroupRanking) -> None:
        """Raise ArchiveDamaged for a query, a rollout or a verdict of a ranked group that is missing."""
        refers(group.query in self._rollouts, f"query {group.query!r}")
        if reason := next(group_faults(group, self._rollouts[group.query]), None):
            raise ArchiveDamaged(reason)
        self._check_verdicts(key for match in group.matches for key in match.verdicts)

    def _check_verdicts(self, keys: Iterable[str]) -> None:
        for key in keys:
            refers(key in self.verdicts, f"verdict {key}")


def comparison_findings(folder: Path) -> Iterator[Finding]:
    """Yield what is wrong with the comparison in `folder`."""
    path, runs = folder / run_info.COMPARISON_FILE, None
    try:
        info, _ = read_comparison_info(folder)
        runs = [(side.run, side.sha256) for side in info.sides]
        typed_records.recorded_settings(info.settings, path)
    except TooOld:
        raise
    except (ArchiveDamaged, UsageError) as exc:
        yield Finding("damage", path, error_reason(exc, path), by_hand=True)
    yield from _ComparisonCheck(runs).findings(folder, run_info.COMPARISON_FILE)


class _ComparisonCheck(FolderCheck):
    """Looks at the records of a comparison of `runs`, each an id and a sha256; None where these are not known."""

    segments = run_info.COMPARISON_SEGMENTS
    results = "comparisons"

    def __init__(self, runs: list[tuple[str, str]] | None) -> None:
        super().__init__()
        self._runs = runs

    def check(self, located: lines.LocatedRecord, segment: str, counted: Counter[str]) -> None:
        """Check one record and what it refers to. Raises ArchiveDamaged."""
        match segment, located.members["kind"]:
            case "comparisons", "header":
                head = typed_records.read_record(located, COMPARISON_HEAD)
                if self._runs is not None and [(side.run, side.sha256) for side in head.sides] != self._runs:
                    raise ArchiveDamaged("its sides are not those of compare.json")
            case "comparisons", "compared":
                query = typed_records.read_record(located, COMPARED_QUERY)
                if self._runs is not None and len(query.rollouts) != len(self._runs):
                    raise ArchiveDamaged(f"it has {len(query.rollouts)} sides, and the comparison {len(self._runs)}")
                texts = (name for side in query.rollouts for r in side for name in (r.path_blob, r.answer_blob))
                self.use_blobs(name for name in texts if name is not None)
                for key in (key for match in query.matches for key in match.verdicts):
                    refers(key in self.verdicts, f"verdict {key}")
            case "comparisons", "footer":
                check_count(
                    typed_records.read_record(located, COMPARISON_FOOTER).queries, counted["compared"], "queries"
                )
            case _:
                raise unknown_kind(located)


_START = re.compile(rb'\{"crc":"')


def move_aside(folder: Path, damage: Iterable[Finding]) -> None:
    """Move the lines named into `damaged/`; all other lines stay as they are, byte for byte.

    A record that is whole in what a changed line end glued together is kept. What stands in the place of a page or a
    lock is removed. Raises CannotWrite, ArchiveDamaged.
    """
    by_file: dict[Path, set[int]] = {}
    for finding in damage:
        numbers = by_file.setdefault(finding.path, set())
        if finding.line:
            numbers.add(finding.line)
    try:
        for path, numbers in by_file.items():
            if not numbers:
                run_files.remove_strange(folder, path)
                continue
            aside = folder / run_info.ASIDE / f"{path.parent.name}-{path.name}"
            with (
                run_files.open_file(path) as source,
                run_files.replaced_file(path) as good,
                run_files.create_beside(aside) as bad,
            ):
                for line in lines.raw_lines(source):
                    if line.number not in numbers:
                        _copy(source, line, good)
                        continue
                    if not _copy(source, line, bad):
                        bad.write(b"\n")
                    good.writelines(() if line.fault else _whole_in(line.data))
                bad.flush()
                os.fsync(bad.fileno())  # before the file without these lines takes the place of that with them
    except OSError as exc:
        raise CannotWrite(f"cannot repair {folder}: {exc.strerror}; nothing was lost") from exc


def _copy(source: IO[bytes], line: lines.RawLine, target: IO[bytes]) -> bool:
    """Write a line of any length, and return whether it has a line's end. Holes stay holes."""
    if len(line.data) == line.end - line.start:
        target.write(line.data)
        return line.data.endswith(b"\n")
    base, ended = target.tell() - line.start, False
    for place, piece in lines.data_pieces(source, line.start, line.end):
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
                lines.decode(record, "")
            except (ArchiveDamaged, UsageError):
                continue
            yield record
