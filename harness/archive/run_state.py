"""What became of a run or a comparison: done, under way, interrupted, failed."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from harness.archive.batch_log import with_provider
from harness.archive.layout import LOCK
from harness.archive.missing import CUT_SHORT
from harness.archive.packed_places import RolloutPlace
from harness.archive.rankings import RankingFile
from harness.archive.reader import RunReader

if TYPE_CHECKING:  # a list of runs alone needs nothing of comparisons
    from harness.archive.comparison_reader import ComparisonFile

RunState = Literal["done", "under way", "waiting", "interrupted", "failed", "partly failed", "not judged"]
"""waiting: all that is missing are verdicts, and a provider has batches of their questions. interrupted: a rollout,
the ranking or the comparing was begun, or was to come, and never ended. failed: all that was to come was tried, and
no rollout ended well, or no query was ranked in full (or compared in full). partly failed: endpoint or judge failed
some of it."""
_LOCKS = Path("/proc/locks")


def state_of(reader: RunReader, ranking: RankingFile | None) -> RunState:
    """Return what became of a run; `ranking` is its newest. Raises ArchiveDamaged."""
    if _interrupted(reader, _gone_on_with(reader, ranking)):
        if _is_locked(reader.folder / LOCK):
            return "under way"
        return "waiting" if _rolled_out(reader) and with_provider(reader.folder) else "interrupted"
    if ranking is None or ranking.head.settings.get("topology") == "none":
        return "not judged"
    places = [place for group in reader.index.rollouts.values() for place in group.values()]
    if all(place.status == "failed" for place in places) or ranking.incomplete == len(ranking.groups):
        return "failed"
    return "partly failed" if ranking.incomplete or any(place.kind in CUT_SHORT for place in places) else "done"


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


def _interrupted(reader: RunReader, ranking: RankingFile | None) -> bool:
    if not reader.info.judge:  # what was imported nobody runs
        return ranking is not None and not ranking.finished
    return not _rolled_out(reader) or ranking is None or not ranking.finished


def _rolled_out(reader: RunReader) -> bool:
    """Tell whether every rollout that was to come has ended; so has each of what was imported."""
    info, index = reader.info, reader.index
    if not info.judge:
        return True
    wanted = info.settings.get("n")
    ended = [index.rollouts.get(query, {}) for query in index.queries]
    cut_short = any(_cut_short(places, wanted if isinstance(wanted, int) else 0) for places in ended)
    return bool(ended) and len(ended) >= (info.queries or 0) and not cut_short


def _cut_short(places: Mapping[int, RolloutPlace], wanted: int) -> bool:
    return len(places) < wanted or any(place.kind == "cancelled" for place in places.values())


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
