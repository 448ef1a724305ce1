"""A gate: how probably an equal agent passes, whether verdicts are noise, what becomes of it, and its words."""

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate, chain

import numpy as np

from harness.comparison.conclusions import side_names
from harness.comparison.interim import critical_values, exits, finding
from harness.comparison.intervals import DEFAULT_SPREAD, least_with_power, scipy, t_exceeds, t_test_power, t_value
from harness.comparison.outcomes import Numbers, Pairs, bounds, equal_clusters, paired_rollouts
from harness.comparison.rectified import LabelledSums, Rectified
from harness.core.comparisons import FEWEST_SHOWING, ComparedQuery, Comparison, PeoplesRate, SideResult
from harness.core.errors import counted, option, round_number
from harness.core.gates import Forecast, GateFinding, GateResult, InterimAnalysis, LengthLead
from harness.core.records import percent_half_up, whole_percent
from harness.ranking.judge_stats.orders import OrderSums, orders_of_pair

_ONE_PAIR = 0.25
"""Variance of a query's win rate over one pair that is won or lost."""
_LASTING = 2 * DEFAULT_SPREAD**2 - _ONE_PAIR
"""The part of it that more pairs do not lessen, where two pairs have `DEFAULT_SPREAD`."""
_DESIRED = 0.8
_MOST_QUERIES = 1_000_000


def default_spread(pairs: int) -> float:
    """Return the spread that is taken with so many pairs a query: a part that more pairs lessen, and one that stays.

    One pair that is won or lost has a spread of 0.5, and two pairs have `DEFAULT_SPREAD`; both parts follow from that.
    With it an equal agent passes at a margin of 0.05 in 7 % at 20 queries, 39 % at 200, 66 % at 400, 92 % at 800.
    """
    return (_LASTING + (_ONE_PAIR - _LASTING) / pairs) ** 0.5


_HALF_OF_THE_TIME = 0.5


def queries_that_show(rate: float, pairs: int) -> int:
    """Return how many queries show a win rate half of the time: by a t test, with the spread of so many pairs each."""
    effect = (rate - 0.5) / default_spread(pairs)
    return math.ceil(least_with_power(lambda n: t_test_power(effect, n), 2.0, 4.0, _HALF_OF_THE_TIME))


def shown_rate(queries: int, pairs: int) -> float:
    """Return the win rate, in whole percents, that so many queries show half of the time; 1 where none below does."""
    least = least_with_power(lambda effect: t_test_power(effect, queries), 0.0, 1.0, _HALF_OF_THE_TIME)
    return min(100, math.ceil(50 + 100 * least * default_spread(pairs))) / 100


_NO_LONGER = 1.05
_FEWEST_NO_LONGER, _PROBABLY = 3, 0.8


def won_no_longer(pairs: Pairs) -> tuple[float, int]:
    """Return what the second side won of the pairs that length cannot have won it, and how many there are.

    Its answer there is at most 5 % longer than the other one, or a side forfeited.
    """
    won = [
        pair.outcome
        for pair in chain.from_iterable(pairs.values())
        for first, second in [pair.lengths]
        if pair.outcome is not None
        and (pair.forfeit or (first is not None and second is not None and second <= _NO_LONGER * first))
    ]
    return sum(won), len(won)


def lead_by_length(result: SideResult, pairs: Pairs) -> LengthLead | None:
    """Tell whether the second side's lead is its answers' length, as far as the pairs tell; None: it is not.

    By length alone: more than half of it is gone at equal length, and the rest is not shown. Perhaps: the pairs that
    length cannot have won are fewer than three, or do not show with 80 % probability (of Beta(1 + won, 1 + lost)) that
    it wins more than half of them. No regression tells it there: it extrapolates from answers that are longer.
    """
    same, (won, count) = result.length_controlled, won_no_longer(pairs)
    if same is not None and same.low <= 0.5 and same.value - 0.5 < (result.win_rate - 0.5) / 2:
        return "by length alone"
    probability = 1 - float(scipy("special").betainc(1 + won, 1 + count - won, 0.5))
    return None if count >= _FEWEST_NO_LONGER and probability >= _PROBABLY else "perhaps by length"


