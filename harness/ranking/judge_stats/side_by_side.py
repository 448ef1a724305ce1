"""Several rankings of the same groups side by side: figures with intervals, agreement, and which judge to take."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from harness.ranking.judge_stats.agreement import Preference, count_right
from harness.ranking.judge_stats.orders import information
from harness.ranking.judge_stats.tally import Tally
from harness.ranking.rewards import tau_b

_Z = 1.959963984540054
"""Standard normal quantile of a two-sided 95 % interval."""
_SMALL = {1: 12.706205, 2: 4.302653, 3: 3.182446, 4: 2.776445}
"""Student's t of a two-sided 95 % interval, where the expansion is not good enough."""

Sums = Sequence[float]
"""What one query adds to the sums that a figure is made of."""


@dataclass(frozen=True)
class QueryFigure:
    """A figure over queries with its 95 % interval; one query has no interval."""

    value: float
    low: float | None
    high: float | None
    queries: int
    """Queries that the figure comes from."""


def over_queries(
    rows: Sequence[Sums], figure: Callable[[Sums], float | None], bounds: tuple[float, float] | None = None
) -> QueryFigure | None:
    """Return a figure of the sums of `rows`, one row a query; None where there is nothing to make it of.

    `figure` may give None. A figure within `bounds` (a share: 0 and 1) gets an interval within them: Wilson's, of so
    many independent trials as have the jackknife's error, with Student's t (E. L. Korn, B. I. Graubard, Survey
    Methodology 24, 1998). Where all queries give a bound itself, the trials are the queries,
    with the normal's quantile.
    """
    totals = [math.fsum(column) for column in zip(*rows, strict=True)]
    value = figure(totals) if totals else None
    if value is None:
        return None
    n, without_each = len(rows), list[float]()
    for row in rows:
        left = [total - part for total, part in zip(totals, row, strict=True)]
        other = figure([0.0 if abs(rest) < 1e-12 else rest for rest in left])  # what is left of nothing is nothing
        without_each += [] if other is None else [other]
    if n == 1 or len(without_each) < n:
        return QueryFigure(value, None, None, n)
    mean = math.fsum(without_each) / n
    error = math.sqrt((n - 1) / n * math.fsum((other - mean) ** 2 for other in without_each))  # of the jackknife
    return QueryFigure(value, *_interval(value, error, bounds, n), n)


def mean_over_queries(values: Sequence[float], bounds: tuple[float, float] | None = None) -> QueryFigure | None:
    """Return the mean of one value a query; None of no query."""
    return over_queries([(value, 1.0) for value in values], quotient, bounds)


def quotient(sums: Sums) -> float | None:
    """Return the first sum over the second one; None over 0."""
    return sums[0] / sums[1] if sums[1] > 0 else None


def students_t(freedom: int) -> float:
    """Return Student's t of a two-sided 95 % interval (M. Abramowitz, I. A. Stegun, 26.7.5), to three decimals."""
    if freedom in _SMALL:
        return _SMALL[freedom]
    z, f = _Z, float(freedom)
    return (
        z
        + (z**3 + z) / (4 * f)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * f**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * f**3)
        + (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / (92160 * f**4)
    )


def _interval(value: float, error: float, bounds: tuple[float, float] | None, queries: int) -> tuple[float, float]:
    t = students_t(queries - 1)
    low, high = bounds or (-math.inf, math.inf)
    if math.isinf(low) or math.isinf(high):
        return max(low, value - t * error), min(high, value + t * error)
    share, spread = (value - low) / (high - low), error / (high - low)
    inside = 1e-12 < share < 1 - 1e-12
    if inside and spread < 1e-12:
        return value, value
    trials, t = (share * (1 - share) / spread**2, t) if inside else (queries, _Z)
    middle = (share + t * t / (2 * trials)) / (1 + t * t / trials)
    half = t / (1 + t * t / trials) * math.sqrt(share * (1 - share) / trials + t * t / (4 * trials**2))
    ends = max(0.0, middle - half), min(1.0, middle + half)
    return low + ends[0] * (high - low), low + ends[1] * (high - low)


WITHIN = 0.02
"""Share of pairs by which a judge may be worse than the best one and still be taken for its price."""
CHANCE = 0.5
"""Share of pairs that a judge gets right by chance."""
_SHARE = (0.0, 1.0)
_CORRELATION = (-1.0, 1.0)
_AMOUNT = (0.0, math.inf)

