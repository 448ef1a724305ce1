"""Accuracy against judge calls of one judged round robin: the curve, and what it says in words."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from harness.archive.reader import RunReader
from harness.archive.result_files import RankingFile
from harness.core.errors import NothingRankable, UsageError, call, counted, option
from harness.ranking import curve as curves
from harness.ranking.judge_stats.agreement import Preference, preferences
from harness.report.summary.labels import AnswerLabel, Truths
from harness.report.summary.match_verdicts import verdict_keys
from harness.report.summary.ranking import is_offline, ranked_groups
from harness.report.summary.rankings import design_of, judge_of, made_by
from harness.report.text import SELF_TEST, percent_interval

CurveTruth = Literal["ranking", "labels", "reward", "order", "itself"]
"""What ranks are measured by: another ranking, labels, `reward()`, the verdicts of the other order, or nothing else."""

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
    curve: curves.VerdictCurve
    queries: int
    left_out: int
    """Queries of which a pair has no verdict."""
    silent: int
    """Queries of which the truth says nothing."""
    seed: int

    @property
    def sentence(self) -> str:
        """Which share of the full round robin's agreement how many calls keep."""
        reference, chosen, tau = self.curve.reference, self.curve.chosen, self.curve.reference.tau
        full, one = counted_calls(reference), calls_words(reference) == "1"
        if chosen is None:
            agree = "agrees" if one else "agree"
            return f"{full} {agree} with the truth no better than chance, so the curve recommends nothing"
        queries = "one query does" if self.queries == 1 else f"{self.queries:,} queries do"
        caution = f" (a rough guide: {queries} not show that even these agree with the truth better than chance)"
        if tau.low is not None and tau.low > 0:
            caution = ""
        if chosen.calls >= reference.calls - 1e-9 or chosen.keeps is None:
            give = "gives" if one else "give"
            return f"no design is shown to keep {100 * curves.KEEP:.0f} % of what {full} {give} with fewer{caution}"
        keep = "keeps" if calls_words(chosen) == "1" else "keep"
        return (
            f"{counted_calls(chosen)} {keep} {percent_interval(chosen.keeps)} of what {calls_words(reference)} give: "
            f"{design_words(chosen.design)} by {chosen.estimator}, against {design_words(reference.design)} by "
            f"{reference.estimator}{caution}"
        )

    @property
    def truth_words(self) -> str:
        """What the ranks are measured by."""
        return {
            "ranking": f"truth: ranking {self.against}",
            "labels": "truth: the labels",
            "reward": "truth: reward()",
            "order": "truth: the verdict of the other order, of each pair one that the design did not ask for",
            "itself": "SELF-AGREEMENT, no truth: the round robin's own scores, of the same verdicts, which flatters "
            "all",
        }[self.truth]

    def notes(self) -> Iterator[str]:
        """Yield what has to be known of the curve."""
        if self.offline:
            yield SELF_TEST
        if self.shared:
            yield "the ranking of --against rests on some of the same verdicts: part of this is self-agreement"
        if not self.both_orders:
            yield "each pair was judged in one order: every design takes the verdict that is there"
        if self.left_out:
            yield f"left out: {counted(self.left_out, 'query', 'queries')} of which a pair has no verdict"
        if self.silent:
            yield f"left out: {counted(self.silent, 'query', 'queries')} of which the truth says nothing"
        if self.truth in {"order", "ranking"}:
            yield "the truth is noisy itself: compare designs by what they keep, not by tau"


