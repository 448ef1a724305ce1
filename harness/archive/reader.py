"""Reading a run: streams over its segments, large texts by their hash, an index. Never blocks a writer."""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Self, TypeVar

from harness.archive import typed_records
from harness.archive.group_cache import GroupCache
from harness.archive.index import INDEXED, Index
from harness.archive.index_file import NamePlaces, file_name, is_worth_keeping, usual_caches
from harness.archive.lines import RecordFiles, RecordPlace, raw_lines, read_at, read_lines
from harness.archive.result_files import RankingFile, heads_in, read_ranking
from harness.archive.run_files import files_in, open_file, refuse_strange_records, stamps_in
from harness.archive.run_info import RUN_FILE, SEGMENTS, RunInfo, read_info
from harness.core.errors import ArchiveDamaged, UsageError, call, quoted
from harness.core.judge_profile import JudgeLeanings, ProbedJudge
from harness.core.rankings import AnyVerdict, Judged, PairScores, Scored, Unjudged, Unscored
from harness.core.records import Group, Query, Rollout, basis_of
from harness.core.settings import Settings

_SECOND = len("20260721T140320")
"""So many characters of a ranking's name say when it was begun."""
_HEAD = re.compile(rb'\{"crc":"[0-9a-f]{8}","schema_version":\d+,"kind":"blob","sha256":"([0-9a-f]{64})"')


def blob_name(text: str) -> str:
    """Return the sha256 (hex) of a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def blob_body(name: str, text: str) -> str:
    """Return the record of a blob, as JSON. A lone surrogate, which UTF-8 cannot hold, is kept as an escape."""
    literal = json.dumps(text, ensure_ascii=False)
    try:
        literal.encode()
    except UnicodeEncodeError:
        literal = json.dumps(text)
    return f'{{"sha256":"{name}","text":{literal}}}'


class Blobs:
    """The blobs of a run, for reading. A name that is not there yet is looked for in what was written since."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._places = NamePlaces()
        self._seen: dict[Path, int] = {}

    def __contains__(self, name: str) -> bool:
        """Whether a blob of that name was there at the last scan."""
        return name in self._places

    def get(self, name: str) -> str:
        """Return a stored text. Raises ArchiveDamaged if it is missing or does not match its hash."""
        place = self.place(name)
        text = typed_records.read_record(read_at(place), typed_records.BLOB).text
        if blob_name(text) != name:
            raise ArchiveDamaged(f"{place}: the content does not match its hash {name}")
        return text

    def place(self, name: str) -> RecordPlace:
        """Return where a text stands. Raises ArchiveDamaged if it is missing."""
        if name not in self:
            self.scan()
        if (place := self._places.get(name)) is None:
            raise ArchiveDamaged(f"{self._folder}: missing blob {name}")
        return place

    def add_place(self, name: str, place: RecordPlace, end: int) -> None:
        """Hear from the writer where it put a blob, which ends at byte `end`."""
        self._places.add(name, place)
        self._seen[place.path] = end

    def scan(self) -> None:
        """Find the blobs that came since the last scan; their texts are passed over unread."""
        for path, size in files_in(self._folder).items():
            if size <= self._seen.get(path, 0):
                continue
            with open_file(path) as file:
                for line in raw_lines(file, self._seen.get(path, 0)):
                    if line.torn:
                        break
                    if head := _HEAD.match(line.data):
                        self._places.add(head[1].decode(), RecordPlace(path, line.start))
                    self._seen[path] = line.end


T = TypeVar("T")
VerdictT = TypeVar("VerdictT", bound=AnyVerdict | PairScores)
_RECENT = 256
"""So many verdicts' scores, of 3 KB each, are kept in case that they are looked up again."""


