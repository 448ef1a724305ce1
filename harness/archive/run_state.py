"""What became of a run or a comparison: done, under way, interrupted, failed."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from harness.archive.batch_log import with_provider
from harness.archive.layout import LOCK
from harness.archive.missing import CUT_SHORT
from harness.archive.rankings import RankingFile
from harness.archive.reader import RunReader
from harness.archive.run_counts import RunCounts
from harness.archive.run_info import RunInfo

if TYPE_CHECKING:  # a list of runs alone needs nothing of comparisons
    from harness.archive.comparison_reader import ComparisonFile

RunState = Literal["done", "under way", "waiting", "interrupted", "failed", "partly failed", "not judged"]
"""waiting: all that is missing are verdicts, and a provider has batches of their questions. interrupted: a rollout,
the ranking or the comparing was begun, or was to come, and never ended. failed: all that was to come was tried, and
no rollout ended well, or no query was ranked in full (or compared in full). partly failed: endpoint or judge failed
some of it."""
_LOCKS = Path("/proc/locks")


def state_of(reader: RunReader, ranking: RankingFile | None, counts: RunCounts) -> RunState:
    """Return what became of a run; `ranking` is its newest, `counts` are `reader.counts()`. Raises ArchiveDamaged."""
    if _interrupted(reader.info, _gone_on_with(reader, ranking), counts):
        if _is_locked(reader.folder / LOCK):
            return "under way"
        return "waiting" if _rolled_out(reader.info, counts) and with_provider(reader.folder) else "interrupted"
    if ranking is None or ranking.head.settings.get("topology") == "none":
        return "not judged"
    if counts.failed == counts.rollouts or ranking.incomplete == len(ranking.groups):
        return "failed"
    return "partly failed" if ranking.incomplete or not counts.kinds.isdisjoint(CUT_SHORT) else "done"


def state_of_comparison(folder: Path, newest: "ComparisonFile | None") -> RunState:
    """Return what became of a comparison; `newest` is the newest of its files. Raises ArchiveDamaged."""
    if newest is None or not newest.finished:
        return "under way" if _is_locked(folder / LOCK) else "interrupted"
    if newest.incomplete:
        return "failed" if newest.incomplete == len(newest.queries) else "partly failed"
    return "done"


def _gone_on_with(reader: RunReader, ranking: RankingFile | None) -> RankingFile | None:
    """Return the ranking that `resume` goes by: a free one that lacks verdicts does not count."""
    if ranking and ranking.head.free and ranking.incomplete:
        return reader.newest_ranking(free=False) or ranking
    return ranking


def _interrupted(info: RunInfo, ranking: RankingFile | None, counts: RunCounts) -> bool:
    if not info.judge:  # what was imported nobody runs
        return ranking is not None and not ranking.finished
    return not _rolled_out(info, counts) or ranking is None or not ranking.finished


def _rolled_out(info: RunInfo, counts: RunCounts) -> bool:
    """Tell whether every rollout that was to come has ended; so has each of what was imported."""
    if not info.judge:
        return True
    wanted = info.settings.get("n")
    cut_short = counts.cancelled or counts.fewest < (wanted if isinstance(wanted, int) else 0)
    return counts.queries > 0 and counts.queries >= (info.queries or 0) and not cut_short


def _is_locked(path: Path) -> bool:
    """Tell whether a process holds a lock on a file; False where the system does not tell (only Linux does).

    Trying to lock the file would tell it everywhere, and might stop a process that locks it at that moment.
    """
    try:
        inode, locks = path.stat().st_ino, _LOCKS.read_text("ascii")
    except (OSError, ValueError):
        return False
    held = (line.split() for line in locks.splitlines())  # number, kind, mandatory or not, access, pid, device:inode
    return any("FLOCK" in fields[1:2] and fields[5:6] and fields[5].endswith(f":{inode}") for fields in held)
