"""The rankings of one run side by side: what each judge made of the same rollouts, and which one to take.

People who labelled the same pairs stand beside them: how far they agree among themselves, and where they do not.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from harness.archive.reader import RunReader
from harness.archive.result_files import RankingFile
from harness.core.cost import UNKNOWN, total_cost
from harness.core.errors import counted
from harness.ranking.judge_stats import side_by_side
from harness.ranking.judge_stats.agreement import Share, krippendorff_alpha
from harness.ranking.judge_stats.tally import Tally
from harness.report.summary.group import tallies
from harness.report.summary.labels import AnswerLabel, PairWinner, Truths, answer_key, label_agreement
from harness.report.summary.match_verdicts import verdict_keys
from harness.report.summary.ranking import group_of, is_offline
from harness.report.summary.rankings import design_of, judge_of
from harness.report.text import SELF_TEST, beginning, dollars, percent_interval, signed

_TURNED: Mapping[PairWinner, PairWinner] = {"a": "b", "b": "a", "tie": "tie"}


@dataclass(frozen=True)
class Disagreement:
    """A pair on which people differ."""

    query: str
    a: str
    b: str
    said: Mapping[str, PairWinner]
    """By person, in the order of the labels; a label that names nobody is by `-`."""


@dataclass(frozen=True)
class Raters:
    """What several people said of the same pairs."""

    people: Sequence[str]
    pairs: int
    """Pairs that two or more labelled."""
    alpha: float | None
    """Krippendorff's alpha of their labels; None where chance alone would agree fully."""
    disagreements: Sequence[Disagreement]


def raters(labels: Sequence[AnswerLabel]) -> Raters | None:
    """Return how far people agree on the pairs that two or more labelled; None without any.

    A pair is told by its query and both answers, in either order. Of one person the last label of a pair counts.
    """
    pairs: dict[tuple[str, frozenset[str]], list[AnswerLabel]] = {}
    for label in labels:
        pairs.setdefault((label.query.strip(), frozenset(map(answer_key, (label.a, label.b)))), []).append(label)
    several: list[Disagreement] = []
    for of_pair in pairs.values():
        first = of_pair[0]
        said: dict[str, PairWinner] = {}
        for label in of_pair:
            as_first = answer_key(label.a) == answer_key(first.a)
            said[label.by or "-"] = label.label if as_first else _TURNED[label.label]
        if len(said) > 1:
            several.append(Disagreement(first.query, first.a, first.b, said))
    if not several:
        return None
    return Raters(
        people=sorted({person for pair in several for person in pair.said}),
        pairs=len(several),
        alpha=krippendorff_alpha([*pair.said.values()] for pair in several),
        disagreements=[pair for pair in several if len({*pair.said.values()}) > 1],
    )


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
    queries: side_by_side.JudgedQueries = field(repr=False)
    alpha: float | None = None
    """Krippendorff's alpha of the judge and the labels, on the pairs that it decides."""

    @cached_property
    def figures(self) -> side_by_side.JudgingFigures:
        """The figures of it."""
        return side_by_side.judging_figures(self.queries)

    @property
    def name(self) -> str:
        """Judge, rubric and design, with commas."""
        order = f" {self.order}" if self.order else ""
        return ", ".join(filter(None, [self.judge, self.rubric, f"{self.topology}{order}", self.estimator]))


@dataclass(frozen=True)
class PlantedRight:
    """What a judge makes of pairs whose defect only the whole record shows."""

    classes: Mapping[str, Share]
    """Of the pairs of each class that were judged, those that it got right, both orders together."""
    usd_each: float | None
    """What a verdict cost, the mean; None where a price is not known."""
    failures: Mapping[str, int]
    """Why verdicts failed, and how many did."""

    @property
    def right(self) -> Share:
        """All classes together."""
        return Share(
            sum(each.part for each in self.classes.values()), sum(each.whole for each in self.classes.values())
        )