Truth = Literal["labels", "reward"]
"""What tells which of two rollouts is better: people, or the agent file's `reward()`."""
TRUTHS: tuple[Truth, ...] = ("labels", "reward")
"""The better known first: labels are about answers, `reward()` about what a program can check."""


@dataclass(frozen=True)
class JudgedQuery:
    """What one ranking says of one query, and took for it."""

    ranks: Mapping[int, float]
    """0 is best; only the rollouts that have a rank."""
    tally: Tally
    calls: int
    """Verdicts that it rests on, whenever they were bought."""
    usd: float | None
    """What these verdicts cost; None if a price is unknown."""
    right: Mapping[Truth, tuple[float, int]]
    """For each truth that says something of the query: preferences that the ranks get right, and of how many."""
    seconds: float | None = None
    """What they took, one after the other; None where a verdict is not at hand."""


JudgedQueries = Mapping[str, JudgedQuery]
"""What one ranking says, by query."""


@dataclass(frozen=True)
class JudgingFigures:
    """The figures of one ranking's judge; None where nothing is known."""

    right: Mapping[Truth, QueryFigure]
    """Share of the truth's preferences that the ranking gets right, mean over queries."""
    flips: QueryFigure | None
    """Share of the pairs judged in both orders of which the orders name opposite winners."""
    information: QueryFigure | None
    """How far the leads in the two orders correlate (harness.ranking.judge_stats.orders.Information)."""
    self_noise: QueryFigure | None
    """Standard deviation of a margin when the same question is asked again."""
    length: QueryFigure | None
    """Spearman's correlation of score with answer length, ranks within queries."""
    calls: QueryFigure | None
    """A query."""
    usd: QueryFigure | None
    """A query."""
    usd_each: QueryFigure | None
    """A verdict."""
    seconds: QueryFigure | None
    """A verdict."""


@dataclass(frozen=True)
class RankAgreement:
    """How far two rankings agree on the queries that both ranked; `first` and `second` are their places in a list."""

    first: int
    second: int
    tau: QueryFigure | None
    """Kendall's tau-b of the ranks in a query, mean over the queries in which neither ranking ties all."""
    same_best: QueryFigure | None
    """Share of queries in which the same rollouts share the first rank."""


@dataclass(frozen=True)
class Choice:
    """The best judge by a truth, and the cheapest one that is nearly as good; places in the list of rankings."""

    by: Truth
    first: int
    """Gets most preferences right; among equals the cheaper one, then the first."""
    best: int | None
    """None where the first is not shown to be right in more than half, or another is right as often."""
    cheapest: int | None
    """None where prices are unknown, or the first is not shown to be right in more than half."""
    right: Mapping[int, QueryFigure]
    """Share of preferences that each ranking compared gets right, on the queries that all of them ranked."""
    difference: QueryFigure | None
    """The cheapest one's share less the first one's."""


def judging_figures(queries: JudgedQueries) -> JudgingFigures:
    """Return the figures of one ranking."""
    every = list(queries.values())
    tallies = [query.tally for query in every]
    noises = [(t.noise.squares, t.noise.freedom) for t in tallies if t.noise.freedom]
    orders = [t.orders.of_information for t in tallies if t.orders.pairs]
    costs = [(query.usd, float(query.calls)) for query in every if query.usd is not None]
    took = [(query.seconds, float(query.calls)) for query in every if query.seconds is not None]
    return JudgingFigures(
        right={
            truth: figure
            for truth in TRUTHS
            if (figure := mean_over_queries([_share(query, truth) for query in every if truth in query.right], _SHARE))
        },
        flips=over_queries([(t.flips.part, t.flips.whole) for t in tallies if t.flips.whole], quotient, _SHARE),
        information=over_queries(orders, lambda sums: information(*sums).value, _CORRELATION),
        self_noise=over_queries(noises, lambda sums: math.sqrt(sums[0] / sums[1]) if sums[1] > 0 else None, _AMOUNT),
        length=length_figure(tallies),
        calls=mean_over_queries([float(query.calls) for query in every], _AMOUNT),
        usd=mean_over_queries([usd for usd, _ in costs], _AMOUNT) if len(costs) == len(every) else None,
        usd_each=over_queries(costs, quotient, _AMOUNT) if len(costs) == len(every) else None,
        seconds=over_queries(took, quotient, _AMOUNT),
    )


