"""Rankings files, read: header, a line a group, a footer when complete."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Self, overload

from pydantic import Field, JsonValue, model_validator

from harness.archive.kept_rubric import check_rubric_text
from harness.archive.lines import read_at, read_lines
from harness.core.rankings import GroupRanking
from harness.core.records import Record


class RankingHead(Record):
    """The first line of a rankings file."""

    id: str
    created_at: datetime
    settings: dict[str, JsonValue]
    judge: dict[str, JsonValue]
    rubric: str
    free: bool = False
    """Made with --free: what it lacks was not to be bought, so `resume` does not buy it."""
    rendering: Annotated[int, Field(ge=1, le=999)] = 1
    """The way in which the judge's transcripts are written (harness.transcripts); headers of 0.1.0 do not say."""
    rubric_text: str | None = None
    """The rubric's own text, whole; None in records of 0.1.0, and where a key or a pattern of --redact stands in it."""

    @model_validator(mode="after")
    def _text_has_its_fingerprint(self) -> Self:
        check_rubric_text(self.rubric, self.rubric_text)
        return self


class GroupsOnDisk(Sequence[GroupRanking]):
    """The groups of a ranking, each read when it is asked for: a large run's do not fit into memory."""

    def __init__(self, path: Path, offsets: Sequence[int], queries: Sequence[str]) -> None:
        """Read from `path`, where the lines of the groups of `queries` begin at `offsets`."""
        self._path, self._offsets = path, offsets
        self.queries = queries

    def __len__(self) -> int:
        """How many groups were ranked."""
        return len(self._offsets)

    @overload
    def __getitem__(self, at: int) -> GroupRanking: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[GroupRanking, ...]: ...
    def __getitem__(self, at: int | slice) -> GroupRanking | tuple[GroupRanking, ...]:
        """Return one group, or several."""
        if isinstance(at, slice):
            return tuple(self._read(offset) for offset in self._offsets[at])
        return self._read(self._offsets[at])

    def __iter__(self) -> Iterator[GroupRanking]:
        """Yield the groups in the order ranked."""
        return (self._read(offset) for offset in self._offsets)

    def __eq__(self, other: object) -> bool:
        """Whether `other` is a sequence of the same groups."""
        return isinstance(other, Sequence) and tuple(self) == tuple(other)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]

    __hash__ = None  # pyright: ignore[reportAssignmentType] - as a list's

    def _read(self, offset: int) -> GroupRanking:
        return GroupRanking.model_validate(read_at(self._path, offset))


@dataclass(frozen=True)
class RankingFile:
    """One ranking of a run: its header, its groups in the order ranked, whether its footer is there."""

    head: RankingHead
    groups: Sequence[GroupRanking]
    finished: bool
    path: Path | None = None
    """Where it stands; None for one that was not read from a file."""

    def of(self, query: str) -> GroupRanking | None:
        """Return the ranking of one query's group, or None."""
        at = self._places.get(query)
        return None if at is None else self.groups[at]

    @cached_property
    def _places(self) -> dict[str, int]:
        groups = self.groups
        names = groups.queries if isinstance(groups, GroupsOnDisk) else [g.query for g in groups]
        return {name: at for at, name in enumerate(names)}


def read_ranking(path: Path) -> RankingFile | None:
    """Return the ranking in a file, or None for one that was torn before its header was whole."""
    head: RankingHead | None = None
    offsets: list[int] = []
    queries: list[str] = []
    finished = False
    for at in read_lines(path):
        kind: Any = at.members["kind"]
        if kind == "header":
            head = RankingHead.model_validate(at.members)
        elif kind == "group":
            offsets.append(at.offset)
            queries.append(at.members["query"])
        else:
            finished = True
    return RankingFile(head, GroupsOnDisk(path, offsets, queries), finished, path) if head else None


def read_head(path: Path) -> RankingHead | None:
    """Return a ranking's header alone."""
    first = next(read_lines(path), None)
    return RankingHead.model_validate(first.members) if first and first.members["kind"] == "header" else None