@dataclass(frozen=True)
class JudgesSideBySide:
    """The rankings of a run, what the labels and `reward()` could say, and which ranking's judge to take."""

    rankings: Sequence[RankedBy]
    agreements: Sequence[side_by_side.RankAgreement]
    choice: side_by_side.Choice | None
    """None where nothing tells which judge is right."""
    older: int
    """Rankings left out: a newer one was made in the same way."""
    labels: int
    """Labels that there are, ties included."""
    used_labels: int
    """Labels about two answers of the run."""
    raters: Raters | None = None
    """Where several people labelled the same pairs."""
    planted: Mapping[str, PlantedRight] = field(default_factory=dict[str, PlantedRight])
    """By ranking, where its judge was asked."""

    @property
    def sentence(self) -> str:
        """Which judge is the best, and the cheapest within 2 points of it; or why nobody can tell."""
        choice = self.choice
        if choice is None:
            why = (
                "labels or reward() do not tell answers apart on queries that two finished rankings share"
                if any(ranking.figures.right for ranking in self.rankings)
                else "the run has no labels that fit (labels.jsonl, or --labels FILE) and no reward() that tells "
                "answers apart"
            )
            return f"nothing tells which judge is right: {why}, so the figures say only how far the judges agree"
        truth = {"labels": "the labels", "reward": "reward()"}[choice.by]
        best = f"best by agreement with {truth}: {self._judge(choice, choice.first)}"
        if (choice.right[choice.first].low or 0) <= side_by_side.CHANCE:
            return f"no judge is shown to be right in more than half of the pairs; {best}"
        if choice.best is None:
            best += ", and another judge is right as often"
        points = f"{100 * side_by_side.WITHIN:.0f} points"
        if choice.cheapest is None:
            return f"{best}; which judge within {points} is the cheapest cannot be told: not all prices are known"
        if choice.cheapest == choice.first:
            return f"{best}; no cheaper judge is shown to be within {points} of it"
        sentence = f"{best}; the cheapest judge within {points} of it: {self._judge(choice, choice.cheapest)}"
        gap = choice.difference
        if gap is None or gap.low is None or gap.high is None:
            return sentence
        value, low, high = (signed(100 * part, 1) for part in (gap.value, gap.low, gap.high))
        return f"{sentence}; difference {value} points [{low}, {high}]"

    def _judge(self, choice: side_by_side.Choice, at: int) -> str:
        cost = self.rankings[at].figures.usd
        price = f" at {dollars(cost.value)} a query" if cost else ""
        right = percent_interval(choice.right[at])
        return f"{at + 1} ({self.rankings[at].name}), {right} of the pairs right{price}"

    def notes(self) -> Iterator[str]:
        """Yield what has to be known of the figures."""
        if any(ranking.offline for ranking in self.rankings):
            yield SELF_TEST
        if self.labels:
            used = f"{self.used_labels} of {counted(self.labels, 'label')}"
            yield f"{used} name a query and two answers of the run; two rollouts of one rank are half right"
        if cut_short := [str(at) for at, ranking in enumerate(self.rankings, 1) if not ranking.finished]:
            yield f"not finished, and so not compared in price: {', '.join(cut_short)}"
        if by_reward := [str(at) for at, ranking in enumerate(self.rankings, 1) if ranking.by_reward]:
            yield f"ranked by reward() itself (--judge-when tied): {', '.join(by_reward)}"
        if self.planted:
            yield "planted: of pairs whose defect only the whole record shows, those right in both orders together"
        for at, ranking in enumerate(self.rankings, 1):
            asked = self.planted.get(ranking.ranking)
            for reason, times in asked.failures.items() if asked else ():
                yield f"planted, {at}: {counted(times, 'failed verdict')}: {beginning(reason, 200)}"
        if self.older:
            yield f"left out: {counted(self.older, 'ranking')} made in the same way as one shown"


