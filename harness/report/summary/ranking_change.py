"""What a ranking changed against an earlier one of the same run."""

import heapq
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.archive.rankings import RankingFile
from harness.archive.reader import RunReader
from harness.ranking.rewards import average_ranks, tau_b
from harness.report.summary.ranking_line import made_by

_MOVES = 3
"""How many moves are named, the largest ones."""


@dataclass(frozen=True)
class PlaceMove:
    """A rollout whose place is another now. Slots count from 1; those who tie share the average."""

    query: str
    rollout: int
    before: float
    after: float

    @property
    def shift(self) -> float:
        """By how many places it moved, either way."""
        return abs(self.after - self.before)


@dataclass(frozen=True)
class RankingChange:
    """How two rankings differ, over the rollouts that have a place in both."""

    ranking: str
    """The id of the earlier one."""
    by: str
    """Its judge, its rubric and its estimator, with commas."""
    winners_changed: int
    """Queries of which other rollouts share the first place."""
    of: int
    """Queries that both ranked."""
    tau: float | None
    """Kendall's tau-b of the places in a query, mean over the queries in which neither ranking ties all."""
    shift: float
    """Slots by which a rollout moved, mean over all rollouts."""
    moves: tuple[PlaceMove, ...]
    """The largest ones."""

    def as_json(self) -> dict[str, Any]:
        """Return what `--json` has as `against`."""
        return {
            "ranking": self.ranking,
            "winners_changed": self.winners_changed,
            "of": self.of,
            "tau": self.tau,
            "shift": self.shift,
            "moves": [{"query": m.query, "rollout": m.rollout, "from": m.before, "to": m.after} for m in self.moves],
        }


def change_against_earlier(reader: RunReader, ranking: RankingFile) -> RankingChange | None:
    """Return what a ranking changed against the newest of the earlier ones that ranked any of its queries, or None."""
    ids = [head.id for head in reader.heads()]
    earlier = ids[: ids.index(ranking.head.id)] if ranking.head.id in ids else []
    changes = (ranking_change(reader.ranking(name), ranking) for name in reversed(earlier))
    return next((change for change in changes if change.of), None)


def ranking_change(before: RankingFile, after: RankingFile) -> RankingChange:
    """Return what `after` changed against `before`."""
    winners_changed = of = rollouts = 0
    shifts, taus, largest = 0.0, list[float](), list[PlaceMove]()
    for query in after.queries:
        old, new = before.ranks_of(query), after.ranks_of(query)
        if old == new:  # as mostly where the same verdicts are ranked again
            of += bool(new)
            rollouts += len(new)
            taus += [1.0] if len(set(new.values())) > 1 else []
            continue
        if not (moves := _moves(query, old, new)):
            continue
        of += 1
        winners_changed += _winners([m.before for m in moves]) != _winners([m.after for m in moves])
        rollouts += len(moves)
        shifts += sum(move.shift for move in moves)
        tau = tau_b([m.before for m in moves], [m.after for m in moves])
        taus += [] if tau is None else [tau]
        largest = heapq.nlargest(_MOVES, [*largest, *(m for m in moves if m.shift)], key=lambda move: move.shift)
    return RankingChange(
        ranking=before.head.id,
        by=made_by(before),
        winners_changed=winners_changed,
        of=of,
        tau=sum(taus) / len(taus) if taus else None,
        shift=shifts / rollouts if rollouts else 0.0,
        moves=tuple(largest),
    )


def _moves(query: str, old: Mapping[int, float], new: Mapping[int, float]) -> list[PlaceMove]:
    """Return where each rollout of a query stood and stands, among those that both rankings ranked."""
    both = [rollout for rollout in new if rollout in old]
    places = [average_ranks({rollout: -ranks[rollout] for rollout in both}) for ranks in (old, new)]
    return [PlaceMove(query, r, *(float(ranks[r] + 1) for ranks in places)) for r in both]


def _winners(places: list[float]) -> set[int]:
    return {at for at, place in enumerate(places) if place == min(places)}
