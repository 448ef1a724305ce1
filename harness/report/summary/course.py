"""The course of a training: how the judge marked the policy's rollouts, version by version."""

import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from harness.archive.reader import RunReader
from harness.archive.result_files import RankingFile
from harness.core.records import Rollout
from harness.ranking.judge_stats.watch import mean_marks


@dataclass(frozen=True)
class CoursePoint:
    """A version of the policy: the newest behind some groups, and their mean mark."""

    version: int
    groups: int
    mark: float


def training_course(reader: RunReader, ranking: RankingFile) -> list[CoursePoint]:
    """Return a point a version, in order; none for a run that trains nothing. Raises ArchiveDamaged."""
    marks: dict[int, list[float]] = {}
    for ranked in ranking.groups:
        query = reader.query(ranked.query)
        version = newest_version(reader.group(query).rollouts) if query else None
        if version is None:
            return []
        if given := mean_marks(ranked):
            marks.setdefault(version, []).append(statistics.fmean(given.values()))
    return [CoursePoint(version, len(each), statistics.fmean(each)) for version, each in sorted(marks.items())]


def newest_version(rollouts: Iterable[Rollout]) -> int | None:
    """Return the newest version of the policy behind some rollouts; None where none is known."""
    return max((v for rollout in rollouts for call in rollout.calls for v in call.policy), default=None)
