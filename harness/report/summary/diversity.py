"""What varying the samples bought (`--vary`): how far answers differ, what each recipe gains, which one to drop."""

import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from harness.core.cost import Cost, total_cost
from harness.core.rankings import GroupRanking
from harness.core.records import Group
from harness.ranking.judge_stats.side_by_side import QueryFigure, mean_over_queries, over_queries, quotient
from harness.report.summary.group import QualityFigure
from harness.report.summary.labels import rollouts_by_answer
from harness.report.text import dollars_interval, enumeration, number_interval

_TOKEN = re.compile(r"\w+")
_LEVEL = 0.04
"""How often any recipe at all is called one to drop where none differs: a little below the 5 % that docs promise.
Samples of one recipe are alike, and then two of seven are first more rarely than in two of seven queries."""
_ENOUGH_QUERIES, _ENOUGH_GAIN = 10, 0.9
WITHOUT_ADVICE = f"fewer than {_ENOUGH_QUERIES} queries have a judged anchor and samples, or no sample gains anything"
"""When a run shows no number of rollouts that is enough."""


@dataclass(frozen=True)
class RecipeFigures:
    """What the samples of one recipe gave."""

    name: str
    gain: QueryFigure | None
    """Its best sample's score above the anchor's, a mean over queries; None where no query has both."""
    usd_a_point: QueryFigure | None
    """What its samples cost for each point that they gain, over those queries; None without gain, or without prices."""
    queries: int
    """Queries in which it had a sample, beside one of another recipe."""
    first: float
    """How often one of its samples was the best sample of the query; a place shared counts in part."""
    expected: float
    """How often it would be, by the number of its samples alone."""
    drop: bool
    """Whether that it is first more rarely than it would be is shown (exact binomial test, Bonferroni's correction)."""


@dataclass(frozen=True)
class NextRun:
    """What another run of such queries might do with."""

    n: int
    """The fewest rollouts a query that give nine tenths of the gain of `most`."""
    most: int
    """Rollouts a query of this run, without those of the recipes to drop."""
    gain: float
    """The expected score of the best of `n` above the anchor's, by the judge of this run."""
    gain_of_most: float


@dataclass(frozen=True)
class Diversity:
    """How far the rollouts of a query differ, and what each recipe gave."""

    answers: QueryFigure | None
    """Different answers of a query."""
    distance: QueryFigure | None
    """The mean distance of two answers of a query, from 0 (the same words) to 1 (no word in common)."""
    recipes: tuple[RecipeFigures, ...]
    advice: NextRun | None
    """None of few queries, and where no sample gains anything."""


@dataclass(frozen=True)
class EmbeddedDistance:
    """The mean distance of two answers of a query: one less the cosine of their embeddings."""

    model: str
    distance: QueryFigure | None
    """None where no query has two answers."""
    tokens: int
    """As far as the server counted."""
    cost: Cost


@dataclass
class _Sums:
    gains: list[float] = field(default_factory=list[float])
    costs: list[float | None] = field(default_factory=list[float | None])
    """USD of the samples of each query that has a gain; None where a price is unknown."""
    shares: list[float] = field(default_factory=list[float])
    """Of the samples of each query, how many are of this recipe."""
    first: float = 0.0


def diversity(groups: Iterable[tuple[Group, GroupRanking]]) -> Diversity:
    """Return the figures of ranked groups, which are read one by one."""
    answers, distances, sums = list[float](), list[float](), defaultdict[str, _Sums](_Sums)
    scored = list[_Scored]()
    for group, ranked in groups:
        texts = rollouts_by_answer(group)
        answers.append(len(texts))
        ended_well = [r.trajectory.answer for r in group.rollouts if r.status == "ok"]
        if len(ended_well) > 1:
            distances.append(mean_distance(ended_well))
        _add(sums, group, ranked)
        scores = {place.index: place.score for place in ranked.rollouts if place.score is not None}
        if group.rollouts and group.rollouts[0].role == "anchor" and group.rollouts[0].index in scores:
            anchor, *samples = [r for r in group.rollouts if r.index in scores]
            named = tuple((r.recipe.name if r.recipe else "", scores[r.index]) for r in samples)
            scored.append((scores[anchor.index], named))
    tests = sum(bool(each.shares) for each in sums.values())
    recipes = [_figures(name, each, _LEVEL / max(1, tests)) for name, each in sorted(sums.items())]
    advice = _advice(scored, {each.name for each in recipes if each.drop})
    return Diversity(mean_over_queries(answers), mean_over_queries(distances, (0.0, 1.0)), tuple(recipes), advice)


def mean_distance(answers: Sequence[str]) -> float:
    """Return the mean Jaccard distance of two answers: the share of the words of both that only one of them has."""
    words = [frozenset(_TOKEN.findall(answer.lower())) for answer in answers]
    distances = [1 - len(a & b) / len(a | b) if a | b else 0.0 for a, b in combinations(words, 2)]
    return math.fsum(distances) / len(distances)


