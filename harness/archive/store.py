"""What rolling out and judging need of an archive, and the stores in memory that give it."""

from collections.abc import Sequence
from typing import Protocol

from harness.archive.reader import FolderReader, blob_name
from harness.core.rankings import AnyVerdict, Judged, PairJudgment, Scored
from harness.core.records import Query, Rollout
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

    def settle(self) -> None:
        """Wait until every text put is safe, record or no record."""

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


class MemoryStore:
    """A store that lasts as long as the process: for use from Python without a run on disk."""

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

    def settle(self) -> None:
        """Do nothing: memory is as safe as it gets."""

    def add_query(self, query: Query) -> None:
        """Keep a query."""
        self.queries.append(self.redact.record(query))

    def add_rollout(self, rollout: Rollout) -> Rollout:
        """Keep a rollout, and return it as it is kept: redacted."""
        self.rollouts.append(self.redact.record(rollout))
        return self.rollouts[-1]

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
