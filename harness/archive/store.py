"""What rolling out and judging need of an archive, whether it is on disk or in memory."""

from typing import Protocol

from harness.core.records import Query, Rollout
from harness.core.redaction import Redactor
from harness.core.verdicts import AnyVerdict, Judged, PairJudgment, Scored


class VerdictStore(Protocol):
    """What judging needs of an archive. A record counts once a `commit` after it has returned."""

    @property
    def redact(self) -> Redactor:
        """What is applied to all that is kept; whoever goes on with a record takes it as it was kept."""
        ...

    def put_blob(self, text: str, *, as_is: bool = False) -> str:
        """Keep a large text and return its sha256. It is safe no later than the next record, which may name it.

        A text is kept `as_is` if it has been redacted, or is packed numbers: in them a pattern could only fit by
        chance, and would break them.
        """
        ...

    def settle(self) -> None:
        """Wait until every text put is safe, record or no record."""
        ...

    def add_verdict(self, verdict: AnyVerdict) -> None:
        """Keep a verdict."""
        ...

    def verdict(self, key: str) -> Judged | None:
        """Return the verdict that was bought under `key`, or None."""
        ...

    def pair_scores(self, key: str) -> PairJudgment | None:
        """Return what rankings take of the verdict on a pair that was bought under `key`, or None."""
        ...

    def scored(self, key: str) -> Scored | None:
        """Return the listwise verdict that was bought under `key`, or None."""
        ...

    async def commit(self) -> None:
        """Wait until all that was added before is safe: only then it counts."""
        ...


class Store(VerdictStore, Protocol):
    """What rolling out and judging need of an archive."""

    def add_query(self, query: Query) -> None:
        """Keep a query."""
        ...

    def add_rollout(self, rollout: Rollout) -> Rollout:
        """Keep a rollout, and return it as it is kept: redacted."""
        ...