@dataclass(frozen=True)
class _Judged:
    """A group of the round robin, with everything that could tell how it should be ranked."""

    table: curves.VerdictTable
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
    """Play every topology with every estimator on a round robin's verdicts. Raises UsageError and NothingRankable."""
    if against is None and truth == "ranking":
        raise UsageError(f"{option('truth', truth)} needs {option('against')}: the ranking that is the truth")
    if against and truth not in (None, "ranking"):
        raise UsageError(f"{option('against', against.head.id)} does not go with {option('truth', truth)}")
    if against and against.head.id == ranking.head.id:
        raise UsageError(f"{option('against', against.head.id)} is the round robin itself: name another ranking")
    both_orders = ranking.head.settings.get("order") == "both"
    groups = list(_judged_groups(reader, ranking, against, Truths(labels), both_orders=both_orders))
    if not groups:
        how = call("rescore", reader.typed_name, topology="round_robin")
        raise NothingRankable(
            f"no query of the round robin {ranking.head.id} has a verdict on every pair of two rollouts or more; "
            f"{how} asks for the missing ones of judge {judge_of(ranking.head)}"
        )
    there = {name for group in groups for name, pairs in group.truths.items() if pairs} | {"itself"}
    there |= {"order"} if both_orders else set[CurveTruth]()
    by: CurveTruth = truth or ("ranking" if against else next(name for name in _USUAL if name in there))
    if by not in there:
        raise UsageError(_NOT_THERE[by])
    tables = [replace(group.table, truth=tuple(group.truths.get(by, ()))) for group in groups]
    anchored = any(table.anchor is not None for table in tables)
    sizes = {len(table.entrants) for table in tables}
    ways = list(curves.designs(sizes, both_orders=both_orders, held_out=by == "order", anchored=anchored))
    curve = curves.verdict_curve(tables, ways, held=by == "order", seed=seed, plays=curves.plays_for(tables))
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


_NOT_THERE: dict[CurveTruth, str] = {
    "ranking": "the ranking of --against places no two rollouts of the round robin differently",
    "labels": "no label (labels.jsonl of the run, or --labels FILE) is about two answers of the round robin",
    "reward": "no reward() of the run tells two rollouts apart",
    "order": "the round robin judged each pair in one order: there is no verdict of the other order",
}
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
        scores, calls = curves.verdict_scores(ranked.matches)
        entrants = tuple(sorted(r.index for r in ranked.rollouts if r.margin is not None))  # not those that failed
        if len(entrants) < 2 or not curves.holds_every_pair(scores, entrants, both_orders=both_orders):
            continue
        other = against.of(group.query) if against else None
        places = {r.index: -r.rank for r in other.rollouts if r.rank is not None} if other else {}
        margins = {r.index: r.margin for r in ranked.rollouts if r.margin is not None}
        every: dict[CurveTruth, Sequence[Preference]] = {
            "ranking": preferences(places),
            "itself": preferences(margins),
            **truths(group),
        }
        anchor = next((r.index for r in group.rollouts if r.role == "anchor" and r.index in entrants), None)
        yield _Judged(
            curves.VerdictTable(entrants, anchor, scores, calls),
            {name: [pair for pair in pairs if {*pair} <= {*entrants}] for name, pairs in every.items()},
            shared=bool(other and set(verdict_keys(ranked.matches)) & set(verdict_keys(other.matches))),
        )


MEASURE = "Kendall's tau over the pairs that the truth tells apart (Somers' d): 1 all right, 0 as by chance"


def design_words(design: curves.CurveDesign) -> str:
    """Return a design in words: `arena both`."""
    return f"{design.topology} {order_words(design)}"


def order_words(design: curves.CurveDesign) -> str:
    """Return the orders in which a design judges, or for one with a budget the calls as a share of the pairs."""
    if design.share is not None:
        return f"{100 * float(design.share):.0f} % of pairs"
    return str(design.order)


def calls_words(point: curves.CurvePoint) -> str:
    """Return the calls of a point: a mean over queries of different sizes has a decimal."""
    return f"{point.calls:,.1f}".removesuffix(".0")


def counted_calls(point: curves.CurvePoint) -> str:
    """Return the calls of a point with their noun: `1 call`, `12.5 calls`."""
    calls = calls_words(point)
    return f"{calls} {'call' if calls == '1' else 'calls'}"
