"""Ranking without a judge: any table of pairwise scores, played and ranked as the scores of a run are."""

import math
from collections.abc import Callable, Mapping, Sequence
from operator import index
from typing import Any, get_args

import numpy as np

from harness.core.errors import UsageError, counted, did_you_mean, quoted
from harness.core.rankings import Match, Signal
from harness.core.records import Record
from harness.core.settings import EstimatorName, OrderPolicy, TopologyName
from harness.ranking.conclusions import Conclusion, Rule, conclude
from harness.ranking.topologies import TOPOLOGIES, Entry, Sampler, make_topology
from harness.ranking.topology import UNITS, Played, Topology, exact_mean, in_units, standings_in_units, winner


class Drawn:
    """A sampler that gives the same for the same seed."""

    def __init__(self, *seed: int) -> None:
        """Begin at a seed; its numbers are not negative."""
        self._rng = np.random.default_rng(seed[0] if len(seed) == 1 else seed)

    def sample(self, population: Sequence[int], k: int) -> list[int]:
        """Return k of the population in random order."""
        return [population[i] for i in self._rng.permutation(len(population))[:k].tolist()]

    def coins(self, n: int) -> list[bool]:
        """Return n tosses of a coin."""
        return (self._rng.random(n) < 0.5).tolist()


OrderedPair = tuple[int, int]
"""Two entrants, the first shown first."""
ScorePair = tuple[float, float]
LookUp = Callable[[int, int], ScorePair]
"""From (i, j), i shown first, to (score of i, score of j); greater is better."""


def play_table(
    topology: Topology, look_up: LookUp, stored: Callable[[OrderedPair], OrderedPair] = lambda order: order
) -> tuple[Match, ...]:
    """Play a tournament to its end by a table; return the matches, without keys of verdicts. Scores are in units.

    `stored` says which order the table has for the one that the topology asks for: a table may hold one of the two.
    """
    scores: dict[OrderedPair, ScorePair] = {}
    while pairings := topology.pairings():
        for pairing in pairings:
            orders = dict.fromkeys(map(stored, pairing.orders))
            scores |= {order: look_up(*order) for order in orders}
            sides = [[in_units(scores[o][o.index(entrant)]) for o in orders] for entrant in (pairing.a, pairing.b)]
            topology.record(pairing, *map(exact_mean, sides))
    return tuple(_match(played, scores, stored) for played in topology.matches)


def _match(
    played: Played, scores: Mapping[OrderedPair, ScorePair], stored: Callable[[OrderedPair], OrderedPair]
) -> Match:
    pairing, a, b = played.pairing, played.pairing.a, played.pairing.b
    both = ((a, b), (b, a)) if played.repeated else ()  # the pair may have met in other orders before
    used = [order for order in dict.fromkeys((*map(stored, pairing.orders), *both)) if order in scores]
    winners = {winner(*order, scores[order]) for order in used}
    return Match(
        round=pairing.round,
        a=a,
        b=b,
        verdicts=(),
        shown_first=tuple(first for first, _ in used),
        scores=tuple(scores[order] for order in used),
        score_a=float(played.score_a / UNITS),
        score_b=float(played.score_b / UNITS),
        winner=winner(a, b, (played.score_a, played.score_b)),
        repeated=played.repeated,
        flipped={a, b} <= winners,
        inconsistent=None in winners and len(winners) > 1,
    )


Table = Mapping[tuple[int, int], ScorePair] | LookUp
"""(i, j), i shown first, to (score of i, score of j); greater is better."""

_ENTRANTS_OF_FEW_PAIRS = 1000
_HIGHEST = 1e9
"""Far beyond any scale of scores; sums of squares of much greater ones are beyond computing."""
_JUDGED_TOPOLOGIES = tuple(name for name in get_args(TopologyName) if name != "none")


