"""What rolling out and judging need of an archive: the stores in memory, and a run's folder open for writing."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self, TypeVar

from harness.archive import checkpoints
from harness.archive.batch_log import KIND_OF, SEGMENT, BatchRecord
from harness.archive.comparison_reader import ComparisonHead, ComparisonInfo, ComparisonReader
from harness.archive.folder_store import FolderStore, begin_segment, make_folder
from harness.archive.lines import Appender, RecordPlace, disk_errors
from harness.archive.reader import FolderReader, RunReader, blob_name
from harness.archive.result_files import ResultWriter
from harness.archive.run_files import files_in, remove_file
from harness.archive.run_info import COMPARISON_FILE, RUN_FILE, RunInfo
from harness.archive.run_state import CUT_SHORT
from harness.archive.typed_records import RankingHead
from harness.core.comparisons import ComparedQuery
from harness.core.errors import ArchiveDamaged
from harness.core.judge_profile import JudgeProfile, ProbedJudge
from harness.core.rankings import AnyVerdict, GroupRanking, Judged, PairJudgment, Scored
from harness.core.records import Query, Rollout, to_json
from harness.core.redaction import DEFAULT_REDACTOR, Redactor


class VerdictStore(Protocol):
    """What judging needs of an archive. A record counts once a `commit` after it has returned."""

    @property
    def redact(self) -> Redactor:
        """What is applied to all that is kept; whoever goes on with a record takes it as it was kept."""
        ...

    def put_blob(self, text: str, *, as_is: bool = False) -> str:
        """Keep a large text and return its sha256. It is safe no later than the next record, which may name it.

        A text is kept `as_is` if it has been redacted, or is packed numbers, which a pattern could only break.
        """
        ...

    def get_blob(self, name: str) -> str:
        """Return a text that was kept. Raises ArchiveDamaged where there is none of that name."""
        ...

    def settle(self) -> None:
        """Wait until every text put is safe, record or no record."""

    def expect_verdict(self) -> None:
        """Note that a judge is about to be asked for a verdict."""

    def add_verdict(self, verdict: AnyVerdict) -> None:
        """Keep a verdict."""

    def verdict(self, key: str) -> Judged | None:
        """Return the verdict that was bought under `key`, or None."""

    def pair_scores(self, key: str) -> PairJudgment | None:
        """Return what rankings take of the verdict on a pair that was bought under `key`, or None."""

    def scored(self, key: str) -> Scored | None:
        """Return the listwise verdict that was bought under `key`, or None."""

    async def commit(self) -> None:
        """Wait until all that was added before is safe: only then it counts."""


class Store(VerdictStore, Protocol):
    """What rolling out and judging need of an archive."""

    def add_query(self, query: Query) -> None:
        """Keep a query."""

    def add_rollout(self, rollout: Rollout) -> Rollout:
        """Keep a rollout, and return it as it is kept: redacted."""
        ...

    @property
    def keeps_checkpoints(self) -> bool:
        """Whether the store keeps what rollouts under way have had: it outlasts the process."""
        ...

    def add_checkpoint(self, record: checkpoints.KeptReply | checkpoints.KeptOutput) -> bool:
        """Keep what a rollout under way has had; return whether it is kept just so."""
        ...


class MemoryStore:
    """A store that lasts as long as the process: for use from Python without a run on disk."""

    keeps_checkpoints = False
    """What is in memory ends with the process."""

    def __init__(self, redact: Redactor = DEFAULT_REDACTOR) -> None:
        self.redact = redact
        self.blobs: dict[str, str] = {}
        self.queries: list[Query] = []
        self.rollouts: list[Rollout] = []
        self.verdicts: list[AnyVerdict] = []
        self._bought: dict[str, Judged | Scored] = {}

    def put_blob(self, text: str, *, as_is: bool = False) -> str:
        """Keep a large text and return its sha256."""
        text = text if as_is else self.redact.blob(text)
        name = blob_name(text)
        self.blobs[name] = text
        return name

    def get_blob(self, name: str) -> str:
        """Return a text that was kept. Raises ArchiveDamaged where there is none of that name."""
        if name not in self.blobs:
            raise ArchiveDamaged(f"missing blob {name}")
        return self.blobs[name]

    def settle(self) -> None:
        """Do nothing: memory is as safe as it gets."""

    def add_query(self, query: Query) -> None:
        """Keep a query."""
        self.queries.append(self.redact.record(query))

    def add_rollout(self, rollout: Rollout) -> Rollout:
        """Keep a rollout, and return it as it is kept: redacted."""
        self.rollouts.append(self.redact.record(rollout))
        return self.rollouts[-1]

    def expect_verdict(self) -> None:
        """Do nothing: memory keeps no trace."""

    def add_checkpoint(self, record: checkpoints.KeptReply | checkpoints.KeptOutput) -> bool:
        """Keep nothing."""
        del record
        return False

    def add_verdict(self, verdict: AnyVerdict) -> None:
        """Keep a verdict."""
        verdict = self.redact.record(verdict)
        self.verdicts.append(verdict)
        if isinstance(verdict, Judged | Scored):
            self._bought.setdefault(verdict.key, verdict)

    def verdict(self, key: str) -> Judged | None:
        """Return the verdict that was bought under `key`, or None."""
        verdict = self._bought.get(key)
        return verdict if isinstance(verdict, Judged) else None

    def pair_scores(self, key: str) -> PairJudgment | None:
        """Return what rankings take of the verdict on a pair that was bought under `key`, or None."""
        return self.verdict(key)

    def scored(self, key: str) -> Scored | None:
        """Return the listwise verdict that was bought under `key`, or None."""
        verdict = self._bought.get(key)
        return verdict if isinstance(verdict, Scored) else None

    async def commit(self) -> None:
        """Do nothing: there is no disk to wait for."""


class ReadStore(MemoryStore):
    """Finds the verdicts that runs and comparisons hold, and writes to neither; what is added is kept in memory."""

    def __init__(self, readers: Sequence[FolderReader]) -> None:
        """Look into `readers`, in this order."""
        super().__init__()
        self._readers = readers

    def verdict(self, key: str) -> Judged | None:
        """Return the verdict that was bought under `key` in any of them, or None."""
        return next((verdict for reader in self._readers if (verdict := reader.verdict(key))), None)

    def pair_scores(self, key: str) -> PairJudgment | None:
        """Return what rankings take of the verdict on a pair that any of them holds under `key`, or None."""
        return next((scores for reader in self._readers if (scores := reader.pair_scores(key))), None)

    def scored(self, key: str) -> Scored | None:
        """Return the listwise verdict that was bought under `key` in any of them, or None."""
        return next((verdict for reader in self._readers if (verdict := reader.scored(key))), None)


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
        """Start a file beside the ones that are there; it is on disk before a judge is asked."""
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
    _checkpoints: Appender | None = None

    def __init__(self, folder: Path, at: datetime, **options: Any) -> None:
        """Lock `folder`, as InfoStore does."""
        super().__init__(folder, at, **options)
        self.checkpoint_key: str | None = None
        """What checkpoints are signed with; without it none is kept."""
        self._to_go_on = set[checkpoints.RolloutKey]()
        """The rollouts of which checkpoints were written, and no record that `resume` leaves as it is."""

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
        if not (rollout.failure and rollout.failure.kind in CUT_SHORT):
            self._to_go_on.discard((rollout.query, rollout.index))
        return kept

    @property
    def keeps_checkpoints(self) -> bool:
        """Whether there is a key to sign them with."""
        return self.checkpoint_key is not None

    def add_checkpoint(self, record: checkpoints.KeptReply | checkpoints.KeptOutput) -> bool:
        """Keep what a rollout under way has had, safe from a kill of the process; return whether just as it was."""
        kept, body = self.redact.record_and_json(record)
        if kept is not record or self.checkpoint_key is None:
            return False
        body = f'{body[:-1]},"signature":"{checkpoints.signature_of(body, self.checkpoint_key)}"}}'
        with disk_errors(self.folder):
            if self._checkpoints is None:
                self._checkpoints = begin_segment(self.folder / checkpoints.CHECKPOINTS, self._at, self._head)
            self._checkpoints.append(checkpoints.CHECKPOINT_KINDS[type(record)], body, sync=False)
        self._to_go_on.add((record.query, record.index))
        return True

    @property
    def is_empty(self) -> bool:
        """Whether nothing has been written that was paid for."""
        return super().is_empty and self._checkpoints is None

    def close(self) -> None:
        """Close the segments, take away the checkpoints that nobody needs, and give the lock back."""
        try:
            if self._checkpoints:
                self._checkpoints.close()
            if "rollouts" in self._appenders:
                self._drop_checkpoints()
        finally:
            super().close()

    def _drop_checkpoints(self) -> None:
        own = self._checkpoints.path if self._checkpoints else None
        if own and not self._to_go_on:  # as mostly: nothing has to be read for it
            remove_file(own)
        elif own:
            checkpoints.drop_checkpoints([own], self._to_go_on.__contains__)
        if older := [path for path in files_in(self.folder / checkpoints.CHECKPOINTS) if path != own]:
            with RunReader(self.folder) as reader:  # whose index knows the rollouts of this process, too
                rollouts = reader.index.rollouts

                def is_needed(key: checkpoints.RolloutKey) -> bool:
                    place = rollouts.get(key[0], {}).get(key[1])
                    return place is None or place.kind in CUT_SHORT

                checkpoints.drop_checkpoints(older, is_needed)

    def add_batch_record(self, record: BatchRecord) -> RecordPlace:
        """Keep a record of a batch of judge calls, and return its place; `settle` puts it on disk."""
        _, body = self.redact.record_and_json(record)
        return self._append(SEGMENT, KIND_OF[type(record)], body)

    def add_probed_judge(self, probed: ProbedJudge) -> None:
        """Keep what probes show of a judge; `commit` puts it on disk."""
        _, body = self.redact.record_and_json(probed)
        self._append("probes", "probed", body)

    def open_ranking(self, head: RankingHead) -> RankingWriter:
        """Start a ranking beside the ones that are there; it is on disk before a judge is asked."""
        self._results = ranking = RankingWriter(self.folder / "rankings" / f"{head.id}.jsonl", head, self.redact)
        return ranking


def _redacted(query: Query, redact: Redactor) -> Query:
    kept = redact.record(query)
    return kept if kept == query else kept.model_copy(update={"redacted": True})
