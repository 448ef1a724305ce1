"""Where everything in a run is: offsets only, so memory grows by some hundred bytes a rollout, whatever its size."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from harness.archive.lines import LocatedRecord, read_lines
from harness.archive.packed_places import QueryPlaces, RolloutPlace, RolloutPlaces
from harness.archive.typed_records import QUERY_NAME, ROLLOUT_MARK, SEGMENT_HEAD, VERDICT_MARK, read_record
from harness.archive.verdict_index import VerdictIndex
from harness.core.rounded import sum_if_known

INDEXED = ("queries", "rollouts", "verdicts")
"""The folders of a run whose records are found by the index."""

MANY_VERDICTS = 40_000
"""Verdicts whose places take some ten megabytes of memory."""


@dataclass
class Index:
    """The places of a run's records. `spent` is what the verdicts cost; None if any price is unknown."""

    queries: QueryPlaces = field(default_factory=QueryPlaces)
    rollouts: RolloutPlaces = field(default_factory=RolloutPlaces)
    verdicts: VerdictIndex = field(default_factory=VerdictIndex)
    spent: float | None = 0.0
    seen: dict[Path, int] = field(default_factory=dict[Path, int])
    """How far each file has been read."""

    def close(self) -> None:
        """Close the file that the index stands in, if there is one."""
        self.verdicts.close()

    def scan(self, paths: Iterable[Path], relieve: Callable[[], None] | None = None) -> bool:
        """Read what is new; tell whether anything was. Raises ArchiveDamaged.

        Whenever many verdicts are in memory, `relieve` may put them elsewhere.
        """
        fresh, many = False, MANY_VERDICTS
        for path in paths:
            for located in read_lines(path, self.seen.get(path, 0)):
                fresh = True
                self._note(path.parent.name, located)
                self.seen[path] = located.end
                if relieve and self.verdicts.in_memory >= many:
                    relieve()
                    many = max(MANY_VERDICTS, 2 * self.verdicts.in_memory)  # where there is no room for them elsewhere
        return fresh

    def _note(self, segment: str, located: LocatedRecord) -> None:
        if located.members["kind"] == SEGMENT_HEAD.kind:
            return
        if segment == "queries":
            self.queries.setdefault(read_record(located, QUERY_NAME).id, located.place)
        elif segment == "rollouts":
            self._note_rollout(located)
        else:
            self._note_verdict(located)

    def _note_rollout(self, located: LocatedRecord) -> None:
        mark = read_record(located, ROLLOUT_MARK)
        kind, started = mark.failure.kind if mark.failure else None, mark.started_at.isoformat()
        at = RolloutPlace(located.place, mark.status, kind, started, mark.price_usd)
        self.rollouts.note(mark.query, mark.index, at)

    def _note_verdict(self, located: LocatedRecord) -> None:
        mark = read_record(located, VERDICT_MARK)
        if mark.status == "ok":
            self.verdicts.setdefault(mark.key, located.place)
        if mark.usage.requests and not mark.source:  # else paid for in another run
            self.spent = sum_if_known((self.spent, mark.price_usd))