def pass_forecast(
    queries: int,
    margin: float,
    spread: float | None,
    *,
    pairs: int = 2,
    shares: tuple[float, ...] = (1.0,),
    sizes: Sequence[Sequence[int]] = (),
) -> Forecast:
    """Return how probably an agent equal to the baseline passes, and how many queries let it pass in 80 %.

    Without a `spread` the default one for so many pairs a query is taken. `shares` says how much is judged at each
    analysis, and `sizes` how large the clusters are that it adds; where they differ, simulated gates give the
    probability. The queries of a cluster are taken to have in common what more pairs a query would not lessen, which is
    the part of the variance that the default spread has. The `queries` of the forecast are those that count as
    independent (L. Kish, Survey Sampling, 1965).
    """
    usual = default_spread(pairs)
    width, common = usual if spread is None else spread, _LASTING / usual**2
    every = np.array([*chain.from_iterable(sizes)] or [1] * queries, np.float64)
    variances = common + (1 - common) / every
    queries = round(queries**2 / float((every**2 * variances).sum()))
    spreads = width * np.sqrt(variances)
    low, high = 1, 2
    while high <= _MOST_QUERIES and pass_probability(high, margin, width, shares) < _DESIRED:
        low, high = high, high * 2
    while high <= _MOST_QUERIES and high - low > 1:  # by bisection
        middle = (low + high) // 2
        low, high = (low, middle) if pass_probability(middle, margin, width, shares) >= _DESIRED else (middle, high)
    return Forecast(
        probability=_simulated([*map(len, sizes)], every, spreads, margin, shares)
        if width and (every != every[0]).any()
        else pass_probability(equal_clusters(every, every)[-1][0], margin, float(spreads[0]), shares),
        queries=queries,
        margin=margin,
        looks=len(shares),
        spread=width,
        spread_from="default" if spread is None else "runs",
        desired=_DESIRED,
        queries_desired=high if high <= _MOST_QUERIES else None,
    )


def pass_probability(queries: float, margin: float, spread: float, shares: tuple[float, ...] = (1.0,)) -> float:
    """Return how probably the interval of an equal agent ends above 0.5 − margin, at any of the analyses.

    The win rate is taken as normal about one half. With one analysis this is the power of the t test (the noncentral t
    distribution); with several, a walk that ends where it passes, or is worse.
    """
    if spread == 0:  # where all queries say the same, the interval holds what the next ones can change
        tail = scipy("special").ndtr(-critical_values(shares)[-1])
        return float(0.5 * tail ** (1 / queries) > 0.5 - margin)
    if len(shares) == 1:
        freedom = max(1.0, queries - 1)
        return t_exceeds(t_value(critical_values(shares)[0], freedom), freedom, margin * queries**0.5 / spread)
    bounds = [t_value(z, queries * share - 1) for z, share in zip(critical_values(shares), shares, strict=True)]
    shifts = [margin * (queries * share) ** 0.5 / spread for share in shares]
    high = [bound - shift for bound, shift in zip(bounds, shifts, strict=True)]
    return sum(above for above, _ in exits(shares, high, [-bound for bound in bounds]))


_GATES, _NUMBERS_AT_ONCE = 4_000, 1_000_000


