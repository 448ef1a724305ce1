"""A store that finds the verdicts of runs and comparisons and writes to none of them."""

from collections.abc import Sequence

from harness.archive.folder_reader import FolderReader
from harness.archive.memory_store import MemoryStore
from harness.core.verdicts import Judged, PairJudgment, Scored


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
