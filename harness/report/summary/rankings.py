"""The rankings of a run: a line for each, what rounds of batches paid, what one changed against an earlier one."""

import heapq
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from harness.archive.reader import RunReader
from harness.archive.result_files import RankingFile
from harness.archive.typed_records import RankingHead
from harness.core.cost import Cost
from harness.ranking.rewards import average_ranks, tau_b
from harness.report.summary.group import JudgeFigures, paid_figures


def rounds_json(reader: RunReader, ranking: RankingFile) -> dict[str, Any]:
    """Return as `all_rounds` what a ranking and the rounds of batches before it paid; nothing where none paid."""
    paid = _all_rounds(reader, ranking)
    return {"all_rounds": _rounds(paid)} if paid else {}


def _all_rounds(reader: RunReader, ranking: RankingFile) -> JudgeFigures | None:
    before = earlier_rounds(reader, ranking)
    return before + _paid(ranking) if before.calls else None


def _rounds(paid: JudgeFigures) -> dict[str, Any]:
    return {"calls": paid.calls, "judged": paid.bought, "tokens": paid.tokens, **paid.cost.named("usd")}


def earlier_rounds(reader: RunReader, ranking: RankingFile) -> JudgeFigures:
    """Return what rounds of batches before a ranking paid: rankings that stopped to wait, and that it went on with."""
    head, paid = ranking.head, JudgeFigures()
    heads = reader.heads() if head.settings.get("judge_batch") and not head.free else []
    ids = [other.id for other in heads]
    for other in reversed(heads[: ids.index(head.id)] if head.id in ids else []):
        if other.free:
            continue
        same = (other.judge, other.rubric) == (head.judge, head.rubric) and other.settings.get("judge_batch")
        earlier = reader.ranking(other.id) if same else None
        if earlier is None or earlier.finished:
            break
        paid += _paid(earlier)
    return paid


def _paid(ranking: RankingFile) -> JudgeFigures:
    """Return what was bought for a ranking. Its groups are read, one at a time."""
    return sum(map(paid_figures, ranking.groups), JudgeFigures())


@dataclass(frozen=True)
class RankingLine:
    """A ranking: when and how it was made, what it came to, and what it took."""

    ranking: str
    created_at: datetime
    judge: str
    rubric: str
    topology: str
    estimator: str
    finished: bool
    """Whether it came to its end; else it was cut short, or is under way."""
    complete: int
    """Queries that are ranked in full."""
    provisional: int
    """Queries whose places, or the probabilities beside these, may change once all groups are in."""
    queries: int
    """Queries of the run."""
    calls: int
    """Model calls paid for in it, repair turns included."""
    judged: int
    """Verdicts bought in it."""
    reused: int
    cost: Cost
    """Of the calls."""
    all_rounds: JudgeFigures | None = None
    """What it and the rounds of batches before it took together; None where no such round paid."""

    @property
    def begun(self) -> bool:
        """Whether anything is known of what it took: its file tells that of a query once the query is ranked."""
        return self.finished or any((self.complete, self.calls, self.judged, self.reused))

    def as_json(self) -> dict[str, Any]:
        """Return what `show --rankings --json` prints of it."""
        line = {name: value for name, value in vars(self).items() if name not in ("cost", "all_rounds")}
        line |= {"created_at": self.created_at.isoformat(), **self.cost.named("judge_usd")}
        return line | ({"all_rounds": _rounds(self.all_rounds)} if self.all_rounds else {})


def ranking_line(reader: RunReader, ranking: RankingFile) -> RankingLine:
    """Return the line of a ranking of a run. Its groups are read, one at a time."""
    head = ranking.head
    paid = _paid(ranking)
    return RankingLine(
        ranking=head.id,
        created_at=head.created_at,
        judge=judge_of(head),
        rubric=head.rubric,
        topology=design_of(ranking, "topology"),
        estimator=design_of(ranking, "estimator"),
        finished=ranking.finished,
        complete=len(ranking.groups) - ranking.incomplete,
        provisional=len(ranking.provisional),
        queries=len(reader.index.queries),
        calls=paid.calls,
        judged=paid.bought,
        reused=paid.reused,
        cost=paid.cost,
        all_rounds=_all_rounds(reader, ranking),
    )


def made_by(ranking: RankingFile) -> str:
    """Return a ranking's judge, its rubric and its estimator, with commas."""
    return f"{judge_of(ranking.head)}, {ranking.head.rubric}, {design_of(ranking, 'estimator')}"


def judge_of(head: RankingHead) -> str:
    """Return what a ranking's judge, or jury, is named in verdict keys; who judged, in words, of an imported one."""
    return str(head.judge.get("identity") or head.judge.get("model") or "")


def design_of(ranking: RankingFile, name: str) -> str:
    """Return what the first group names, as an anchor that failed changes it, else what the settings name."""
    first = next(iter(ranking.groups), None)
    return str(getattr(first, name) if first else ranking.head.settings.get(name) or "")


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
        moves = [{"query": m.query, "rollout": m.rollout, "from": m.before, "to": m.after} for m in self.moves]
        figures = {name: getattr(self, name) for name in ("ranking", "winners_changed", "of", "tau", "shift")}
        return figures | {"moves": moves}


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
        old, new = before.ranks_in(query), after.ranks_in(query)
        if old == new:  # as mostly where the same verdicts are ranked again
            of += bool(new)
            rollouts += len(new)
            taus += [1.0] if len(set(new.values())) > 1 else []
            continue
        both = [rollout for rollout in new if rollout in old]
        before_and_after = [average_ranks({rollout: -ranks[rollout] for rollout in both}) for ranks in (old, new)]
        moves = [PlaceMove(query, r, *(float(ranks[r] + 1) for ranks in before_and_after)) for r in both]
        if not moves:
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


def _winners(places: list[float]) -> set[int]:
    return {at for at, place in enumerate(places) if place == min(places)}