def _simulated(
    added: Sequence[int], sizes: Numbers, spreads: Numbers, margin: float, shares: tuple[float, ...]
) -> float:
    """Return how often an equal agent passes a gate of clusters [C] that differ in size.

    The standard error then depends on the mean, and no formula holds: the intervals of simulated gates are worked out.
    `spreads` are those of the clusters' means; `added` says how many clusters each analysis adds.
    """
    rng, passed = np.random.default_rng(0), 0
    for gates in [most := max(1, min(_GATES, _NUMBERS_AT_ONCE // len(sizes)))] * (_GATES // most):
        sums = sizes * rng.normal(0.5, spreads, (gates, len(sizes)))
        undecided = np.ones(gates, bool)
        for count, critical in zip(accumulate(added), critical_values(shares), strict=True):
            of_part, sized = sums[:, :count], sizes[:count]
            errors = [t_value(critical, n - 1) * s / n**0.5 for n, s in equal_clusters(of_part, sized)]
            mean, half = of_part.sum(1) / sized.sum(), np.max(errors, axis=0)
            above = undecided & (mean - half > 0.5 - margin)
            passed += int(above.sum())
            undecided &= ~above & (mean + half >= 0.5)
    return passed / (most * (_GATES // most))


_UNLIKELY = 0.5
_MOST_DECIMALS = 3


def forecast_sentences(forecast: Forecast, label: str = "B", *, looks: int = 1, concluded: bool = False) -> list[str]:
    """Return how probably an agent equal to the baseline passes; below 50 % also how many queries would do.

    `looks` are those that were asked for. A gate that has `concluded` needs no more queries.
    """
    chance, queries = f"{percent_half_up(forecast.probability)} %", counted(forecast.queries, "query", "queries")
    if forecast.probability < 0.005:
        chance = "less than 1 %"
    elif forecast.probability >= 0.995:
        chance = "more than 99 %"
    whence = "as the baseline's own pairs spread" if forecast.spread_from == "runs" else "at the default spread"
    terms = f"{queries}, margin {100 * forecast.margin:g} points, {whence} ({forecast.spread:.2f})"
    sentences = [f"{label} passes in {chance} if {label} is as good as the baseline: {terms}."]
    if not concluded and forecast.probability < _UNLIKELY:
        more = "no number of queries below a million makes that 80 %: widen --margin"
        if forecast.queries_desired is not None:
            more = f"about {round_number(forecast.queries_desired)} queries, or a wider --margin, make that 80 %"
        sentences.append(f'warning: this gate will mostly say "cannot tell"; {more}.')
    if forecast.looks < looks:
        sentences.append(f"note: {forecast.looks} of {looks} looks are possible with {queries}.")
    return sentences


def gate_sentence(gate: GateResult) -> str:
    """Return the last line of a gate: what it says of the second side, the figures, and why."""
    look = gate.looks[-1]
    first, second = side_names(gate.comparison.sides)
    low, high = (_beside(*ends) for ends in zip(look.interval, (0.5 - gate.margin, 0.5), strict=True))
    by_people = f" by people, with {counted(look.labels, 'labelled pair')}," if look.labels else ""
    on = counted(look.queries, "query", "queries")
    figures = f"preferred{by_people} in {whole_percent(look.win_rate)} % [{low}, {high}] on {on}"
    stopped = f" at look {len(gate.looks)} of {gate.planned_looks}" if gate.planned_looks > 1 else ""
    limit = f"{100 * (0.5 - gate.margin):g}"
    if gate.finding == "not worse":
        return f"Passed: {second} is not worse than {first}{stopped}: {figures}, above {limit} %."
    if gate.finding == "worse":
        return f"Failed: {second} is worse than {first}{stopped}: {figures}, below 50 %."
    why = "; ".join(gate.reasons) or f"the interval must lie wholly above {limit} %, or wholly below 50 %"
    result = "Passed, since --allow-unsure lets it" if gate.passed else "Failed"
    return f"{result}: the gate cannot tell whether {second} is worse than {first}{stopped}: {figures}; {why}."


def _beside(end: float, limit: float) -> str:
    """Return an end of the interval in per cent, with decimals where it would else read like the limit beside it."""
    if whole_percent(end) == whole_percent(limit):
        for decimals in range(1, _MOST_DECIMALS + 1):
            if (text := f"{100 * end:.{decimals}f}") != f"{100 * limit:.{decimals}f}":
                return text
    return str(whole_percent(end))


_MOST_LEFT_OUT = 0.1
"""The share of a side's rollouts that the infrastructure may have failed, and of the pairs that the judge may have."""


def conclude_gate(
    comparison: Comparison,
    queries: Sequence[ComparedQuery],
    looks: Sequence[InterimAnalysis],
    forecast: Forecast,
    *,
    planned_looks: int,
    allow_unsure: bool,
) -> GateResult:
    """Return what a gate says after its last analysis, and whether it is passed."""
    reasons = reasons_to_doubt(queries, [side.label for side in comparison.sides])
    verdict: GateFinding = "cannot tell" if reasons else looks[-1].finding
    gate = GateResult(
        finding=verdict,
        passed=verdict == "not worse" or (verdict == "cannot tell" and allow_unsure),
        sentence="",
        margin=forecast.margin,
        reasons=reasons,
        forecast=forecast,
        looks=tuple(looks),
        planned_looks=planned_looks,
        comparison=comparison,
    )
    return gate.model_copy(update={"sentence": gate_sentence(gate)})


def look_by_people(
    look: InterimAnalysis, pairs: Pairs, clusters: Mapping[str, str] | None, margin: float, *, alone: bool
) -> InterimAnalysis:
    """Return an analysis by what people would say; as it is below six labelled clusters.

    `alone`: there is no other analysis. Open pairs count against any finding, as they do without labels.
    """
    sums = LabelledSums.of(pairs, clusters)
    if sums.clusters < FEWEST_SHOWING:
        return look
    rate = Rectified(sums).interval(None if alone else look.critical)
    worst, best = bounds(pairs, clusters)
    low, high = rate.low + min(0.0, worst - look.win_rate), rate.high + max(0.0, best - look.win_rate)
    interval = max(0.0, low), min(1.0, high)
    by_people = {"win_rate": rate.value, "interval": interval, "finding": finding(interval, margin)}
    return look.model_copy(update={**by_people, "labels": sums.labels})


def contradicted(people: PeoplesRate | None, least: float) -> str | None:
    """Return in words why a judge cannot gate: its agreement with people is shown to be below `least`; else None."""
    seen = people and people.agreement
    if not people or not seen or seen.high >= least:
        return None
    value, low, high = map(whole_percent, (seen.value, seen.low, seen.high))
    labels = counted(people.labels, "labelled pair")
    return (
        f"by {labels}, the judge agrees with people on {value} % [{low}, {high}] of the pairs, "
        f"shown to be below {option('min_agreement', f'{least:g}')}, so it informs and does not gate"
    )


def lacks_verdicts(gate: GateResult) -> bool:
    """Return whether a gate cannot tell where the judge failed in more than 10 % of the pairs: that is an outage."""
    result = gate.comparison.results[0]
    return gate.finding == "cannot tell" and result.unjudged > _MOST_LEFT_OUT * (result.pairs + result.unjudged)


def reasons_to_doubt(queries: Sequence[ComparedQuery], labels: Sequence[str]) -> tuple[str, ...]:
    """Say of which sides the infrastructure failed so many rollouts that the others tell nothing."""
    reasons: list[str] = []
    for side, label in enumerate(labels):
        lost = sum(query.left_out[side] for query in queries if query.left_out)
        whole = lost + sum(len(query.rollouts[side]) for query in queries)
        if lost > _MOST_LEFT_OUT * whole:
            failed = f"{lost:,} of {counted(whole, 'rollout')}"
            reasons.append(f"the infrastructure failed {failed} of {label}, more than {100 * _MOST_LEFT_OUT:.0f} %")
    return tuple(reasons)


def noise(orders: OrderSums) -> str | None:
    """Return in words why verdicts say nothing; None where they do, and where nothing was judged in both orders."""
    seen = orders.information
    if not seen.pairs or seen.interval[0] > 0:
        return None
    if not orders.preference_squares + orders.shift_squares:
        return f"in none of {counted(seen.pairs, 'pair')} of different transcripts does the judge name a winner"
    low, high = seen.interval
    return (
        f"on {counted(seen.pairs, 'pair')} the judge's leads in the two orders correlate by {seen.value or 0:.2f} "
        f"[{low:.2f}, {high:.2f}]; a coin's by 0: such verdicts are noise"
    )


def orders_of(queries: Sequence[ComparedQuery]) -> OrderSums:
    """Return how the two orders agree on pairs of different transcripts of two sides; the anchors' pairs count too."""
    sums = OrderSums()
    for query in queries:
        for match in query.pairs((0, 1)) + query.pairs((0, 1), "anchor"):
            first, second = (rollout and rollout.transcript for rollout in paired_rollouts(query, match))
            if match.winner is not None and (first is None or first != second):
                shown = zip(match.shown_first, match.scores, strict=True)
                sums += orders_of_pair((at == "first", a - b) for at, (a, b) in shown)
    return sums
