"""What became of a run or a comparison, and what is missing of it: rollouts that never ended, a ranking to be made."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from harness.archive.batch_log import with_provider
from harness.archive.index_file import RolloutPlace, RunCounts
from harness.archive.reader import RunReader
from harness.archive.result_files import RankingFile
from harness.archive.run_files import files_in
from harness.archive.run_info import LOCK, Archived, Kind, list_archived
from harness.archive.typed_records import RankingHead
from harness.core.errors import ArchiveDamaged, HarnessError, NeedsUpgrade, TooOld
from harness.core.records import InfrastructureFailureKind, Query

if TYPE_CHECKING:  # a list of runs alone needs nothing of comparisons
    from harness.archive.comparison_reader import ComparisonFile

CUT_SHORT = frozenset[str](get_args(InfrastructureFailureKind)) - {"budget"}
"""A rollout that was stopped, or that the endpoint or the network failed, is still to be run."""
_Left = Literal["nothing", "work", "what failed again"]
_STOPPED = {"cancelled", "quota"}
"""Such a rollout was stopped; that tells nothing of the next time."""


@dataclass(frozen=True)
class MissingWork:
    """What resuming has to do."""

    rollouts: Mapping[str, Sequence[int]]
    """By query, the rollouts that are to be run."""
    ranking: bool
    """Whether a ranking has to be made."""
    like: RankingHead | None = None
    """The ranking to be made again, under its own settings; None: under those of the run."""
    of_branches: "BranchCalls | None" = None
    """Where a budget bounds the calls of branches, those that they made."""

    @property
    def nothing(self) -> bool:
        """Whether the run is finished."""
        return not self.rollouts and not self.ranking

    @property
    def count(self) -> int:
        """How many rollouts are to be run."""
        return sum(map(len, self.rollouts.values()))


def find_missing_work(reader: RunReader, *, retry_failed: bool = False) -> MissingWork:
    """Tell what is missing. With `retry_failed` every rollout that failed is."""
    of_branches = branch_calls(reader) if reader.info.branch_calls is not None else None
    rollouts = _rollouts(reader, of_branches, retry_failed=retry_failed) if reader.info.judge else {}  # else imported
    if rollouts or not reader.index.queries:
        return MissingWork(rollouts, ranking=bool(rollouts), of_branches=of_branches)
    newest = reader.newest_ranking(free=False)
    if newest is None:
        return MissingWork({}, ranking=bool(reader.info.judge))
    again = MissingWork({}, ranking=True, like=newest.head)
    if not newest.finished:
        return again
    unranked, out_of_date = set(reader.index.queries), False
    for group in newest.groups:  # each is read from disk: once is enough
        if group.status == "incomplete" and group.topology != "none":
            return again
        if group.query in unranked:
            unranked.remove(group.query)
            out_of_date |= group.basis != reader.basis(group.query)  # newer records have replaced some
    return MissingWork({}, ranking=out_of_date or bool(unranked))


@dataclass(frozen=True)
class Remaining:
    """What a run leaves to do, for whoever does without its index: that of a large run takes long to read."""

    queries: int
    """How many queries the run has."""
    missing: bool
    """Whether `find_missing_work` finds anything."""
    failed: bool
    """Whether any rollout failed."""


def count_remaining(reader: RunReader) -> Remaining:
    """Tell what a run leaves to do."""
    failed = any(place.status == "failed" for group in reader.index.rollouts.values() for place in group.values())
    return Remaining(len(reader.index.queries), not find_missing_work(reader).nothing, failed)


def last_unfinished(
    runs_dir: Path, pass_over: Callable[[HarnessError], None] = lambda _: None, *, only_runs: bool = False
) -> Archived | None:
    """Return the newest run, or anything else unless `only_runs`, of which something is missing that can be done.

    What failed again when it was resumed comes after all others. What cannot be read is passed over; `pass_over` hears
    why.
    """
    failed_again: Archived | None = None
    for archived in reversed(list_archived(runs_dir)):
        if only_runs and archived.kind != "run":
            continue
        try:
            left = _LEFT[archived.kind](archived.folder)
        except (ArchiveDamaged, NeedsUpgrade, TooOld) as exc:
            pass_over(exc)
            continue
        if left == "work":
            return archived
        if left == "what failed again":
            failed_again = failed_again or archived
    return failed_again


def _left_of_run(folder: Path) -> _Left:
    with RunReader(folder) as reader:
        missing = find_missing_work(reader)
        if missing.nothing or find_redacted(reader, missing.rollouts):
            return "nothing"
        # whether all that is missing are rollouts that the infrastructure failed in a later process, too
        rollouts = ((reader.index.rollouts.get(query, {}), indices) for query, indices in missing.rollouts.items())
        places = [of_query.get(i) for of_query, indices in rollouts for i in indices]
        first = next(iter(files_in(folder / "rollouts")), None)
        again = bool(places) and all(p and p.kind not in _STOPPED and p.place.path != first for p in places)
        return "what failed again" if again else "work"


def _left_of_comparison(folder: Path) -> _Left:
    from harness.archive.comparison_reader import ComparisonReader  # noqa: PLC0415 - `ls` of runs alone reads none

    with ComparisonReader(folder) as reader:
        files = reader.files()
        if not files or not files[-1].finished:
            return "work"
        if not files[-1].incomplete:
            return "nothing"
        return "what failed again" if sum(file.finished for file in files) > 1 else "work"


def _left_of_improvement(folder: Path) -> _Left:
    from harness.archive.improve_folder import ImproveFolder  # noqa: PLC0415 - as above

    result = ImproveFolder(folder).result()
    return ("what failed again" if result.outcome == "undecided" else "nothing") if result else "work"


_LEFT: Mapping[Kind, Callable[[Path], _Left]] = {
    "run": _left_of_run,
    "comparison": _left_of_comparison,
    "improvement": _left_of_improvement,
}


def find_redacted(reader: RunReader, queries: Iterable[str]) -> Query | None:
    """Return the first of `queries` that was redacted, or None: its true text is nowhere, so nobody can run it."""
    return next((query for name in queries if (query := reader.query(name)) and query.redacted), None)


class BranchCalls(NamedTuple):
    """The new model calls of the branches of a run, by query and index."""

    made: Mapping[tuple[str, int], int]
    left: Mapping[tuple[str, int], float]
    """How many more each is expected to make: as many times more than its rollout made as the longest one before it."""
    longer: float
    """How many times that is."""


def branch_calls(reader: RunReader) -> BranchCalls:
    """Return how many new model calls the branches of a run have made, and are expected to make."""
    made, whole, longer = dict[tuple[str, int], int](), dict[tuple[str, int], int](), 1.0
    for name, branches in reader.info.branches.items():
        if query := reader.query(name):
            calls = {one.index: {call.raw for call in one.calls} - {None} for one in reader.group(query).rollouts}
            for index, branch in enumerate(branches, reader.info.wanted(name) - len(branches)):
                made[name, index] = max(0, len(calls.get(index, ())) - branch.call)
                whole[name, index] = 1 if branch.edit else max(1, len(calls.get(branch.rollout, ())) - branch.call)
                longer = max(longer, made[name, index] / whole[name, index])
    return BranchCalls(made, {at: longer * max(1, whole[at] - made[at]) for at in made}, longer)


def _rollouts(reader: RunReader, of_branches: BranchCalls | None, *, retry_failed: bool) -> dict[str, list[int]]:
    missing: dict[str, list[int]] = {}
    left = of_branches.left if of_branches else dict[tuple[str, int], float]()
    room = (reader.info.branch_calls or 0) - sum(of_branches.made.values()) if of_branches else math.inf

    def open_(place: RolloutPlace | None, kinds: Collection[str]) -> bool:
        return place is None or place.kind in kinds or (retry_failed and place.status == "failed")

    for query in reader.index.queries:
        places = reader.index.rollouts.get(query, {})
        indices = [i for i in range(reader.info.wanted(query)) if open_(places.get(i), CUT_SHORT)]
        if indices and find_redacted(reader, [query]):  # nobody can run it: what failed has to stay as it is
            indices = [i for i in indices if open_(places.get(i), _STOPPED)]
        for at in indices:  # where one does not fit, no other branch is begun
            room -= left.get((query, at), 0)
            indices = indices if room >= 0 else [i for i in indices if i < at]
        if indices:
            missing[query] = indices
    return missing


RunState = Literal["done", "under way", "waiting", "interrupted", "failed", "partly failed", "not judged"]
"""waiting: all that is missing are verdicts, and a provider has batches of their questions. interrupted: a rollout,
the ranking or the comparing was begun, or was to come, and never ended. failed: all that was to come was tried, and
no rollout ended well, or no query was ranked in full (or compared in full). partly failed: endpoint or judge failed
some of it."""
_LOCKS = Path("/proc/locks")


def find_run_state(reader: RunReader, ranking: RankingFile | None, counts: RunCounts) -> RunState:
    """Return what became of a run; `ranking` is its newest, `counts` are its index's. Raises ArchiveDamaged."""
    last = ranking
    if ranking and ranking.head.free and ranking.incomplete:  # `resume` goes by no free one that lacks verdicts
        last = reader.newest_ranking(free=False) or ranking
    lacks_ranking = (last is not None or bool(reader.info.judge)) and not (last and last.finished)
    if lacks_ranking or not _rolled_out(reader, counts):
        if _is_locked(reader.folder / LOCK):
            return "under way"
        return "waiting" if _rolled_out(reader, counts) and with_provider(reader.folder) else "interrupted"
    if ranking is None or ranking.head.settings.get("topology") == "none":
        return "not judged"
    if counts.failed == counts.rollouts or ranking.incomplete == len(ranking.groups):
        return "failed"
    return "partly failed" if ranking.incomplete or not counts.kinds.isdisjoint(CUT_SHORT) else "done"


