"""Rankings files, read: header, a line a group, a footer when complete."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import overload

from harness.archive.lines import RecordPlace, read_at, read_lines
from harness.archive.typed_records import FOOTER, RANKED_GROUP, RANKED_QUERY, RANKING_HEAD, RankingHead, read_record
from harness.core.rankings import GroupRanking
from harness.core.records import Query

_Change = Callable[[GroupRanking], GroupRanking]


class GroupsOnDisk(Sequence[GroupRanking]):
    """The groups of a ranking, each read when it is asked for: a large run's do not fit into memory."""

    def __init__(self, places: Sequence[RecordPlace], queries: Sequence[str], through: _Change | None = None) -> None:
        """Read from `places`, where the lines of the groups of `queries` begin; each is changed by `through`."""
        self.places, self.queries, self._through = places, queries, through

    def passed_through(self, change: _Change) -> "GroupsOnDisk":
        """Return the same groups, each changed when it is read."""
        return GroupsOnDisk(self.places, self.queries, change)

    def __len__(self) -> int:
        """How many groups were ranked."""
        return len(self.places)

    @overload
    def __getitem__(self, at: int) -> GroupRanking: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[GroupRanking, ...]: ...
    def __getitem__(self, at: int | slice) -> GroupRanking | tuple[GroupRanking, ...]:
        """Return one group, or several."""
        if isinstance(at, slice):
            return tuple(self._group(place) for place in self.places[at])
        return self._group(self.places[at])

    def __iter__(self) -> Iterator[GroupRanking]:
        """Yield the groups in the order ranked."""
        return (self._group(place) for place in self.places)

    def __eq__(self, other: object) -> bool:
        """Whether `other` is a sequence of the same groups."""
        return isinstance(other, Sequence) and tuple(self) == tuple(other)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]

    __hash__ = None  # pyright: ignore[reportAssignmentType] - as a list's

    def _group(self, place: RecordPlace) -> GroupRanking:
        group = read_record(read_at(place), RANKED_GROUP)
        return self._through(group) if self._through else group


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

    def of(self, query: Query | str) -> GroupRanking | None:
        """Return the ranking of the group of a query, or of the query with that id; or None."""
        at = self._places.get(query if isinstance(query, str) else query.id)
        return None if at is None else self.groups[at]

    def passed_through(self, change: _Change) -> "RankingFile":
        """Return the same ranking with each group changed; one on disk is changed when it is read."""
        groups = self.groups
        changed = groups.passed_through(change) if isinstance(groups, GroupsOnDisk) else tuple(map(change, groups))
        return replace(self, groups=changed)

    @cached_property
    def _places(self) -> dict[str, int]:
        groups = self.groups
        names = groups.queries if isinstance(groups, GroupsOnDisk) else [g.query for g in groups]
        return {name: at for at, name in enumerate(names)}


def read_ranking(path: Path) -> RankingFile | None:
    """Return the ranking in a file, or None for one without a header: torn before that was whole, or repaired."""
    head: RankingHead | None = None
    places: list[RecordPlace] = []
    queries: list[str] = []
    finished, incomplete = False, 0
    for located in read_lines(path):
        kind = located.members["kind"]
        if kind == "header":
            head = read_record(located, RANKING_HEAD)
        elif kind == "group":
            places.append(located.place)
            ranked = read_record(located, RANKED_QUERY)
            queries.append(ranked.query)
            incomplete += ranked.status == "incomplete"
        else:
            read_record(located, FOOTER)
            finished = True
    return RankingFile(head, GroupsOnDisk(places, queries), finished, path, incomplete) if head else None


def read_head(path: Path) -> RankingHead | None:
    """Return a ranking's header alone."""
    first = next(read_lines(path), None)
    return read_record(first, RANKING_HEAD) if first and first.members["kind"] == "header" else None
