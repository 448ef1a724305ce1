"""Rankings files, read."""

from array import array
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path

from harness.archive.lines import line_number
from harness.archive.record_faults import MOST
from harness.archive.result_files import ResultsOnDisk, ResultType, read_results
from harness.archive.typed_records import FOOTER, RANKED_GROUP, RANKED_QUERY, RANKING_HEAD, RankedQuery, RankingHead
from harness.core.judge_profile import JudgeProfile
from harness.core.rankings import GroupRanking
from harness.core.records import Query

_Change = Callable[[GroupRanking], GroupRanking]
_OPEN, _PROVISIONAL, _IN_BYTES = 1, 2, 4
"""Flags of a group. In bytes: an index and twice a rank have a byte each, as in nearly all groups."""


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
    ranks: Sequence[bytes] = field(default=(), repr=False, compare=False)
    """The ranks in the groups of a file, in their order: packed, as there are many."""
    rows: Mapping[str, int] | None = field(default=None, repr=False, compare=False)
    """Of each query of a file where its group stands among these."""

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
        return line_number(*groups.place(self._places[query])) if isinstance(groups, ResultsOnDisk) else None

    def ranks_in(self, query: str) -> dict[int, float]:
        """Return the ranks of the rollouts of a query that have one; of groups on disk nothing is read for it."""
        if not isinstance(self.groups, ResultsOnDisk):
            group = self.of(query)
            return {r.index: r.rank for r in group.rollouts if r.rank is not None} if group else {}
        if (at := self._places.get(query)) is None:
            return {}
        flags, packed = self.ranks[at][0], self.ranks[at][1:]
        if flags & _IN_BYTES:
            return {index: half / 2 for index, half in zip(packed[::2], packed[1::2], strict=True)}
        numbers = array("d", packed)
        return {int(index): rank for index, rank in zip(numbers[::2], numbers[1::2], strict=True)}

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
    def _places(self) -> Mapping[str, int]:
        if self.rows is not None and isinstance(self.groups, ResultsOnDisk):
            return self.rows
        return {name: at for at, name in enumerate(self.queries)}


def read_ranking(path: Path) -> RankingFile | None:
    """Return the ranking in a file, or None for one without a header: torn before that was whole, or repaired."""
    file = read_results(path, _RANKING)
    if file is None:
        return None
    incomplete = sum(brief[0] & _OPEN for brief in file.briefs)
    provisional = frozenset(query for query, at in file.rows.items() if file.briefs[at][0] & _PROVISIONAL)
    profiles: Sequence[JudgeProfile] = file.footer.profiles if file.finished else ()
    of_file = file.head, file.results, file.finished, path
    return RankingFile(*of_file, incomplete, provisional, profiles, file.briefs, file.rows)


def _brief(mark: RankedQuery) -> bytes:
    """Pack a byte of flags, and the index and the rank of each rollout that has one."""
    flags = _OPEN * mark.is_open | _PROVISIONAL * mark.provisional
    ranks = [(index, rank) for index, rank in mark.ranks if abs(index) <= MOST]
    halves = [number for index, rank in ranks for number in (index, 2 * rank)]
    if all(0 <= number < 256 and number == int(number) for number in halves):
        return bytes([flags | _IN_BYTES, *map(int, halves)])
    return bytes([flags]) + array("d", chain.from_iterable(ranks)).tobytes()


_RANKING = ResultType(RANKING_HEAD, RANKED_GROUP, RANKED_QUERY, _brief, FOOTER)