def judges_side_by_side(
    reader: RunReader, rankings: Iterable[RankingFile], labels: Sequence[AnswerLabel] = ()
) -> JudgesSideBySide:
    """Put rankings, oldest first, side by side: of each way of judging the newest finished. Raises ArchiveDamaged."""
    every = [ranking for ranking in rankings if len(ranking.groups)]
    newest = _newest_of_each(every)
    truths_of = Truths(labels)
    queries: list[dict[str, side_by_side.JudgedQuery]] = [{} for _ in newest]
    for query in reader.queries():
        ranked = {
            at: in_ranking
            for at, ranking in enumerate(newest)
            if (in_ranking := ranking.of(query)) and any(rollout.rank is not None for rollout in in_ranking.rollouts)
        }
        if ranked:
            group = group_of(reader, query, *ranked.values())
            truths = truths_of(group)
            for at, of_query in ranked.items():
                ranks = {r.index: r.rank for r in of_query.rollouts if r.rank is not None}
                keys = [*verdict_keys(of_query.matches), *dict.fromkeys(of_query.verdicts)]
                bought = [reader.verdict(key) or reader.scored(key) for key in keys]
                queries[at][query.id] = side_by_side.JudgedQuery(
                    ranks=ranks,
                    tally=sum(tallies(group, of_query, reader.verdict).values(), Tally()),
                    calls=len(keys),
                    seconds=sum(v.duration_s for v in bought if v) if all(bought) else None,
                    usd=total_cost(verdict.cost if verdict else UNKNOWN for verdict in bought).usd,
                    right=side_by_side.rights(truths, ranks),
                )
    judged = [
        RankedBy(
            ranking=ranking.head.id,
            judge=judge_of(ranking.head),
            rubric=ranking.head.rubric,
            topology=design_of(ranking, "topology"),
            estimator=design_of(ranking, "estimator"),
            order=str(ranking.head.settings.get("order") or ""),
            finished=ranking.finished,
            offline=is_offline(reader, ranking),
            by_reward=ranking.head.settings.get("judge_when") == "tied",
            queries=of,
            alpha=agreed.alpha if (agreed := label_agreement(reader, ranking, labels)) else None,
        )
        for ranking, of in zip(newest, queries, strict=True)
        if of
    ]
    finished = {at: ranking for at, ranking in enumerate(judged) if ranking.finished} or dict(enumerate(judged))
    by_labels = {at: r.queries for at, r in finished.items() if "labels" in r.figures.right}
    by_reward = {at: r.queries for at, r in finished.items() if "reward" in r.figures.right and not r.by_reward}
    chosen = side_by_side.choose(by_labels, "labels") if len(by_labels) > 1 else None
    return JudgesSideBySide(
        rankings=judged,
        agreements=side_by_side.rank_agreements([ranking.queries for ranking in judged]),
        choice=chosen or (side_by_side.choose(by_reward, "reward") if len(by_reward) > 1 else None),
        older=len(every) - len(newest),
        labels=len(labels),
        used_labels=len(truths_of.used),
        raters=raters(labels),
    )


_WAY = (
    *("order", "budget", "judge_repeats", "jury", "judge_when", "show_instructions", "judge_budget", "confidence"),
    *("judge_agent_when", "require_citations"),
)


def _newest_of_each(rankings: Sequence[RankingFile]) -> list[RankingFile]:
    """Return the newest ranking of each way of judging, a finished one if there is any, in the order of time."""
    by_way: dict[tuple[str, ...], RankingFile] = {}
    for ranking in rankings:
        settings = ranking.head.settings
        design = [design_of(ranking, name) for name in ("topology", "estimator")]
        way = (judge_of(ranking.head), ranking.head.rubric, *design, *(str(settings.get(name)) for name in _WAY))
        if ranking.finished or way not in by_way or not by_way[way].finished:
            by_way[way] = ranking
    return sorted(by_way.values(), key=lambda ranking: ranking.head.created_at)
