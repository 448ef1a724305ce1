"""A store in memory, for use from Python without a run on disk."""

from harness.archive.blobs import blob_name
from harness.core.records import Query, Rollout
from harness.core.redaction import DEFAULT_REDACTOR, Redactor
from harness.core.verdicts import AnyVerdict, Judged, PairJudgment, Scored


class MemoryStore:
    """A store that lasts as long as the process: for use from Python without a run on disk."""

    def __init__(self, redact: Redactor = DEFAULT_REDACTOR) -> None:
        """Start empty."""
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