class FolderReader:
    """What runs and comparisons have in common, as it is on disk now. Close it, or use it as a context manager."""

    def __init__(self, folder: Path, name: str, sha256: str, segments: Sequence[str], caches: Path | None) -> None:
        """Take the folder's id, and the sha256 of the file that says so.

        The index of a large folder is kept in `caches`, by default the user's own. Raises ArchiveDamaged where a link
        or the like stands among the files of records: before anything is paid for, whichever of them is needed.
        """
        self.folder, self.id, self.info_sha256 = folder, name, sha256
        refuse_strange_records(folder, segments)
        self.blobs = Blobs(folder / "blobs")
        caches = caches or usual_caches()
        self._cache = caches / "index" / f"{sha256}.sqlite" if caches else None
        self._indexed = [name for name in INDEXED if name in segments]
        self._index: Index | None = None
        self._files = RecordFiles()
        self._scores: dict[str, PairScores] = {}
        """What was read last."""

    def close(self) -> None:
        """Close the files and the index; further reading opens them again."""
        self._files.close()
        if self._index is not None:
            self._index.close()
            self._index = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def verdict(self, key: str) -> Judged | None:
        """Return the verdict bought under `key`, or None."""
        verdict = self._find_verdict(key, typed_records.VERDICT_LINE)
        return verdict if isinstance(verdict, Judged) else None

    def pair_scores(self, key: str) -> PairScores | None:
        """Return what rankings take of the verdict on a pair bought under `key`, or None."""
        if scores := self._scores.get(key):  # a group is ranked, and then summed up
            return scores
        if scores := self._find_verdict(key, typed_records.PAIR_SCORES):
            if len(self._scores) == _RECENT:
                self._scores.clear()
            self._scores[key] = scores
        return scores

    def scored(self, key: str) -> Scored | None:
        """Return the listwise verdict bought under `key`, or None."""
        verdict = self._find_verdict(key, typed_records.VERDICT_LINE)
        return verdict if isinstance(verdict, Scored) else None

    def verdicts(self) -> Iterator[AnyVerdict]:
        """Yield every verdict, failed and listwise ones too, in the order they were written."""
        for path in files_in(self.folder / "verdicts"):
            for located in read_lines(path):
                if located.members["kind"] != typed_records.SEGMENT_HEAD:
                    yield typed_records.read_record(located, typed_records.VERDICT_LINE)

    @property
    def index(self) -> Index:
        """Where every record is; built at first use, for a large run from its cache."""
        if self._index is None:
            self._index = Index(self.folder, self._indexed, self._cache)
        return self._index

    def _ask(self, question: Callable[[], T]) -> T:
        """Answer a question by the index. Before what a cache says counts as damage, the index is made anew."""
        try:
            return question()
        except ArchiveDamaged:
            if not self.index.from_cache:
                raise
            self._files.close()
            self.index.make_anew()
            return question()

    def _find_verdict(self, key: str, record_type: typed_records.RecordType[VerdictT]) -> VerdictT | None:
        def fits(verdict: VerdictT) -> bool:
            return verdict.key == key and not isinstance(verdict, Unjudged | Unscored)

        return self._find(self.index.verdicts, key, record_type, fits)

    def _find(
        self,
        places: Mapping[str, RecordPlace],
        name: str,
        record_type: typed_records.RecordType[T],
        fits: Callable[[T], bool],
    ) -> T | None:
        """Return the record of that name, or None."""

        def read() -> T | None:
            if (place := places.get(name)) is None:
                return None
            record = typed_records.read_at_place(self._files, place, record_type)
            return expected(place, record, fits(record))

        return self._ask(read)


def expected(place: RecordPlace, record: T, fits: bool) -> T:
    """Return a record that is what was looked for. Raises ArchiveDamaged."""
    if not fits:
        raise typed_records.damaged(place, "another record than the one looked for")
    return record


