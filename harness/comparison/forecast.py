"""How probable it is that an agent as good as the baseline passes a gate, known before anything is spent."""

from collections import Counter
from collections.abc import Mapping, Sequence

from harness.comparison.clusters import cluster_of
from harness.comparison.libraries import statistics_module
from harness.comparison.looks import critical_values, exits
from harness.comparison.power import DEFAULT_SPREAD
from harness.core.gates import Forecast

_ONE_PAIR = 0.5
"""Standard deviation of a query's win rate over one pair that is won or lost."""
_DESIRED = 0.8
_MOST_QUERIES = 1_000_000


def default_spread(pairs: int) -> float:
    """Return the spread that is taken with so many pairs a query: a part that more pairs lessen, and one that stays.

    One pair that is won or lost has a spread of 0.5, and two pairs have `DEFAULT_SPREAD`; both parts follow from that.
    With it an equal agent passes at a margin of 0.05 in 7 % at 20 queries, 39 % at 200, 66 % at 400, 92 % at 800.
    """
    lessened = 2 * (_ONE_PAIR**2 - DEFAULT_SPREAD**2)
    return (_ONE_PAIR**2 - lessened + lessened / pairs) ** 0.5


def pass_forecast(
    queries: int, margin: float, spread: float | None, *, pairs: int = 2, shares: Sequence[float] = (1.0,)
) -> Forecast:
    """Return how probably an agent equal to the baseline passes, and how many queries let it pass in 80 %.

    `queries` are those that count as independent: of queries in clusters see `independent_queries`. Without a `spread`
    the default one for so many pairs a query is taken. `shares` says how much is judged at each look.
    """
    width = default_spread(pairs) if spread is None else spread
    return Forecast(
        probability=pass_probability(queries, margin, width, shares),
        queries=queries,
        margin=margin,
        looks=len(shares),
        spread=width,
        spread_from="default" if spread is None else "runs",
        desired=_DESIRED,
        queries_desired=_fewest_queries(margin, width, shares),
    )


def pass_probability(queries: float, margin: float, spread: float, shares: Sequence[float] = (1.0,)) -> float:
    """Return how probably the interval of an equal agent ends above 0.5 − margin, at any of the looks.

    The win rate is taken as normal about one half. With one look this is the power of Student's t test (the noncentral
    t distribution); with several, a walk that ends where it passes, or is worse.
    """
    if spread == 0:  # where all queries say the same, the interval holds what the next ones can change
        tail = statistics_module("scipy.special").ndtr(-critical_values(shares)[-1])
        return float(0.5 * tail ** (1 / queries) > 0.5 - margin)
    if len(shares) == 1:
        return _power_of_t(queries, margin * queries**0.5 / spread)
    bounds = [t_value(z, queries * share - 1) for z, share in zip(critical_values(shares), shares, strict=True)]
    shifts = [margin * (queries * share) ** 0.5 / spread for share in shares]
    high = [bound - shift for bound, shift in zip(bounds, shifts, strict=True)]
    return sum(exits(shares, high, [-bound for bound in bounds]).above)


def independent_queries(queries: Sequence[str], clusters: Mapping[str, str] | None) -> float:
    """Return how many queries count as independent, if those of a cluster say nothing that one of them does not say.

    Of clusters of one size there are as many as clusters; of others fewer (L. Kish, Survey Sampling, 1965).
    """
    sizes = Counter(cluster_of(query, clusters) for query in queries)
    return len(queries) ** 2 / sum(size**2 for size in sizes.values()) if sizes else 0.0


def t_value(z: float, freedom: float) -> float:
    """Return the value of Student's t that is passed as seldom as the standard normal z."""
    special = statistics_module("scipy.special")
    return float(-special.stdtrit(max(1.0, freedom), special.ndtr(-z)))


def _power_of_t(queries: float, shift: float) -> float:
    freedom = max(1.0, queries - 1)
    return float(statistics_module("scipy.stats").nct.sf(t_value(critical_values((1.0,))[0], freedom), freedom, shift))


def _fewest_queries(margin: float, spread: float, shares: Sequence[float]) -> int | None:
    """Return the fewest queries with which an equal agent passes in 80 %, by bisection."""
    low, high = 1, 2
    while pass_probability(high, margin, spread, shares) < _DESIRED:
        low, high = high, high * 2
        if high > _MOST_QUERIES:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if pass_probability(middle, margin, spread, shares) >= _DESIRED else (middle, high)
    return high
