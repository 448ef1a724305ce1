"""Reading a run: streams over its segments, and an index of where things are. Never blocks a writer."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from harness.archive.blobs import Blobs
from harness.archive.index import Index, RolloutPlace, build_index
from harness.archive.layout import SEGMENTS, RunInfo, read_info
from harness.archive.lines import LocatedRecord, RecordFiles, read_lines
from harness.archive.rankings import RankingFile, RankingHead, read_head, read_ranking
from harness.archive.run_files import files_in, refuse_strange_records
from harness.core.errors import UsageError
from harness.core.records import Group, Query, Rollout, basis_of
from harness.core.verdicts import VERDICT, AnyVerdict, Judged, Scored


class RunReader:
    """A run as it is on disk now. Use it as a context manager, or close it: it keeps the files that it reads open."""

    def __init__(self, folder: Path) -> None:
        """Read `run.json`; the other files are opened when they are needed.

        Raises ArchiveDamaged without run.json, or where a link or the like stands among the files of records: before
        anything is paid for, whichever of them is needed.
        """
        self.folder = folder
        self.info: RunInfo = read_info(folder)
        refuse_strange_records(folder, SEGMENTS)
        self.blobs = Blobs(folder / "blobs")
        self._index: Index | None = None
        self._files = RecordFiles()

    def close(self) -> None:
        """Close the files and the index; further reading opens them again."""
        self._files.close()
        if self._index is not None:
            self._index.close()
            self._index = None

    def __enter__(self) -> Self:
        """Return the reader itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the reader."""
        self.close()

    def queries(self) -> Iterator[Query]:
        """Yield the run's queries in the order they came."""
        for place in list(self.index.queries.values()):
            yield Query.model_validate(self._files.record(*place))

    def query(self, query_id: str) -> Query | None:
        """Return one query, or None."""
        place = self.index.queries.get(query_id)
        return Query.model_validate(self._files.record(*place)) if place else None

    def group(self, query: Query) -> Group:
        """Return a query's rollouts in index order, the newest record of each."""
        places = self.index.rollouts.get(query.id, {})
        return Group(query=query, rollouts=tuple(self.rollout_at(places[i]) for i in sorted(places)))

    def rollout_at(self, place: RolloutPlace) -> Rollout:
        """Return the rollout at a place of the index."""
        return Rollout.model_validate(self._files.record(place.path, place.offset))

    def basis(self, query_id: str) -> str:
        """Return `Group.basis` of a query's rollouts as they are now, without reading them."""
        places = self.index.rollouts.get(query_id, {})
        return basis_of((i, places[i].status, places[i].started_at) for i in sorted(places))

    def verdict(self, key: str) -> Judged | None:
        """Return the verdict bought under `key`, or None."""
        members = self._bought(key)
        return None if members is None or "transcripts" in members else Judged.model_validate(members)

    def scored(self, key: str) -> Scored | None:
        """Return the listwise verdict bought under `key`, or None."""
        members = self._bought(key)
        return Scored.model_validate(members) if members and "transcripts" in members else None

    def _bought(self, key: str) -> dict[str, Any] | None:
        place = self.index.verdicts.get(key)  # of those that came out: a pair's, or a list's
        return self._files.record(*place) if place else None

    def verdicts(self) -> Iterator[AnyVerdict]:
        """Yield every verdict, failed and listwise ones too, in the order they were written."""
        for located in self._segment("verdicts"):
            yield VERDICT.validate_python(located.members)

    def rankings(self) -> list[RankingFile]:
        """Return all rankings of the run, oldest first; their groups are read as they are asked for."""
        rankings = [ranking for _, path in self._heads() if (ranking := read_ranking(path))]
        return sorted(rankings, key=lambda ranking: ranking.head.created_at)

    def heads(self) -> list[RankingHead]:
        """Return the header of each ranking, oldest first."""
        return [head for head, _ in self._heads()]

    def newest_head(self) -> RankingHead | None:
        """Return the head of the newest ranking, finished or not, or None."""
        heads = self._heads()
        return heads[-1][0] if heads else None

    def newest_ranking(self, *, free: bool = True) -> RankingFile | None:
        """Return the newest ranking, finished or not, or None; without `free` one that was allowed to buy."""
        heads = [at for at in self._heads() if free or not at[0].free]
        return read_ranking(heads[-1][1]) if heads else None

    def ranking(self, ranking_id: str | None = None) -> RankingFile:
        """Return the newest ranking, or the one named. Raises UsageError if there is none."""
        heads = self._heads()
        for head, path in reversed(heads):
            if ranking_id in (None, head.id) and (ranking := read_ranking(path)):
                return ranking
        if ranking_id and heads:
            ids = ", ".join(head.id for head, _ in heads)
            raise UsageError(f"run {self.info.id} has no ranking {ranking_id!r}; there are: {ids}")
        wanted = f"ranking {ranking_id!r}" if ranking_id else "ranking yet"
        how = (
            f"harness resume {self.info.id}"
            if self.info.judge
            else f"harness rescore {self.info.id} --judge-model MODEL"
        )
        raise UsageError(f"run {self.info.id} has no {wanted}; make one with `{how}`")

    @property
    def index(self) -> Index:
        """Where every record is; built at first use, for a large run from its cache."""
        if self._index is None:
            self._index = build_index(self.folder)
        return self._index

    def _heads(self) -> list[tuple[RankingHead, Path]]:
        heads = [(head, path) for path in files_in(self.folder / "rankings") if (head := read_head(path))]
        return sorted(heads, key=lambda pair: pair[0].created_at)

    def _segment(self, name: str) -> Iterator[LocatedRecord]:
        for path in files_in(self.folder / name):
            yield from (at for at in read_lines(path) if at.members["kind"] != "header")