def length_figure(tallies: Sequence[Tally]) -> QueryFigure | None:
    """Return Spearman's correlation of score with answer length, from one tally a query; ranks within queries."""
    lengths = [t.length for t in tallies if t.length.answers]
    rows = [(sums.products, sums.score_squares, sums.length_squares) for sums in lengths]
    return over_queries(rows, _correlation, _CORRELATION)


def rank_agreements(rankings: Sequence[JudgedQueries]) -> list[RankAgreement]:
    """Return the agreement of each two rankings."""
    return [_agreement(rankings, *places) for places in combinations(range(len(rankings)), 2)]


def choose(rankings: Mapping[int, JudgedQueries], by: Truth) -> Choice | None:
    """Return which of the rankings to take, by the queries of which the truth says something in all of them.

    The best one gets most preferences right. The cheapest one is the cheapest of those whose difference's interval ends
    above -2 points of per cent; among equals the better one, then the first. None where there is no such query.
    """
    every = list(rankings.values())
    told = [{name for name, query in queries.items() if by in query.right} for queries in every]
    shared = [name for name in (every[0] if every else ()) if all(name in names for names in told)]
    shares = {at: [_share(queries[name], by) for name in shared] for at, queries in rankings.items()}
    right = {at: figure for at, values in shares.items() if (figure := mean_over_queries(values, _SHARE))}
    if not right:
        return None
    paid = {at: [queries[name].usd for name in shared] for at, queries in rankings.items()}
    prices = {at: None if None in usd else math.fsum(filter(None, usd)) for at, usd in paid.items()}
    first = min(
        right, key=lambda at: (-round(right[at].value, 9), math.inf if (usd := prices[at]) is None else usd, at)
    )
    others = [at for at in right if at != first]
    pairs = {at: zip(shares[at], shares[first], strict=True) for at in others}
    gaps = {at: mean_over_queries([a - b for a, b in both], (-math.inf, math.inf)) for at, both in pairs.items()}
    near = [at for at, gap in gaps.items() if gap and gap.low is not None and gap.low > -WITHIN]
    priced = [(price, -right[at].value, at) for at in (first, *near) if (price := prices[at]) is not None]
    shown = (right[first].low or 0) > CHANCE
    cheapest = min(priced)[2] if shown and len(priced) == 1 + len(near) else None
    tied = any(abs(right[at].value - right[first].value) < 1e-9 for at in others)
    return Choice(
        by,
        first,
        first if shown and not tied else None,
        cheapest,
        right,
        gaps.get(-1 if cheapest is None else cheapest),
    )


def rights(truths: Mapping[Truth, Sequence[Preference]], ranks: Mapping[int, float]) -> dict[Truth, tuple[float, int]]:
    """Return what `ranks` gets right of each truth's preferences, where there is any."""
    counts: dict[Truth, tuple[float, int]] = {truth: count_right(pairs, ranks) for truth, pairs in truths.items()}
    return {truth: (right, of) for truth, (right, of) in counts.items() if of}


def _agreement(rankings: Sequence[JudgedQueries], first: int, second: int) -> RankAgreement:
    taus, same = list[float](), list[float]()
    for name in [name for name in rankings[first] if name in rankings[second]]:
        one, other = rankings[first][name].ranks, rankings[second][name].ranks
        if both := [rollout for rollout in one if rollout in other]:
            same.append(float(_first(one, both) == _first(other, both)))
            tau = tau_b([one[rollout] for rollout in both], [other[rollout] for rollout in both])
            taus += [] if tau is None else [tau]
    return RankAgreement(first, second, mean_over_queries(taus, _CORRELATION), mean_over_queries(same, _SHARE))


def _first(ranks: Mapping[int, float], among: Sequence[int]) -> set[int]:
    least = min(ranks[rollout] for rollout in among)
    return {rollout for rollout in among if ranks[rollout] == least}


def _share(query: JudgedQuery, truth: Truth) -> float:
    right, of = query.right[truth]
    return right / of


def _correlation(sums: Sums) -> float | None:
    products, scores, lengths = sums
    if scores <= 0 or lengths <= 0:
        return None
    return max(-1.0, min(1.0, products / math.sqrt(scores * lengths)))
