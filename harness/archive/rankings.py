"""Rankings files, read."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from harness.archive.lines import line_number
from harness.archive.result_files import ResultsOnDisk, ResultType, read_results
from harness.archive.typed_records import (
    FOOTER,
    RANKED_GROUP,
    RANKED_PLACES,
    RANKED_QUERY,
    RANKING_HEAD,
    RankedPlaces,
    RankingHead,
)
from harness.core.judge_profile import JudgeProfile
from harness.core.rankings import GroupRanking
from harness.core.records import Query

_Change = Callable[[GroupRanking], GroupRanking]
_RANKING = ResultType(RANKING_HEAD, RANKED_GROUP, RANKED_QUERY, FOOTER)


@dataclass(frozen=True)
class RankingFile:
    """One ranking of a run: its header, its groups in the order ranked, whether its footer is there."""

    head: RankingHead
    groups: Sequence[GroupRanking]
    finished: bool
    path: Path | None = None
    """Its file, whatever its header says of itself; None for one that was not read from a file."""
    incomplete: int = 0
    """How many of the groups are not ranked in full; 0 too for one that was not read from a file."""
    provisional: Collection[str] = ()
    """The queries whose groups were ranked before all were in, and not since (`GroupRanking.provisional`)."""

    profiles: Sequence[JudgeProfile] = ()
    """What its footer says that it has taught of its judges."""

    def of(self, query: Query | str) -> GroupRanking | None:
        """Return the ranking of the group of a query, or of the query with that id; or None."""
        at = self._places.get(query if isinstance(query, str) else query.id)
        return None if at is None else self.groups[at]

    def stored(self, query: str) -> GroupRanking:
        """Return the ranking of the group of a query that is one of `queries`. Raises KeyError for another."""
        return self.groups[self._places[query]]

    def line_of(self, query: str) -> int | None:
        """Return the number, from 1, of the line that holds the ranking of a query's group; None without a file."""
        groups = self.groups
        return line_number(*groups.places[self._places[query]]) if isinstance(groups, ResultsOnDisk) else None

    @cached_property
    def places(self) -> Sequence[GroupRanking | RankedPlaces]:
        """The places of the rollouts in `groups`; of groups on disk nothing else is read."""
        groups = self.groups
        return (groups.read_as(RANKED_PLACES) if isinstance(groups, ResultsOnDisk) else None) or groups

    def places_of(self, query: str) -> GroupRanking | RankedPlaces | None:
        """Return the places in the group of a query, or None."""
        at = self._places.get(query)
        return None if at is None else self.places[at]

    def passed_through(self, change: _Change) -> "RankingFile":
        """Return the same ranking with each group changed; one on disk is changed when it is read."""
        groups = self.groups
        changed = groups.passed_through(change) if isinstance(groups, ResultsOnDisk) else tuple(map(change, groups))
        return replace(self, groups=changed)

    @cached_property
    def queries(self) -> Sequence[str]:
        """The ids of the queries of its groups, in their order."""
        groups = self.groups
        return groups.queries if isinstance(groups, ResultsOnDisk) else [group.query for group in groups]

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: at for at, name in enumerate(self.queries)}


def read_ranking(path: Path) -> RankingFile | None:
    """Return the ranking in a file, or None for one without a header: torn before that was whole, or repaired."""
    file = read_results(path, _RANKING)
    if file is None:
        return None
    provisional = frozenset(mark.query for mark in file.marks if mark.provisional)
    profiles: Sequence[JudgeProfile] = file.footer.profiles if file.finished else ()
    return RankingFile(file.head, file.results, file.finished, path, file.incomplete, provisional, profiles)
