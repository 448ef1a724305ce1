"""Reading a run: streams over its segments, and an index of where things are. Never blocks a writer."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self, TypeVar

from harness.archive.blobs import Blobs
from harness.archive.index import Index, RolloutPlace
from harness.archive.index_cache import build_index, usual_caches
from harness.archive.layout import SEGMENTS, RunInfo, read_info, read_labels
from harness.archive.lines import RecordFiles, RecordPlace, read_lines
from harness.archive.rankings import RankingFile, read_head, read_ranking
from harness.archive.run_files import files_in, refuse_strange_records
from harness.archive.typed_records import (
    QUERY,
    ROLLOUT,
    SEGMENT_HEAD,
    VERDICT_LINE,
    RankingHead,
    damaged,
    read_record,
    recorded_settings,
)
from harness.core.errors import ArchiveDamaged, UsageError, quoted
from harness.core.records import Group, Query, Rollout, basis_of
from harness.core.settings import Settings
from harness.core.verdicts import AnyVerdict, Judged, Scored
from harness.core.wording import call

T = TypeVar("T")


class RunReader:
    """A run as it is on disk now. Use it as a context manager, or close it: it keeps the files that it reads open."""

    def __init__(self, folder: Path, caches: Path | None = None) -> None:
        """Read `run.json`; the other files are opened when they are needed.

        The index of a large run is kept in `caches`, by default the user's own. Raises NeedsUpgrade. Raises
        ArchiveDamaged without run.json, or where a link or the like stands among the files of records: before anything
        is paid for, whichever of them is needed.
        """
        self.folder = folder
        self.info: RunInfo
        self.info_sha256: str
        self.info, self.info_sha256 = read_info(folder)
        refuse_strange_records(folder, SEGMENTS)
        self.blobs = Blobs(folder / "blobs")
        caches = caches or usual_caches()
        self._cache = caches / "index" / f"{self.info_sha256}.sqlite" if caches else None
        self._index: Index | None = None
        self._from_cache = False
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

    @property
    def settings(self) -> Settings:
        """The settings that the run began with. Raises ArchiveDamaged if they are none."""
        return recorded_settings(self.info.settings, self.folder / "run.json")

    def queries(self) -> Iterator[Query]:
        """Yield the run's queries in the order they came."""
        yielded: set[str] = set()
        index = None
        while index is not self.index:  # made anew on the way, it may know others
            index = self.index
            for name in [name for name in index.queries if name not in yielded]:
                query = self.query(name)
                if self.index is not index:
                    break
                if query:
                    yielded.add(name)
                    yield query

    def query(self, query_id: str) -> Query | None:
        """Return one query, or None."""
        return self._ask(lambda index: self._query(index, query_id))

    def group(self, query: Query) -> Group:
        """Return a query's rollouts in index order, the newest record of each."""
        return self._ask(lambda index: Group(query=query, rollouts=tuple(self._rollouts(index, query.id))))

    def rollout_at(self, place: RolloutPlace) -> Rollout:
        """Return the rollout at a place of the index."""
        return read_record(self._files.record(place.place), ROLLOUT)

    def basis(self, query_id: str) -> str:
        """Return `Group.basis` of a query's rollouts as they are now, without reading them."""
        places = self.index.rollouts.get(query_id, {})
        return basis_of((i, places[i].status, places[i].started_at) for i in sorted(places))

    def verdict(self, key: str) -> Judged | None:
        """Return the verdict bought under `key`, or None."""
        verdict = self._ask(lambda index: self._bought(index, key))
        return verdict if isinstance(verdict, Judged) else None

    def scored(self, key: str) -> Scored | None:
        """Return the listwise verdict bought under `key`, or None."""
        verdict = self._ask(lambda index: self._bought(index, key))
        return verdict if isinstance(verdict, Scored) else None

    def verdicts(self) -> Iterator[AnyVerdict]:
        """Yield every verdict, failed and listwise ones too, in the order they were written."""
        for path in files_in(self.folder / "verdicts"):
            for located in read_lines(path):
                if located.members["kind"] != SEGMENT_HEAD.kind:
                    yield read_record(located, VERDICT_LINE)

    def labels(self) -> str | None:
        """Return the text of the run's file of labels, or None. Raises ArchiveDamaged for one that cannot be read."""
        return read_labels(self.folder)

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
        if free and len(files := list(files_in(self.folder / "rankings"))) == 1:
            return read_ranking(files[0])  # reads its header, too: once is enough
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
            raise UsageError(f"run {self.info.id} has no ranking {quoted(ranking_id)}; there are: {ids}")
        wanted = f"ranking {quoted(ranking_id)}" if ranking_id else "ranking yet"
        how = call("resume", self.info.id) if self.info.judge else call("rescore", self.info.id, judge_model="MODEL")
        raise UsageError(f"run {self.info.id} has no {wanted}; make one with {how}")

    @property
    def index(self) -> Index:
        """Where every record is; built at first use, for a large run from its cache."""
        if self._index is None:
            self._index, self._from_cache = build_index(self.folder, self._cache)
        return self._index

    def _ask(self, question: Callable[[Index], T]) -> T:
        """Answer a question by the index. Before what a cache says counts as damage, the index is made anew."""
        try:
            return question(self.index)
        except ArchiveDamaged:
            if not self._from_cache:
                raise
            self.close()
            self._index, self._from_cache = build_index(self.folder, self._cache, anew=True)
            return question(self._index)

    def _query(self, index: Index, query_id: str) -> Query | None:
        place = index.queries.get(query_id)
        if place is None:
            return None
        query = read_record(self._files.record(place), QUERY)
        return _expected(place, query, query.id == query_id)

    def _rollouts(self, index: Index, query_id: str) -> Iterator[Rollout]:
        for number, place in sorted(index.rollouts.get(query_id, {}).items()):
            rollout = self.rollout_at(place)
            yield _expected(place.place, rollout, (rollout.query, rollout.index) == (query_id, number))

    def _bought(self, index: Index, key: str) -> Judged | Scored | None:
        place = index.verdicts.get(key)  # of those that came out: a pair's, or a list's
        if place is None:
            return None
        verdict = read_record(self._files.record(place), VERDICT_LINE)
        bought = verdict if isinstance(verdict, Judged | Scored) else None
        return _expected(place, bought, bought is not None and bought.key == key)

    def _heads(self) -> list[tuple[RankingHead, Path]]:
        heads = [(head, path) for path in files_in(self.folder / "rankings") if (head := read_head(path))]
        return sorted(heads, key=lambda pair: pair[0].created_at)


def _expected(place: RecordPlace, record: T, fits: bool) -> T:
    """Return a record that is what was looked for. Raises ArchiveDamaged."""
    if not fits:
        raise damaged(place, "another record than the one looked for")
    return record
