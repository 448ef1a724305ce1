"""Ranking without a judge: any table of pairwise scores, played and ranked as a run's would be."""

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from operator import index
from typing import Any, get_args

import numpy as np

from harness.core.errors import UsageError, did_you_mean
from harness.core.rankings import Match, Signal
from harness.core.records import Record
from harness.ranking.conclusions import Estimator, Rule, conclude
from harness.ranking.registry import Sampler, TopologyName, make_topology
from harness.ranking.topology import OrderPolicy, Pairing, Topology, exact

Scores = tuple[float, float]
Table = Mapping[tuple[int, int], Scores] | Callable[[int, int], Scores]
"""(i, j), i shown first, to (score of i, score of j); greater is better."""

TOPOLOGIES = tuple(name for name in get_args(TopologyName) if name != "none")
_FIXED_PAIRS = frozenset({"anchor", "cyclic"})
"""Topologies that never need all pairs: what they ask for has to be there, no more."""


class _Seeded:
    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(abs(seed))

    def sample(self, population: Sequence[int], k: int) -> list[int]:
        return [population[i] for i in self._rng.permutation(len(population))[:k].tolist()]


class RankedScores(Record):
    """A ranked table; the sequences hold one value an entrant."""

    ranks: tuple[float | None, ...]
    """0 is best; ties share the average; None where the matches do not connect all."""
    rewards: tuple[float | None, ...]
    advantages: tuple[float | None, ...]
    uncertainty: tuple[float | None, ...]
    """Posterior standard deviations: of `scores` for margins and bt, else of `margins`."""
    matches: tuple[Match, ...]
    scores: tuple[float | None, ...]
    """The estimates: V for tiers, the share of wins, points above the mean, logits."""
    margins: tuple[float | None, ...]
    p_best: tuple[float | None, ...]
    p_above_mean: tuple[float | None, ...]
    signal: Signal
    topology: str
    estimator: str


def rank_scores(
    table: Table,
    topology: str = "arena",
    estimator: str = "tiers",
    order: str = "both",
    rng: Sampler | int = 0,
    *,
    n: int | None = None,
) -> RankedScores:
    """Rank entrants 0..n-1 by pairwise scores, by the topologies and estimators that runs use; entrant 0 is the anchor.

    `n` is read off a mapping's keys unless given; a function needs it. Seeds that a topology draws come from `rng`
    (or the seed given). Scores are best on the rubric's scale, 0 to 10: `margins` believes beforehand that a call's
    noise is about a point. Raises UsageError: unknown names, no entrants, a missing pair, a score that is no finite
    number. In both orders every pair has to be there both ways round, in one order at least one way (`anchor`,
    `cyclic`: those that are asked for), so that it does not depend on the scores whether a table can be ranked.
    """
    _known(topology, TOPOLOGIES, "topology")
    _known(estimator, get_args(Estimator), "estimator")
    _known(order, get_args(OrderPolicy), "order")
    if n is None:
        if callable(table):
            raise UsageError("a function of (i, j) does not say how many entrants there are: give n")
        n = 1 + max((i for pair in table for i in _pair(pair)), default=-1)
    if n < 1:
        raise UsageError("there is nothing to rank: no entrants")
    look_up = _checked(table, n, order, whole=topology not in _FIXED_PAIRS)
    draws = _Seeded(rng) if isinstance(rng, int) else rng
    tournament = make_topology(topology, range(n), 0, order, draws)  # pyright: ignore[reportArgumentType] - known, see above
    matches = _play(tournament, look_up)
    found = conclude(tournament.standings(), matches, rule=Rule(estimator))  # pyright: ignore[reportArgumentType]
    ranked = [found.ranked[i] for i in range(n)]

    def column(name: str) -> tuple[Any, ...]:
        return tuple(getattr(r, name) for r in ranked)

    return RankedScores(
        ranks=column("rank"),
        rewards=column("reward"),
        advantages=column("advantage"),
        uncertainty=column("uncertainty"),
        matches=matches,
        scores=column("score"),
        margins=column("margin"),
        p_best=column("p_best"),
        p_above_mean=column("p_above_mean"),
        signal=found.signal,
        topology=tournament.name,
        estimator=estimator,
    )