class RankedScores(Record):
    """A ranked table; the sequences hold one value an entrant."""

    ranks: tuple[float | None, ...]
    """0 is best; ties share the average; None where the matches do not connect all."""
    rewards: tuple[float | None, ...]
    advantages: tuple[float | None, ...]
    uncertainty: tuple[float | None, ...]
    """Posterior standard deviations: of `scores` where a fit ranks (margins, bt, pooled), else of `margins`."""
    matches: tuple[Match, ...]
    scores: tuple[float | None, ...]
    """The estimates: V for tiers, the share of wins, points above the mean, logits."""
    margins: tuple[float | None, ...]
    """By the secondary fit: points above the mean, by `pooled` beside tiers and wins, else by `margins`."""
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
    (or from an integer seed). Scores are best on the rubric's scale, 0 to 10: the prior of `margins` takes a call's
    noise to be about a point. Raises UsageError: unknown names, no entrants, a missing pair, a score that is no finite
    number. Judged in both orders, every pair has to be in the table both ways round; in one order, at least one way
    (`anchor` and `cyclic`: only the pairs that they ask for). So it never depends on the scores whether a table can be
    ranked.
    """
    check_name(topology, _JUDGED_TOPOLOGIES, "topology")
    check_name(estimator, get_args(EstimatorName), "estimator")
    check_name(order, get_args(OrderPolicy), "order")
    n = entrant_count(table) if n is None else n
    if n < 1:
        raise UsageError("there is nothing to rank: no entrants")
    if not callable(table) and n > max(_ENTRANTS_OF_FEW_PAIRS, 2 * len(table)):
        pairs = counted(len(table), "pair")
        raise UsageError(f"{quoted(n)} entrants, but scores of {pairs}: most entrants have none")
    look_up = _checked(table, n, order, whole=TOPOLOGIES[topology].all_pairs)  # pyright: ignore[reportArgumentType] - checked above
    sampler = Drawn(abs(rng)) if isinstance(rng, int) else rng
    tournament = make_topology(topology, Entry(range(n), 0, order, sampler))  # pyright: ignore[reportArgumentType] - checked above
    matches = play_table(tournament, look_up)
    conclusion = conclude(standings_in_units(tournament), matches, rule=Rule(estimator))  # pyright: ignore[reportArgumentType]
    return ranked_scores(conclusion, matches, n, tournament.name, estimator)


def ranked_scores(
    conclusion: Conclusion, matches: tuple[Match, ...], n: int, topology: str, estimator: str
) -> RankedScores:
    """Return the record of what was concluded on entrants 0..n-1."""
    ranked = [conclusion.ranked[i] for i in range(n)]
    return RankedScores(
        ranks=tuple(r.rank for r in ranked),
        rewards=tuple(r.reward for r in ranked),
        advantages=tuple(r.advantage for r in ranked),
        uncertainty=tuple(r.uncertainty for r in ranked),
        matches=matches,
        scores=tuple(r.score for r in ranked),
        margins=tuple(r.margin for r in ranked),
        p_best=tuple(r.p_best for r in ranked),
        p_above_mean=tuple(r.p_above_mean for r in ranked),
        signal=conclusion.signal,
        topology=topology,
        estimator=estimator,
    )


def entrant_count(table: Table) -> int:
    """Return how many entrants a table has. Raises UsageError for a function, which does not say."""
    if callable(table):
        raise UsageError("a function of (i, j) does not say how many entrants there are: give n")
    return 1 + max((i for pair in table for i in _pair(pair)), default=-1)


def _checked(table: Table, n: int, order: str, *, whole: bool) -> LookUp:
    """Return how to look a pair up. Raises UsageError for a table that does not fit `n`, or is not `whole`."""
    if callable(table):
        return lambda i, j: _scores(table(i, j), i, j)
    checked = checked_scores(table, n)
    for later in range(n if whole else 0):
        for sooner in range(later):
            ways = ((sooner, later) in checked, (later, sooner) in checked)
            if not (all(ways) if order == "both" else any(ways)):
                raise _missing(*((later, sooner) if ways[0] else (sooner, later)), order)

    def look_up(i: int, j: int) -> ScorePair:
        if (i, j) not in checked:
            raise _missing(i, j, order)
        return checked[i, j]

    return look_up


def checked_scores(table: Mapping[tuple[int, int], ScorePair], n: int) -> dict[tuple[int, int], ScorePair]:
    """Return a table's scores as numbers. Raises UsageError for a key or a value that is none of `n` entrants'."""
    for i, j in map(_pair, table):
        if not (0 <= i < n and 0 <= j < n and i != j):
            raise UsageError(f"the pair ({i}, {j}) is not two different entrants out of 0..{n - 1}")
    return {(i, j): _scores(scores, i, j) for (i, j), scores in table.items()}


def _pair(key: Any) -> tuple[int, int]:
    try:
        i, j = (index(entrant) for entrant in key)
    except (TypeError, ValueError):
        raise UsageError(f"the key {quoted(key)} is not a pair (i, j) of entrants") from None
    return i, j


def _scores(pair: Any, i: int, j: int) -> ScorePair:
    try:
        first, second = (float(score) for score in pair)
    except (TypeError, ValueError, OverflowError):
        expected = f"expected two numbers, the scores of {i} and {j}"
        raise UsageError(f"the pair ({i}, {j}) has {quoted(pair)}; {expected}") from None
    if not (math.isfinite(first) and math.isfinite(second)):
        raise UsageError(f"the pair ({i}, {j}) has the scores ({first}, {second}); NaN and infinities cannot be ranked")
    if max(abs(first), abs(second)) > _HIGHEST:
        raise UsageError(f"the pair ({i}, {j}) has the scores ({first:g}, {second:g}); stretch scores to 0 to 10")
    return first, second


def _missing(i: int, j: int, order: str) -> UsageError:
    orders = "; judged in both orders, every pair has to be there both ways round" if order == "both" else ""
    return UsageError(f"no scores for {i} shown before {j}{orders}")


def check_name(name: str, names: tuple[str, ...], what: str) -> None:
    """Raise UsageError for a name that is none of `names`."""
    if name not in names:
        raise UsageError(f"no {what} {quoted(name)}; there are: {', '.join(names)}{did_you_mean(name, names)}")
