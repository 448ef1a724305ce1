"""The extracts of a run's groups, as whoever ranks or sums up asks for them; of a small run none are kept."""

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from harness.core.extracts import GroupExtract


class Extracts:
    """The extracts of a run of which none are kept. `KeptExtracts` keeps them. Use it as a context manager."""

    def __enter__(self) -> Self:
        """Open what was kept."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Keep what was made."""

    def of(self, query: str) -> GroupExtract | None:
        """Return what was kept of a query's group, or None."""
        return self.several([query])[0]

    def several(self, queries: Sequence[str]) -> list[GroupExtract | None]:
        """Return for each query what was kept of its group, or None; many at once take two thirds of the time."""
        return [None] * len(queries)

    def add(self, extract: GroupExtract) -> None:
        """Keep an extract; of two of one query the later counts."""