def _play(topology: Topology, look_up: Callable[[int, int], Scores]) -> tuple[Match, ...]:
    said: dict[tuple[int, int], Scores] = {}
    while pairings := topology.pairings():
        for pairing in pairings:
            said |= {shown: look_up(*shown) for shown in pairing.orders}
            topology.record(pairing, *_means(pairing, said))
    return tuple(_match(p.pairing, p.score_a, p.score_b, said, repeated=p.repeated) for p in topology.matches)


def _means(pairing: Pairing, said: Mapping[tuple[int, int], Scores]) -> tuple[Fraction, Fraction]:
    """Return each side's mean over the orders, exact."""
    own = [exact(said[o][o.index(pairing.a)]) for o in pairing.orders]
    other = [exact(said[o][o.index(pairing.b)]) for o in pairing.orders]
    return sum(own, Fraction()) / len(own), sum(other, Fraction()) / len(other)


def _match(
    pairing: Pairing, a: Fraction, b: Fraction, said: Mapping[tuple[int, int], Scores], *, repeated: bool
) -> Match:
    both = ((pairing.a, pairing.b), (pairing.b, pairing.a))
    ways = (*pairing.orders, *both) if repeated else pairing.orders
    used = [o for o in dict.fromkeys(ways) if o in said]
    named = [None if x == y else first if x > y else second for first, second in used for x, y in [said[first, second]]]
    return Match(
        round=pairing.round,
        a=pairing.a,
        b=pairing.b,
        verdicts=(),
        shown_first=tuple(o[0] for o in used),
        scores=tuple(said[o] for o in used),
        score_a=float(a),
        score_b=float(b),
        winner=None if a == b else pairing.a if a > b else pairing.b,
        repeated=repeated,
        flipped={pairing.a, pairing.b} <= set(named),
        inconsistent=None in named and any(w is not None for w in named),
    )


def _checked(table: Table, n: int, order: str, *, whole: bool) -> Callable[[int, int], Scores]:
    if callable(table):
        return lambda i, j: _scores(table(i, j), i, j)
    for i, j in map(_pair, table):
        if not (0 <= i < n and 0 <= j < n and i != j):
            raise UsageError(f"the pair ({i}, {j}) is not two different entrants out of 0..{n - 1}")
    known = {(i, j): _scores(scores, i, j) for (i, j), scores in table.items()}
    for i in range(n if whole else 0):
        for j in range(i):
            there = ((j, i) in known, (i, j) in known)
            if not (all(there) if order == "both" else any(there)):
                raise _missing(*((i, j) if there[0] else (j, i)), order)

    def look_up(i: int, j: int) -> Scores:
        if (i, j) not in known:
            raise _missing(i, j, order)
        return known[i, j]

    return look_up


def _pair(key: Any) -> tuple[int, int]:
    try:
        i, j = (index(one) for one in key)
    except (TypeError, ValueError):
        raise UsageError(f"the key {key!r} is not a pair (i, j) of entrants") from None
    return i, j


def _scores(given: Any, i: int, j: int) -> Scores:
    try:
        first, second = (float(score) for score in given)
    except (TypeError, ValueError):
        raise UsageError(
            f"the pair ({i}, {j}) has {given!r}; expected two numbers, the scores of {i} and {j}"
        ) from None
    if not (math.isfinite(first) and math.isfinite(second)):
        raise UsageError(f"the pair ({i}, {j}) has the scores ({first}, {second}); NaN and infinities cannot be ranked")
    return first, second


def _missing(i: int, j: int, order: str) -> UsageError:
    orders = "; judged in both orders, every pair has to be there both ways round" if order == "both" else ""
    return UsageError(f"no scores for {i} shown before {j}{orders}")


def _known(name: str, names: tuple[str, ...], what: str) -> None:
    if name not in names:
        raise UsageError(f"no {what} {name!r}; there are: {', '.join(names)}{did_you_mean(name, names)}")
