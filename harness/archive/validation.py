"""Is a run whole? Every line, checksum, hash and reference is checked.

Reads the files alone, never the index. harness.pipeline.validation compares what a ranking says with its matches.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from harness.archive.batch_records import BATCH_LINES
from harness.archive.folder_check import Finding, FolderCheck, check_count, reason_of, refers, unknown_kind
from harness.archive.layout import RUN_FILE, SEGMENTS
from harness.archive.lines import LocatedRecord
from harness.archive.record_faults import group_faults
from harness.archive.run_info import read_info
from harness.archive.typed_records import (
    FOOTER,
    QUERY,
    RANKED_GROUP,
    RANKING_HEAD,
    ROLLOUT,
    read_record,
    recorded_settings,
)
from harness.core.errors import ArchiveDamaged, TooOld, UsageError
from harness.core.rankings import GroupRanking
from harness.core.records import Rollout


def findings(folder: Path, parts_of: Callable[[str], Iterable[str]]) -> Iterator[Finding]:
    """Yield what is wrong with the run in `folder`. `parts_of` names the blobs that a blob with raw calls refers to."""
    try:
        info, _ = read_info(folder)
        recorded_settings(info.settings, folder / RUN_FILE)
    except TooOld:
        raise
    except (ArchiveDamaged, UsageError) as exc:
        yield Finding("damage", folder / RUN_FILE, reason_of(exc, folder / RUN_FILE), by_hand=True)
    yield from _RunCheck(parts_of).findings(folder, RUN_FILE)


class _RunCheck(FolderCheck):
    """Looks at the records of a run."""

    segments = SEGMENTS
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

    def check(self, located: LocatedRecord, segment: str, counted: Counter[str]) -> None:
        """Check one record and what it refers to. Raises ArchiveDamaged."""
        match segment, located.members["kind"]:
            case "queries", "query":
                self._rollouts.setdefault(read_record(located, QUERY).id, frozenset())
            case "rollouts", "rollout":
                self._add_rollout(read_record(located, ROLLOUT))
            case "rankings", "header":
                recorded_settings(read_record(located, RANKING_HEAD).settings, located)
                self._provisional.clear()
            case "rankings", "group":
                group = read_record(located, RANKED_GROUP)
                counted["provisional"] += group.provisional
                (self._provisional.add if group.provisional else self._provisional.discard)(group.query)
                self._check_group(group)
            case "rankings", "footer":
                final = counted["group"] - counted["provisional"]
                check_count(read_record(located, FOOTER).groups, final, "groups")
                if self._provisional:
                    raise ArchiveDamaged(f"query {min(self._provisional)!r} is provisional, and the ranking complete")
            case "batches", _ if located.members["kind"] in BATCH_LINES:
                read_record(located, BATCH_LINES[located.members["kind"]])
            case _:
                raise unknown_kind(located)

    def _add_rollout(self, rollout: Rollout) -> None:
        """Note a rollout and its blobs. Raises ArchiveDamaged for a query or a blob that is missing."""
        refers(rollout.query in self._rollouts, f"query {rollout.query!r}")
        if rollout.raw_calls:
            self.use_blobs([rollout.raw_calls])  # first: the parts of a missing blob cannot be read
            self.use_blobs(self._parts_of(rollout.raw_calls))
        if rollout.turns:
            self.use_blobs([rollout.turns])
        if rollout.sampled_tokens:
            self.use_blobs([rollout.sampled_tokens])
        indices = self._rollouts[rollout.query] | {rollout.index}
        self._rollouts[rollout.query] = self._alike.setdefault(indices, indices)

    def _check_group(self, group: GroupRanking) -> None:
        """Raise ArchiveDamaged for a query, a rollout or a verdict of a ranked group that is missing."""
        refers(group.query in self._rollouts, f"query {group.query!r}")
        if reason := next(group_faults(group, self._rollouts[group.query]), None):
            raise ArchiveDamaged(reason)
        for key in (key for match in group.matches for key in match.verdicts):
            refers(key in self.verdicts, f"verdict {key}")
