"""The rankings of one run side by side: what each judge made of the same rollouts, and what it took."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from harness.archive.rankings import RankingFile
from harness.archive.reader import RunReader
from harness.core.rankings import GroupRanking
from harness.core.records import Group
from harness.core.sums import sum_if_known
from harness.ranking.judge_stats.agreement import Preference
from harness.ranking.judge_stats.side_by_side import (
    Choice,
    JudgedQueries,
    JudgedQuery,
    JudgingFigures,
    RankAgreement,
    Truth,
    choose,
    judging_figures,
    rank_agreements,
    rights,
)
from harness.ranking.judge_stats.tally import Tally
from harness.report.summary.figures import tallies
from harness.report.summary.match_verdicts import verdict_keys
from harness.report.summary.ranking import group_of, is_offline
from harness.report.summary.ranking_line import design_of, judge_of
from harness.report.summary.truths import AnswerLabel, Truths


@dataclass(frozen=True)
class RankedBy:
    """A ranking of the run: who judged, by what, in which design; and the figures of that."""

    ranking: str
    judge: str
    rubric: str
    topology: str
    estimator: str
    order: str
    finished: bool
    offline: bool
    by_reward: bool
    """`reward()` itself ranked, and the judge only those that it left level: agreement with it says nothing."""
    queries: JudgedQueries = field(repr=False)

    @cached_property
    def figures(self) -> JudgingFigures:
        """The figures of it."""
        return judging_figures(self.queries)

    @property
    def name(self) -> str:
        """Judge, rubric and design, with commas."""
        order = f" {self.order}" if self.order else ""
        return ", ".join(filter(None, [self.judge, self.rubric, f"{self.topology}{order}", self.estimator]))


@dataclass(frozen=True)
class JudgesSideBySide:
    """The rankings of a run, what the labels and `reward()` could say, and which ranking's judge to take."""

    rankings: Sequence[RankedBy]
    agreements: Sequence[RankAgreement]
    choice: Choice | None
    """None where nothing tells which judge is right."""
    older: int
    """Rankings left out: a newer one was made in the same way."""
    labels: int
    """Labels that there are, ties included."""
    used_labels: int
    """Labels about two answers of the run."""


def judges_side_by_side(
    reader: RunReader, rankings: Iterable[RankingFile], labels: Sequence[AnswerLabel] = ()
) -> JudgesSideBySide:
    """Put rankings, oldest first, side by side; of those made in the same way the newest finished one.

    The rollouts of a query are read once. Raises ArchiveDamaged.
    """
    every = [ranking for ranking in rankings if len(ranking.groups)]
    newest = _newest_of_each(every)
    truths_of = Truths(labels)
    queries: list[dict[str, JudgedQuery]] = [{} for _ in newest]
    for query in reader.queries():
        ranked = {
            at: in_ranking
            for at, ranking in enumerate(newest)
            if (in_ranking := ranking.of(query)) and _has_ranks(in_ranking)
        }
        if ranked:
            group = group_of(reader, query, *ranked.values())
            truths = truths_of(group)
            for at, of_query in ranked.items():
                queries[at][query.id] = _judged_query(reader, group, of_query, truths)
    judged = [_ranked_by(reader, ranking, of) for ranking, of in zip(newest, queries, strict=True) if of]
    return JudgesSideBySide(
        rankings=judged,
        agreements=rank_agreements([ranking.queries for ranking in judged]),
        choice=_choice(judged),
        older=len(every) - len(newest),
        labels=len(labels),
        used_labels=len(truths_of.used),
    )


def _newest_of_each(rankings: Sequence[RankingFile]) -> list[RankingFile]:
    """Return the newest ranking of each way of judging, a finished one if there is any, in the order of time."""
    by_way: dict[tuple[str, ...], RankingFile] = {}
    for ranking in rankings:
        way = _way(ranking)
        if ranking.finished or way not in by_way or not by_way[way].finished:
            by_way[way] = ranking
    return sorted(by_way.values(), key=lambda ranking: ranking.head.created_at)


def _way(ranking: RankingFile) -> tuple[str, ...]:
    """Return what tells two ways of judging apart."""
    settings = ranking.head.settings
    names = ("order", "budget", "judge_repeats", "jury", "judge_when", "show_instructions", "judge_budget", "sure")
    design = [design_of(ranking, name) for name in ("topology", "estimator")]
    return (judge_of(ranking.head), ranking.head.rubric, *design, *(str(settings.get(name)) for name in names))


def _has_ranks(ranking: GroupRanking) -> bool:
    return any(rollout.rank is not None for rollout in ranking.rollouts)


def _ranked_by(reader: RunReader, ranking: RankingFile, queries: JudgedQueries) -> RankedBy:
    head = ranking.head
    return RankedBy(
        ranking=head.id,
        judge=judge_of(head),
        rubric=head.rubric,
        topology=design_of(ranking, "topology"),
        estimator=design_of(ranking, "estimator"),
        order=str(head.settings.get("order") or ""),
        finished=ranking.finished,
        offline=is_offline(reader, ranking),
        by_reward=head.settings.get("judge_when") == "tied",
        queries=queries,
    )


def _judged_query(
    reader: RunReader, group: Group, ranking: GroupRanking, truths: Mapping[Truth, Sequence[Preference]]
) -> JudgedQuery:
    ranks = {r.index: r.rank for r in ranking.rollouts if r.rank is not None}
    keys = [*verdict_keys(ranking.matches), *dict.fromkeys(ranking.verdicts)]
    bought = [reader.verdict(key) or reader.scored(key) for key in keys]
    return JudgedQuery(
        ranks=ranks,
        tally=sum(tallies(group, ranking, reader.verdict).values(), Tally()),
        calls=len(keys),
        usd=sum_if_known(verdict and verdict.price_usd for verdict in bought),
        right=rights(truths, ranks),
    )


def _choice(rankings: Sequence[RankedBy]) -> Choice | None:
    """Return which ranking's judge to take: by labels, else by `reward()`, if two of the finished rankings have it."""
    finished = {at: ranking for at, ranking in enumerate(rankings) if ranking.finished} or dict(enumerate(rankings))
    by_labels = {at: r.queries for at, r in finished.items() if "labels" in r.figures.right}
    by_reward = {at: r.queries for at, r in finished.items() if "reward" in r.figures.right and not r.by_reward}
    chosen = choose(by_labels, "labels") if len(by_labels) > 1 else None
    return chosen or (choose(by_reward, "reward") if len(by_reward) > 1 else None)
