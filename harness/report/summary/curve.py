"""Accuracy against judge calls of one judged round robin: what is read for the curve, and what it says."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from harness.archive.rankings import RankingFile
from harness.archive.reader import RunReader
from harness.core.errors import NothingRankable, UsageError
from harness.core.rankings import GroupRanking
from harness.core.records import Group
from harness.core.wording import call, option
from harness.ranking.curve import (
    VerdictCurve,
    VerdictTable,
    designs,
    holds_every_pair,
    plays_for,
    verdict_curve,
    verdict_scores,
)
from harness.ranking.judge_stats.agreement import Preference, preferences
from harness.report.summary.match_verdicts import verdict_keys
from harness.report.summary.ranking import is_offline, ranked_groups
from harness.report.summary.ranking_line import design_of, judge_of, made_by
from harness.report.summary.truths import AnswerLabel, Truths

CurveTruth = Literal["ranking", "labels", "reward", "order", "itself"]
"""What ranks are measured by: another ranking, labels, `reward()`, the verdicts of the other order, or nothing else."""
_EVERY: tuple[CurveTruth, ...] = get_args(CurveTruth)
_USUAL: tuple[CurveTruth, ...] = ("labels", "reward", "order", "itself")
"""The truth that is taken where the user names none: the first that there is."""


@dataclass(frozen=True)
class JudgingCurve:
    """The curve of a round robin, by which truth it was measured, and on which queries."""

    ranking: str
    by: str
    """The judge, the rubric and the estimator, with commas."""
    truth: CurveTruth
    against: str | None
    """The other ranking, if that is the truth: its id, judge, rubric and estimator."""
    shared: bool
    """Whether that ranking rests on some of the same verdicts."""
    both_orders: bool
    """Whether each pair was judged in both orders."""
    offline: bool
    curve: VerdictCurve
    queries: int
    left_out: int
    """Queries of which a pair has no verdict."""
    silent: int
    """Queries of which the truth says nothing."""
    seed: int


@dataclass(frozen=True)
class _Judged:
    """A group of the round robin, with everything that could tell how it should be ranked."""

    table: VerdictTable
    truths: dict[CurveTruth, list[Preference]]
    shared: bool


def round_robin_of(reader: RunReader, ranking_id: str | None) -> RankingFile:
    """Return the ranking named, or the newest round robin. Raises UsageError, naming the command that makes one."""
    rankings = [reader.ranking(ranking_id)] if ranking_id else reader.rankings()[::-1]
    for ranking in rankings:
        if len(ranking.groups) and design_of(ranking, "topology") == "round_robin":
            return ranking
    judge = {} if reader.info.judge else {"judge_model": "MODEL"}
    which = f"ranking {ranking_id} is no" if ranking_id else f"run {reader.info.id} has no"
    how = call("rescore", reader.typed_name, topology="round_robin", **judge)
    raise UsageError(f"{which} round robin, and a curve needs a verdict on every pair: make one with {how}")


def judging_curve(
    reader: RunReader,
    ranking: RankingFile,
    *,
    truth: CurveTruth | None = None,
    against: RankingFile | None = None,
    labels: Sequence[AnswerLabel] = (),
    seed: int = 0,
) -> JudgingCurve:
    """Play every topology with every estimator on the verdicts of a round robin.

    Raises UsageError for a truth that there is not; NothingRankable without a query that takes part.
    """
    _check(ranking, truth, against)
    both_orders = ranking.head.settings.get("order") == "both"
    groups = list(_judged_groups(reader, ranking, against, Truths(labels), both_orders=both_orders))
    if not groups:
        raise NothingRankable(_no_group(reader, ranking))
    by = _truth_of(groups, truth, against, both_orders=both_orders)
    tables = [_with_truth(group, by) for group in groups]
    held = by == "order"
    anchored = any(table.anchor is not None for table in tables)
    sizes = {len(table.entrants) for table in tables}
    ways = list(designs(sizes, both_orders=both_orders, held_out=held, anchored=anchored))
    curve = verdict_curve(tables, ways, held=held, seed=seed, plays=plays_for(tables))
    if curve is None:
        raise NothingRankable(f"{_TRUTHS[by]} prefer no rollout to another on any query of the round robin")
    queries = curve.reference.tau.queries
    return JudgingCurve(
        ranking=ranking.head.id,
        by=made_by(ranking),
        truth=by,
        against=f"{against.head.id} ({made_by(against)})" if against and by == "ranking" else None,
        shared=by == "ranking" and any(group.shared for group in groups),
        both_orders=both_orders,
        offline=is_offline(reader, ranking),
        curve=curve,
        queries=queries,
        left_out=len(ranking.groups) - len(groups),
        silent=len(groups) - queries,
        seed=seed,
    )


def _check(ranking: RankingFile, truth: CurveTruth | None, against: RankingFile | None) -> None:
    """Raise UsageError for a truth and another ranking that do not go together."""
    if against is None and truth == "ranking":
        raise UsageError(f"{option('truth', truth)} needs {option('against')}: the ranking that is the truth")
    if against and truth not in (None, "ranking"):
        raise UsageError(f"{option('against', against.head.id)} does not go with {option('truth', truth)}")
    if against and against.head.id == ranking.head.id:
        raise UsageError(f"{option('against', against.head.id)} is the round robin itself: name another ranking")


_TRUTHS: dict[CurveTruth, str] = {
    "ranking": "the places of the other ranking",
    "labels": "the labels",
    "reward": "the rewards of reward()",
    "order": "the verdicts of the other order",
    "itself": "the round robin's own scores",
}


def _judged_groups(
    reader: RunReader, ranking: RankingFile, against: RankingFile | None, truths: Truths, *, both_orders: bool
) -> Iterator[_Judged]:
    """Yield the groups of which every pair was judged."""
    for group, ranked in ranked_groups(reader, ranking):
        scores, calls = verdict_scores(ranked.matches)
        entrants = tuple(sorted(r.index for r in ranked.rollouts if r.margin is not None))  # not those that failed
        if len(entrants) < 2 or not holds_every_pair(scores, entrants, both_orders=both_orders):
            continue
        other = against.of(group.query) if against else None
        anchor = next((r.index for r in group.rollouts if r.role == "anchor" and r.index in entrants), None)
        yield _Judged(
            VerdictTable(entrants, anchor, scores, calls),
            _all_truths(group, ranked, other, truths, entrants),
            shared=bool(other and set(verdict_keys(ranked.matches)) & set(verdict_keys(other.matches))),
        )


def _all_truths(
    group: Group, ranked: GroupRanking, other: GroupRanking | None, truths: Truths, entrants: Sequence[int]
) -> dict[CurveTruth, list[Preference]]:
    """Return what each truth but the held-out verdicts prefers among the entrants."""
    preferred = truths(group)
    places = {r.index: -r.rank for r in other.rollouts if r.rank is not None} if other else {}
    margins = {r.index: r.margin for r in ranked.rollouts if r.margin is not None}
    every: dict[CurveTruth, list[Preference]] = {
        "ranking": preferences(places),
        "labels": list(preferred["labels"]),
        "reward": list(preferred["reward"]),
        "itself": preferences(margins),
    }
    return {name: [pair for pair in pairs if {*pair} <= {*entrants}] for name, pairs in every.items()}


def _truth_of(
    groups: Sequence[_Judged], truth: CurveTruth | None, against: RankingFile | None, *, both_orders: bool
) -> CurveTruth:
    """Return which truth to take. Raises UsageError for one that there is not."""
    there = {name for name in _EVERY if any(group.truths.get(name) for group in groups)} | {"itself"}
    there |= {"order"} if both_orders else set()
    if truth is None and not against:
        return next(name for name in _USUAL if name in there)
    chosen = truth or "ranking"
    if chosen not in there:
        raise UsageError(_not_there(chosen))
    return chosen


def _not_there(truth: CurveTruth) -> str:
    return {
        "ranking": "the ranking of --against places no two rollouts of the round robin differently",
        "labels": "no label (labels.jsonl of the run, or --labels FILE) is about two answers of the round robin",
        "reward": "no reward() of the run tells two rollouts apart",
    }.get(truth, "the round robin judged each pair in one order: there is no verdict of the other order")


def _with_truth(group: _Judged, truth: CurveTruth) -> VerdictTable:
    table = group.table
    return VerdictTable(table.entrants, table.anchor, table.scores, table.calls, tuple(group.truths.get(truth, ())))


def _no_group(reader: RunReader, ranking: RankingFile) -> str:
    how = call("rescore", reader.typed_name, topology="round_robin")
    return (
        f"no query of the round robin {ranking.head.id} has a verdict on every pair of two rollouts or more; "
        f"{how} asks for the missing ones of judge {judge_of(ranking.head)}"
    )