def find_comparison_state(folder: Path, newest: "ComparisonFile | None") -> RunState:
    """Return what became of a comparison; `newest` is the newest of its files. Raises ArchiveDamaged."""
    if newest is None or not newest.finished:
        return "under way" if _is_locked(folder / LOCK) else "interrupted"
    if newest.incomplete:
        return "failed" if newest.incomplete == len(newest.queries) else "partly failed"
    return "done"


def find_improvement_state(folder: Path, outcome: str | None) -> RunState:
    """Return what became of an improvement with this outcome; None: it has none yet."""
    if outcome is None or outcome == "undecided":
        return "under way" if _is_locked(folder / LOCK) else "interrupted"
    return "done"


def _rolled_out(reader: RunReader, counts: RunCounts) -> bool:
    """Tell whether every rollout that was to come has ended; so has each of what was imported."""
    info = reader.info
    if not info.judge:
        return True
    if info.branch_calls is not None:
        return not _rollouts(reader, branch_calls(reader), retry_failed=False)
    wanted = info.settings.get("n")
    n = wanted if isinstance(wanted, int) else 0
    all_wanted = counts.queries * n + sum(map(len, info.branches.values()))
    cut_short = counts.cancelled or counts.fewest < n or counts.rollouts < all_wanted
    return counts.queries > 0 and counts.queries >= (info.queries or 0) and not cut_short


def _is_locked(path: Path) -> bool:
    """Tell whether a process holds a lock on a file; False where the system does not tell (only Linux does)."""
    try:
        inode, locks = path.stat().st_ino, _LOCKS.read_text("ascii")
    except (OSError, ValueError):
        return False
    held = (line.split() for line in locks.splitlines())  # number, kind, mandatory or not, access, pid, device:inode
    return any("FLOCK" in fields[1:2] and fields[5:6] and fields[5].endswith(f":{inode}") for fields in held)