class RunReader(FolderReader):
    """A run as it is on disk now. Use it as a context manager, or close it: it keeps the files that it reads open."""

    def __init__(self, folder: Path, caches: Path | None = None) -> None:
        """Read `run.json`. Raises as FolderReader and `read_info` do."""
        self.info: RunInfo
        self.info, sha256 = read_info(folder)
        super().__init__(folder, self.info.id, sha256, SEGMENTS, caches)

    @property
    def typed_name(self) -> str:
        """What a command or a function takes to find the run: its name in the usual folder of runs, else its path."""
        return self.folder.name if self.folder.parent == Path("runs") else str(self.folder)

    @property
    def how_to_rank(self) -> str:
        """The command that makes the first ranking of the run."""
        name = self.typed_name
        return call("resume", name) if self.info.judge else call("rescore", name, judge_model="MODEL")

    @property
    def settings(self) -> Settings:
        """The settings that the run began with. Raises ArchiveDamaged if they are none."""
        return typed_records.recorded_settings(self.info.settings, self.folder / RUN_FILE)

    def queries(self) -> Iterator[Query]:
        """Yield the run's queries in the order they came."""
        yielded: set[str] = set()
        times_made = 0
        while times_made != self.index.times_made:  # made anew on the way, it may know others
            times_made = self.index.times_made
            for name in [name for name in self.index.queries if name not in yielded]:
                query = self.query(name)
                if self.index.times_made != times_made:
                    break
                if query:
                    yielded.add(name)
                    yield query

    def query(self, query_id: str) -> Query | None:
        """Return one query, or None."""
        return self._find(self.index.queries, query_id, typed_records.QUERY, lambda query: query.id == query_id)

    def group(self, query: Query) -> Group:
        """Return a query's rollouts in index order, the newest record of each."""

        def rollouts() -> Iterator[Rollout]:
            for number, place in self.index.rollouts.get(query.id, {}).items():
                rollout = self.rollout_at(place.place)
                yield expected(place.place, rollout, (rollout.query, rollout.index) == (query.id, number))

        return self._ask(lambda: Group(query=query, rollouts=tuple(rollouts())))

    def rollout_at(self, place: RecordPlace) -> Rollout:
        """Return the rollout at a place of the index."""
        return typed_records.read_at_place(self._files, place, typed_records.ROLLOUT)

    def basis(self, query_id: str) -> str:
        """Return `Group.basis` of a query's rollouts as they are now, without reading them."""
        places = self.index.rollouts.get(query_id, {})
        return basis_of((index, place.status, place.started_at) for index, place in places.items())

    def group_cache(self, fingerprint: str | None) -> GroupCache:
        """Return what is cached of the groups of a large run by a judging, named by its fingerprint; or nothing."""
        files = {path: stamp for name in INDEXED for path, stamp in stamps_in(self.folder / name).items()}
        if not (fingerprint and self._cache and is_worth_keeping(size for size, *_ in files.values())):
            return GroupCache()
        return GroupCache(self.index, fingerprint, {file_name(path): stamp for path, stamp in files.items()})

    def rankings(self) -> list[RankingFile]:
        """Return all rankings of the run, oldest first; their groups are read as they are asked for."""
        rankings = [ranking for _, path in self._heads() if (ranking := read_ranking(path))]
        return sorted(rankings, key=lambda ranking: ranking.head.created_at)

    def heads(self) -> list[typed_records.RankingHead]:
        """Return the header of each ranking, oldest first."""
        return [head for head, _ in self._heads()]

    def leanings(self, judge: str, rubric: str, rendering: int) -> JudgeLeanings | None:
        """Return what the newest probes of a judge by a rubric show; None without any."""
        newest: ProbedJudge | None = None
        for path in files_in(self.folder / "probes"):
            for located in read_lines(path):
                if located.members["kind"] != typed_records.SEGMENT_HEAD:
                    probed = typed_records.read_record(located, typed_records.PROBED_JUDGE)
                    is_of = (probed.judge, probed.rubric, probed.rendering) == (judge, rubric, rendering)
                    newest = probed if is_of and (newest is None or newest.at <= probed.at) else newest
        return newest and newest.leanings

    def unread_rankings(self) -> list[Path]:
        """Return the files that are no older than any ranking, and hold none: not even their header is whole."""
        heads = self._heads()
        newest, read = heads[-1][1].name[:_SECOND] if heads else "", {path for _, path in heads}
        files = files_in(self.folder / "rankings")
        return [path for path in files if path not in read and path.name[:_SECOND] >= newest]

    def newest_head(self) -> typed_records.RankingHead | None:
        """Return the head of the newest ranking, finished or not, or None."""
        heads = self._heads()
        return heads[-1][0] if heads else None

    def newest_not_begun(self) -> tuple[typed_records.RankingHead, typed_records.RankingHead] | None:
        """Return the head of the newest ranking and of the one before, where the newest holds nothing; else None."""
        heads = self._heads()
        if len(heads) < 2 or len(list(islice(read_lines(heads[-1][1]), 2))) > 1:
            return None
        return heads[-1][0], heads[-2][0]

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
        raise UsageError(f"run {self.info.id} has no ranking yet; make one with {self.how_to_rank}")

    def _heads(self) -> list[tuple[typed_records.RankingHead, Path]]:
        return heads_in(self.folder / "rankings", typed_records.RANKING_HEAD)
