"""A run's folder, open for writing: where rollouts, verdicts and rankings go as they happen."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

from harness.archive.batch_log import KIND_OF, SEGMENT, BatchRecord
from harness.archive.comparison_reader import ComparisonHead, ComparisonInfo, ComparisonReader
from harness.archive.folder_store import FolderStore, begin_segment, make_folder
from harness.archive.lines import RecordPlace
from harness.archive.reader import RunReader
from harness.archive.result_files import ResultWriter
from harness.archive.run_info import COMPARISON_FILE, RUN_FILE, RunInfo
from harness.archive.typed_records import RankingHead
from harness.core.comparisons import ComparedQuery
from harness.core.judge_profile import JudgeProfile
from harness.core.rankings import GroupRanking
from harness.core.records import Query, Rollout, to_json
from harness.core.redaction import DEFAULT_REDACTOR, Redactor

_InfoReader = TypeVar("_InfoReader", bound=RunReader | ComparisonReader)


class InfoStore(FolderStore[_InfoReader]):
    """What runs and comparisons have in common: the folder begins with a file that says what it is."""

    info_file: ClassVar[str]
    reader_type: ClassVar[type[Any]]

    def __init__(
        self,
        folder: Path,
        at: datetime,
        *,
        versions: Mapping[str, str] | None = None,
        accepted: Sequence[str] = (),
        redact: Redactor = DEFAULT_REDACTOR,
    ) -> None:
        """Lock `folder`, as FolderStore does; `versions` are by default those of its file. Raises ArchiveDamaged."""
        reader = self.reader_type(folder)  # before the lock, whose file would make the folder
        super().__init__(reader, at, versions=versions or reader.info.versions, accepted=accepted, redact=redact)

    @classmethod
    def _make(
        cls, runs_dir: Path, info: RunInfo | ComparisonInfo, redact: Redactor, fill: Callable[[Path], None]
    ) -> Self:
        text = redact.secret(info.model_dump_json(indent=1))
        is_first = make_folder(runs_dir / info.id, cls.info_file, text, fill)
        store = cls(runs_dir / info.id, info.created_at, redact=redact)
        store._made_runs_dir = is_first
        return store


class ComparisonWriter(ResultWriter[ComparisonHead, ComparedQuery]):
    """Writes what came of a comparison: a line a query."""

    kind = "compared"
    counted = "queries"


class ComparisonStore(InfoStore[ComparisonReader]):
    """A comparison's folder, open for writing under its lock. Use it as a context manager."""

    info_file, reader_type = COMPARISON_FILE, ComparisonReader
    costs_nothing = frozenset({"blobs"})
    """Texts are copied from the sides' runs. A judge's reply is a text, too, and its verdict follows at once."""

    @classmethod
    def create(cls, runs_dir: Path, info: ComparisonInfo, *, redact: Redactor = DEFAULT_REDACTOR) -> Self:
        """Make a comparison's folder, whole or not at all. Raises UsageError where the folder cannot be written."""
        return cls._make(runs_dir, info, redact, lambda _: None)

    def open_comparison(self, head: ComparisonHead) -> ComparisonWriter:
        """Start a file beside the ones that are there; it is on disk with its first verdict or its first query."""
        path = self.folder / "comparisons" / f"{head.id}.jsonl"
        self._results = comparison = ComparisonWriter(path, head, self.redact, self.settle)
        return comparison


class RankingWriter(ResultWriter[RankingHead, GroupRanking]):
    """Writes a ranking: a line a group; of a group that is provisional first a second line is to come."""

    kind = "group"
    counted = "groups"
    profiles: Sequence[JudgeProfile] = ()
    """What the ranking has taught of its judges; set before it is finished."""
    has_provisional = False
    """Whether a group that was written is to be told anew."""

    def _also(self) -> dict[str, Any]:
        profiles = [profile.model_dump(mode="json") for profile in self.profiles]
        return {"profiles": profiles} if profiles else {}

    def _counts(self, result: GroupRanking) -> bool:
        self.has_provisional |= result.provisional
        return not result.provisional


class RunStore(InfoStore[RunReader]):
    """A run's folder, open for writing under its lock. Use it as a context manager."""

    info_file, reader_type = RUN_FILE, RunReader
    costs_nothing = frozenset({"queries"})

    @classmethod
    def create(
        cls, runs_dir: Path, info: RunInfo, queries: Sequence[Query] = (), *, redact: Redactor = DEFAULT_REDACTOR
    ) -> Self:
        """Make a run's folder, whole or not at all. Raises UsageError where the folder cannot be written.

        `queries` are in it from the beginning, so that whoever resumes the run knows them all.
        """

        def fill(folder: Path) -> None:
            if not queries:
                return
            head: dict[str, Any] = {"versions": dict(info.versions), "accepted": []}
            appender = begin_segment(folder / "queries", info.created_at, head)
            for query in queries:
                appender.append("query", to_json(_redacted(query, redact)), sync=False)
            appender.sync()
            appender.close()

        return cls._make(runs_dir, info, redact, fill)

    def add_query(self, query: Query) -> None:
        """Keep a query, unless it is there."""
        index = self.reader.index
        if query.id not in index.queries:
            body = to_json(_redacted(query, self.redact))
            index.add(index.queries, query.id, self._append("queries", "query", body))

    def add_rollout(self, rollout: Rollout) -> Rollout:
        """Keep a rollout, and return it as it is kept: redacted."""
        kept, body = self.redact.record_and_json(rollout)
        self._append("rollouts", "rollout", body)
        return kept

    def add_batch_record(self, record: BatchRecord) -> RecordPlace:
        """Keep a record of a batch of judge calls, and return its place; `settle` puts it on disk."""
        _, body = self.redact.record_and_json(record)
        return self._append(SEGMENT, KIND_OF[type(record)], body)

    def open_ranking(self, head: RankingHead) -> RankingWriter:
        """Start a ranking beside the ones that are there; it is on disk with its first verdict or its first group."""
        self._results = ranking = RankingWriter(self.folder / "rankings" / f"{head.id}.jsonl", head, self.redact)
        return ranking


def _redacted(query: Query, redact: Redactor) -> Query:
    kept = redact.record(query)
    return kept if kept == query else kept.model_copy(update={"redacted": True})