_Scored = tuple[float, tuple[tuple[str, float], ...]]
"""The anchor's score, and each sample's recipe and score."""


def _advice(scored: Sequence[_Scored], dropped: Collection[str]) -> NextRun | None:
    """Return how many rollouts are enough, by the queries that have the most of them."""
    kept = [(anchor, [score for name, score in samples if name not in dropped]) for anchor, samples in scored]
    most = max((len(scores) for _, scores in kept), default=0)
    whole = [(anchor, scores) for anchor, scores in kept if len(scores) == most]
    if len(whole) < _ENOUGH_QUERIES or not most:
        return None
    gains = [math.fsum(_best_of(k, *each) for each in whole) / len(whole) for k in range(1, most + 1)]
    enough = next(k for k, gain in enumerate(gains, 1) if gain >= _ENOUGH_GAIN * gains[-1])
    return NextRun(enough + 1, most + 1, gains[enough - 1], gains[-1]) if gains[-1] > 0 else None


def _best_of(count: int, anchor: float, scores: Sequence[float]) -> float:
    """Return by how much the best of the anchor and `count` samples, drawn from `scores`, will be above it."""
    ways, ordered = math.comb(len(scores), count), sorted(scores, reverse=True)
    above = [math.comb(len(scores) - at, count - 1) / ways * max(0.0, s - anchor) for at, s in enumerate(ordered, 1)]
    return math.fsum(above)


def _add(sums: defaultdict[str, _Sums], group: Group, ranked: GroupRanking) -> None:
    places = {place.index: place for place in ranked.rollouts if place.rank is not None}
    anchor = next((places[r.index].score for r in group.rollouts if r.role == "anchor" and r.index in places), None)
    members = [(r.recipe.name, places[r.index]) for r in group.rollouts if r.recipe and r.index in places]
    best = min((place.rank for _, place in members if place.rank is not None), default=None)
    leaders = [name for name, place in members if place.rank == best]
    names = {name for name, _ in members}
    for name in names:
        scores = [place.score for other, place in members if other == name and place.score is not None]
        if anchor is not None and scores:
            sums[name].gains.append(max(scores) - anchor)
            its_own = (r for r in group.rollouts if r.recipe and r.recipe.name == name)
            sums[name].costs.append(total_cost(r.cost for r in its_own).usd)
        if len(names) > 1 and len(leaders) < len(members):  # else nobody could be first, or the judging told nothing
            sums[name].shares.append(sum(other == name for other, _ in members) / len(members))
            sums[name].first += leaders.count(name) / len(leaders)


def _figures(name: str, sums: _Sums, level: float) -> RecipeFigures:
    queries, expected = len(sums.shares), math.fsum(sums.shares)
    drop = bool(queries) and _at_most(math.ceil(sums.first - 1e-9), queries, expected / queries) <= level
    costs = [usd for usd in sums.costs if usd is not None]
    priced = list(zip(costs, sums.gains, strict=True)) if len(costs) == len(sums.gains) else []
    a_point = over_queries(priced, quotient) if priced else None
    return RecipeFigures(name, mean_over_queries(sums.gains), a_point, queries, sums.first, expected, drop)


def _at_most(hits: int, trials: int, chance: float) -> float:
    """Return how probably a binomial count is at most so large. Chances that differ by query would spread it less."""
    # by logarithms: the binomial coefficients of a thousand queries are beyond a float
    whole, log, log_other = math.lgamma(trials + 1), math.log(chance), math.log1p(-chance)
    ways = (whole - math.lgamma(k + 1) - math.lgamma(trials - k + 1) for k in range(hits + 1))
    return math.fsum(math.exp(way + k * log + (trials - k) * log_other) for k, way in enumerate(ways))


def diversity_words(figures: Diversity) -> Iterator[QualityFigure]:
    """Yield the figures as people read them."""
    if figures.distance:
        meaning = "of the words of two answers of a query, the share that only one has"
        yield QualityFigure("distance", "Distance of answers", number_interval(figures.distance), meaning)
    for each in figures.recipes:
        if each.gain:
            words = "score of its best sample above the anchor's"
            words += f" at {dollars_interval(each.usd_a_point)} a point" if each.usd_a_point else ""
            best = f"best of all in {each.first:.3g} of {each.queries:,} queries, by chance {each.expected:.3g}"
            words += f"; {best}" if each.queries else ""
            meaning = f"drop it: {words}" if each.drop else words
            yield QualityFigure("gain", f"Gain of {each.name}", number_interval(each.gain), meaning)
    if advice := figures.advice:
        dropped = [each.name for each in figures.recipes if each.drop]
        without = f", without {enumeration(dropped)}" if dropped else ""
        share = f"{advice.gain / advice.gain_of_most:.0%} of the gain of {advice.most}{without}, by the judge's scores"
        number = f"{advice.n}{' or more' if advice.n == advice.most else ''}"
        yield QualityFigure("advice", "Rollouts that are enough", number, f"{share}; what more would gain is not known")
