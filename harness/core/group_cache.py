"""Cached groups: what rankings and summaries take of a group, without its texts, packed to save memory.

A cached group is made of a group's records once, and saves reading and parsing its rollouts and verdicts again.
"""

import json
import marshal
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar, overload

from pydantic import JsonValue

from harness.core.cost import Cost, cost
from harness.core.rankings import GroupRanking, PairJudgment
from harness.core.records import Group, Role, Rollout

TITLE = 300
"""Characters of a query's text, and of what came with it, that a cached group keeps."""
OrderAsked = tuple[int, int, int]
"""The rollout shown first, the other one, and which of the repeats it is."""


class CachedRollout(NamedTuple):
    """A rollout without its texts."""

    number: int
    """Its index in the group."""
    role: Role
    status: str
    failure: str | None
    """What it failed of."""
    capture: str
    verified: float | None
    answer_words: int
    tokens: int | None
    usd: float | None
    started: float
    """Seconds since 1970."""
    seconds: float
    asked: tuple[str, ...]
    """The models asked."""
    replied: tuple[str, ...]
    """The models that replied, as they named themselves."""
    shown: str | None = None
    """Hash of the transcript that judges were shown; None for a rollout that no cached verdict is on."""
    cut: bool = False
    """Its answer was cut there to fit --judge-budget."""
    usd_at_least: float | None = None
    """The part of an unknown price that is known."""

    @property
    def cost(self) -> Cost:
        """What its model calls cost."""
        return cost(self.usd, self.usd_at_least)


class CachedVerdict(NamedTuple):
    """A verdict on a pair that came out, without its marks and words."""

    first: int
    """The rollout shown first."""
    second: int
    repeat: int
    key: str
    judge: str
    score_first: float
    score_second: float
    claimed: bool
    """The judge claimed an overall, a combined score or a winner that its own marks do not give."""
    claimed_winner: bool
    repaired: bool
    source: str | None
    """The run that it was bought in, where that is another one."""
    started: float
    """Seconds since 1970."""
    seconds: float

    @property
    def order(self) -> OrderAsked:
        """The rollouts in the order shown, and the repeat."""
        return self.first, self.second, self.repeat


@dataclass(frozen=True)
class CachedGroup:
    """What rankings and their summaries take of a group."""

    query: str
    title: str
    """The beginning of the query's text."""
    metadata: Mapping[str, float | str]
    """What came with the query: numbers, and the beginnings of all else as text."""
    basis: str
    """`Group.basis` of the rollouts."""
    rollouts: tuple[CachedRollout, ...]
    """In index order, those that failed too."""
    verdicts: Mapping[OrderAsked, tuple[CachedVerdict, ...]] = field(
        default_factory=dict[OrderAsked, tuple[CachedVerdict, ...]]
    )
    """By order and repeat, in the order of the jurors' seats; fewer than jurors where one of theirs failed."""

    def holds(self, ranking: GroupRanking) -> bool:
        """Tell whether the rollouts of a ranking of the group, and the verdicts that it rests on, are here."""
        keys, numbers = self.by_key().keys(), {rollout.number for rollout in self.rollouts}
        return all(keys >= {*m.verdicts} for m in ranking.matches) and numbers >= {r.index for r in ranking.rollouts}

    def by_key(self) -> dict[str, CachedVerdict]:
        """Return the verdicts by their keys."""
        return {verdict.key: verdict for of_order in self.verdicts.values() for verdict in of_order}


def cached_group(group: Group, ranking: GroupRanking, judged: Callable[[str], PairJudgment | None]) -> CachedGroup:
    """Return the cached form of a group, with the verdicts behind a ranking, which `judged` looks up by key."""
    by_order: dict[OrderAsked, dict[str, PairJudgment]] = {}
    for match in ranking.matches:
        for key, first in zip(match.verdicts, match.shown_first, strict=True):
            if verdict := judged(key):
                second = match.b if first == match.a else match.a
                by_order.setdefault((first, second, verdict.repeat), {})[key] = verdict
    shown: dict[int, tuple[str, bool]] = {}
    for (first, second, _), seats in by_order.items():
        verdict = next(iter(seats.values()))
        shown |= {first: (verdict.first, "A" in verdict.cut), second: (verdict.second, "B" in verdict.cut)}
    return CachedGroup(
        query=group.query.id,
        title=group.query.text[:TITLE],
        metadata=brief_metadata(group.query.metadata),
        basis=group.basis,
        rollouts=tuple(_rollout(rollout, *shown.get(rollout.index, (None, False))) for rollout in group.rollouts),
        verdicts={
            order: tuple(_verdict(verdict, *order) for verdict in seats.values()) for order, seats in by_order.items()
        },
    )


def brief_metadata(metadata: Mapping[str, JsonValue]) -> dict[str, float | str]:
    """Return what came with a query: numbers, and the beginnings of all else as text."""
    return {name: _brief(value) for name, value in metadata.items() if value is not None}


def _brief(value: JsonValue) -> float | str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    return (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))[:TITLE]


def _rollout(rollout: Rollout, shown: str | None, cut: bool) -> CachedRollout:
    return CachedRollout(
        number=rollout.index,
        role=rollout.role,
        status=rollout.status,
        failure=rollout.failure and rollout.failure.kind,
        capture=rollout.capture,
        verified=rollout.verified,
        answer_words=len(rollout.trajectory.answer.split()),
        tokens=rollout.usage.tokens,
        usd=rollout.price_usd,
        started=rollout.started_at.timestamp(),
        seconds=rollout.duration_s,
        asked=_names([rollout.requested.model, *(call.model for call in rollout.calls)]),
        replied=_names(call.replied_model for call in rollout.calls),
        shown=shown,
        cut=cut,
        usd_at_least=rollout.price_usd_at_least,
    )


def _names(names: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, names)))


def _verdict(verdict: PairJudgment, first: int, second: int, repeat: int) -> CachedVerdict:
    return CachedVerdict(
        first=first,
        second=second,
        repeat=repeat,
        key=verdict.key,
        judge=verdict.judge,
        score_first=verdict.a.combined,
        score_second=verdict.b.combined,
        claimed=bool(verdict.claims),
        claimed_winner="winner" in verdict.claims,
        repaired=verdict.repaired,
        source=verdict.source,
        started=verdict.started_at.timestamp(),
        seconds=verdict.duration_s,
    )


T = TypeVar("T")


class Packed(Sequence[T]):
    """Records of one kind, each unpacked when it is asked for. Their members are what JSON can hold, or tuples."""

    def __init__(self, values_of: Callable[[T], Any], make: Callable[[Any], T], records: Iterable[T] = ()) -> None:
        """Pack `records` as they come; `make` makes a record of what `values_of` gave of it."""
        self._values_of, self._make = values_of, make
        self._packed = [marshal.dumps(values_of(record)) for record in records]

    def append(self, record: T) -> None:
        """Add the next record."""
        self._packed.append(marshal.dumps(self._values_of(record)))

    def __len__(self) -> int:
        """How many records there are."""
        return len(self._packed)

    @overload
    def __getitem__(self, at: int) -> T: ...
    @overload
    def __getitem__(self, at: slice) -> list[T]: ...
    def __getitem__(self, at: int | slice) -> T | list[T]:
        """Return one record, or several."""
        if isinstance(at, slice):
            return list(map(self._unpacked, self._packed[at]))
        return self._unpacked(self._packed[at])

    def _unpacked(self, packed: bytes) -> T:
        return self._make(marshal.loads(packed))  # noqa: S302 - of this very process
